"""The exported metrics: names, meanings and labels. Dashboards and alerts use these names."""

from __future__ import annotations

from dataclasses import dataclass

GAUGE, COUNTER, HISTOGRAM = "gauge", "counter", "histogram"
_TOTAL = "since the table was created"
# Attempts that are still in the log when the exporter starts are counted as well.
_SINCE_START = "since this exporter started, and in attempts that were still in the transaction log then"


@dataclass(frozen=True, slots=True)
class Family:
    """One metric; its labels are ``pipeline`` and these ``labels``."""

    name: str
    kind: str
    help: str
    labels: tuple[str, ...] = ()


FAMILIES = {
    family.name: family
    for family in (
        Family("sluice_pipeline_readable", GAUGE, "1 if topic and table can be read, else 0."),
        Family(
            "sluice_lag_records", GAUGE, "Offsets between the table and the end of the topic.", ("partition",)
        ),
        Family(
            "sluice_valid_through_timestamp_seconds",
            GAUGE,
            "Record time up to which the table is complete, as a Unix time.",
        ),
        Family(
            "sluice_freshness_seconds",
            GAUGE,
            "Age of the oldest record that is not in the table; 0 if none waits.",
        ),
        Family(
            "sluice_last_tick_timestamp_seconds",
            GAUGE,
            "Unix time of the backlog sensor's last tick on this machine.",
        ),
        Family("sluice_last_commit_timestamp_seconds", GAUGE, "Unix time of the last commit of a drain."),
        Family(
            "sluice_retention_headroom_seconds",
            GAUGE,
            "Time until Kafka may delete the next record that waits; +Inf if none is at risk.",
        ),
        Family("sluice_paused", GAUGE, "1 while the pipeline is paused by an operator, else 0."),
        Family("sluice_held_batches", GAUGE, "Batches that failed a quality gate and wait for a decision."),
        Family("sluice_table_rows", GAUGE, "Rows in the table."),
        Family("sluice_table_data_files", GAUGE, "Data files of the table."),
        Family("sluice_table_uncompacted_files", GAUGE, "Data files written since the last compaction."),
        Family("sluice_table_bytes", GAUGE, "Bytes of the table's data files."),
        Family(
            "sluice_table_snapshots", GAUGE, "Snapshots of the table. Every snapshot makes commits slower."
        ),
        Family("sluice_check_passed", GAUGE, "1 if the check passes, else 0.", ("check", "severity")),
        Family("sluice_audit_timestamp_seconds", GAUGE, "Unix time of the last audit against Kafka."),
        Family("sluice_audit_findings", GAUGE, "Records found by the last audit, by kind.", ("kind",)),
        Family("sluice_batches_total", COUNTER, f"Commits {_TOTAL}.", ("kind",)),
        Family("sluice_attempts_given_up_total", COUNTER, f"Attempts that ended without a commit, {_TOTAL}."),
        Family("sluice_rows_written_total", COUNTER, f"Rows written {_TOTAL}."),
        Family("sluice_dead_letters_total", COUNTER, f"Records that became dead letters, {_TOTAL}."),
        Family(
            "sluice_dead_letters_by_phase_total",
            COUNTER,
            f"Dead letters by the phase that failed, {_TOTAL}; `unknown` if written by an earlier version.",
            ("phase",),
        ),
        Family(
            "sluice_filtered_total",
            COUNTER,
            f"Records that a filter left out, by reason: `missing` or `excluded`, {_TOTAL}.",
            ("reason",),
        ),
        Family(
            "sluice_routed_rows_total",
            COUNTER,
            f"Routed rows by the table that they were written to, {_TOTAL}.",
            ("table",),
        ),
        Family("sluice_tombstones_total", COUNTER, f"Records without a value, {_TOTAL}."),
        Family("sluice_offsets_total", COUNTER, f"Drained offsets by outcome, {_TOTAL}.", ("term",)),
        Family("sluice_read_bytes_total", COUNTER, f"Bytes of keys and values read, {_TOTAL}."),
        Family("sluice_written_bytes_total", COUNTER, f"Bytes of files written, {_TOTAL}."),
        Family("sluice_written_files_total", COUNTER, f"Data files written, {_TOTAL}."),
        Family(
            "sluice_batch_duration_seconds",
            HISTOGRAM,
            f"Time of a batch from plan to completion, {_TOTAL}.",
        ),
        Family("sluice_commit_duration_seconds", HISTOGRAM, f"Time of a batch's commit, {_TOTAL}."),
        Family(
            "sluice_commit_conflicts_total",
            COUNTER,
            f"Times that another writer committed first, {_SINCE_START}.",
        ),
        Family(
            "sluice_kafka_received_bytes_total", COUNTER, f"Bytes received by librdkafka, {_SINCE_START}."
        ),
        Family(
            "sluice_kafka_received_messages_total",
            COUNTER,
            f"Messages received by librdkafka, {_SINCE_START}.",
        ),
        Family("sluice_kafka_errors_total", COUNTER, f"Failed or late responses of brokers, {_SINCE_START}."),
        Family(
            "sluice_native_left_total",
            COUNTER,
            f"JSON values that the WebAssembly module left to the slower decoder, by reason, {_SINCE_START}.",
            ("reason",),
        ),
        Family(
            "sluice_failures_total",
            COUNTER,
            "Failed drains, replays and upkeep runs on this machine, by error code.",
            ("code",),
        ),
        Family(
            "sluice_kafka_rtt_p99_seconds",
            GAUGE,
            "99th percentile of the round trip to the slowest broker, in the last batch.",
        ),
    )
}
