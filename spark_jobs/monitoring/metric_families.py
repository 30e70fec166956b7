"""The metrics there are: names, what they mean, labels. Dashboards and alerts are made of these names."""

from __future__ import annotations

from dataclasses import dataclass

GAUGE, COUNTER, HISTOGRAM = "gauge", "counter", "histogram"
_SINCE_BIRTH = "since the table was made"
_SINCE_START = "since this exporter started, and what the log held then"


@dataclass(frozen=True, slots=True)
class Family:
    """One metric; every one has the label ``pipeline`` before these ``labels``."""

    name: str
    kind: str
    help: str
    labels: tuple[str, ...] = ()


FAMILIES = {
    family.name: family
    for family in (
        Family("sluice_pipeline_readable", GAUGE, "1 when topic and table could be looked at, else 0."),
        Family("sluice_lag_records", GAUGE, "Offsets from the table's to the topic's end.", ("partition",)),
        Family("sluice_valid_through_timestamp_seconds", GAUGE, "Up to which record time all is there."),
        Family("sluice_freshness_seconds", GAUGE, "Age of the oldest record that waits; 0 without."),
        Family("sluice_last_tick_timestamp_seconds", GAUGE, "When a sensor here last looked."),
        Family("sluice_last_commit_timestamp_seconds", GAUGE, "When a drain last committed."),
        Family(
            "sluice_retention_headroom_seconds",
            GAUGE,
            "Until Kafka may delete the next record; +Inf when nothing is at risk.",
        ),
        Family("sluice_paused", GAUGE, "1 while an operator's pause holds the pipeline."),
        Family("sluice_held_batches", GAUGE, "Batches that a quality gate holds back."),
        Family("sluice_table_rows", GAUGE, "Rows of the table."),
        Family("sluice_table_data_files", GAUGE, "Data files of the table."),
        Family("sluice_table_uncompacted_files", GAUGE, "Data files that came after the last compaction."),
        Family("sluice_table_bytes", GAUGE, "Bytes of the table's data files."),
        Family("sluice_table_snapshots", GAUGE, "Snapshots it keeps; each costs every commit time."),
        Family("sluice_check_passed", GAUGE, "1 when the check passes, else 0.", ("check", "severity")),
        Family("sluice_audit_timestamp_seconds", GAUGE, "When records were last compared with Kafka."),
        Family("sluice_audit_findings", GAUGE, "What that audit found.", ("kind",)),
        Family("sluice_batches_total", COUNTER, f"Landed commits {_SINCE_BIRTH}.", ("kind",)),
        Family("sluice_attempts_given_up_total", COUNTER, f"Attempts that never landed, {_SINCE_BIRTH}."),
        Family("sluice_rows_written_total", COUNTER, f"Rows written {_SINCE_BIRTH}."),
        Family("sluice_dead_letters_total", COUNTER, f"Records that became dead letters {_SINCE_BIRTH}."),
        Family(
            "sluice_dead_letters_by_phase_total",
            COUNTER,
            f"The same by phase, `unknown` of batches that an earlier version wrote, {_SINCE_BIRTH}.",
            ("phase",),
        ),
        Family(
            "sluice_filtered_total",
            COUNTER,
            f"Records that a filter left out, `missing` or `excluded`, {_SINCE_BIRTH}.",
            ("reason",),
        ),
        Family(
            "sluice_routed_rows_total",
            COUNTER,
            f"Rows by the table that they were routed to, {_SINCE_BIRTH}.",
            ("table",),
        ),
        Family("sluice_tombstones_total", COUNTER, f"Records without a value {_SINCE_BIRTH}."),
        Family("sluice_offsets_total", COUNTER, f"What became of offsets, {_SINCE_BIRTH}.", ("term",)),
        Family("sluice_read_bytes_total", COUNTER, f"Bytes of keys and values read {_SINCE_BIRTH}."),
        Family("sluice_written_bytes_total", COUNTER, f"Bytes of files written {_SINCE_BIRTH}."),
        Family("sluice_written_files_total", COUNTER, f"Data files written {_SINCE_BIRTH}."),
        Family("sluice_batch_duration_seconds", HISTOGRAM, f"From plan to done, {_SINCE_BIRTH}."),
        Family("sluice_commit_duration_seconds", HISTOGRAM, f"Getting the commit in, {_SINCE_BIRTH}."),
        Family("sluice_commit_conflicts_total", COUNTER, f"Others' commits that came first, {_SINCE_START}."),
        Family("sluice_kafka_received_bytes_total", COUNTER, f"Bytes librdkafka received, {_SINCE_START}."),
        Family("sluice_kafka_received_messages_total", COUNTER, f"Messages it received, {_SINCE_START}."),
        Family("sluice_kafka_errors_total", COUNTER, f"Failed or late answers of brokers, {_SINCE_START}."),
        Family("sluice_failures_total", COUNTER, "Failed drains, replays, upkeep here.", ("code",)),
        Family("sluice_kafka_rtt_p99_seconds", GAUGE, "Slowest broker's round trip in the last batch."),
    )
}
