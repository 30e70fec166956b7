"""The Prometheus collector: looks at every pipeline when it is scraped, at most every 15 s.

It keeps no counts of its own: gauges come from tables, topics and logs, counters from the books and the log,
so that a restarted exporter, or one on another machine, returns the same values.
"""

from __future__ import annotations

import copy
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from spark_jobs.books.entries import BookEntry, books_of, entry_of
from spark_jobs.books.totals import Totals, sum_books
from spark_jobs.checks.facts import HealthFacts
from spark_jobs.config.secrets import resolve
from spark_jobs.config.settings import PipelineConfig, SluiceConfig
from spark_jobs.connections.connect import open_catalog, open_log
from spark_jobs.connections.endpoints import last_beat_ms
from spark_jobs.kafka.errors import RTT_P99_US
from spark_jobs.lake.catalog import released
from spark_jobs.lake.tables import load_table
from spark_jobs.monitoring.checkup import Health, check_up
from spark_jobs.monitoring.metric_families import COUNTER, FAMILIES, GAUGE, HISTOGRAM
from spark_jobs.monitoring.survey import Surveyor, TableState
from spark_jobs.notices.failures import read_failures
from spark_jobs.protocol.commit_summary import CommitSummary
from spark_jobs.protocol.errors import SluiceError
from spark_jobs.txlog.entries import IcebergSnapshotCreated, ParquetWritten

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

    from spark_jobs.txlog.store import TxlogStore


CACHE_SECONDS = 15.0
PATIENCE_SECONDS = 3.0  # for each server; Prometheus waits ten seconds in total
# A topic with more partitions than this gets one series, `partition="all"`.
MAX_PARTITION_SERIES = 64
MILLISECONDS = 1000
_KINDS: Mapping[str, Callable[..., Metric]] = {
    GAUGE: GaugeMetricFamily,
    COUNTER: CounterMetricFamily,
    HISTOGRAM: HistogramMetricFamily,
}


class SluiceCollector(Collector):
    """The collector of all pipelines' metrics; thread-safe, since scrapes may overlap."""

    def __init__(self, config: SluiceConfig) -> None:
        self._config = config
        self._surveyor = Surveyor(config, patience_seconds=PATIENCE_SECONDS)
        self._lock = threading.Lock()
        self._looked_at = -math.inf
        self._metrics: list[Metric] = []
        self._log = open_log(config)
        self._totals = TotalsReader(self._log)

    def describe(self) -> list[Metric]:
        """Return nothing, so that registering sends no request."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield every family, as of at most ``CACHE_SECONDS`` ago."""
        with self._lock:
            if time.monotonic() - self._looked_at >= CACHE_SECONDS:
                self._metrics = self._look()
                self._looked_at = time.monotonic()
            metrics = self._metrics
        yield from metrics

    def _look(self) -> list[Metric]:
        families: dict[str, Any] = {name: _family(name) for name in FAMILIES}
        found, ticked_ms = check_up(self._surveyor), last_beat_ms(self._config.home)
        for health in found:
            _add_health(families, health, ticked_ms)
            name = health.pipeline.name
            for code, failures in read_failures(self._config.home, name).counts.items():
                families["sluice_failures_total"].add_metric([name, code], failures)
        # An unreadable value has no sample: a counter that fell to 0 would look like a reset.
        with suppress(SluiceError):
            self._log.store.use(resolve(self._config.log_properties))
            if all(health.table is None for health in found):
                return list(families.values())  # no table, or a catalog that does not answer
            with released(open_catalog(self._config)) as catalog:
                for health in found:
                    self._add_totals(families, catalog, health)
        return list(families.values())

    def _add_totals(self, families: dict[str, Any], catalog: Catalog, health: Health) -> None:
        with suppress(SluiceError):
            if health.table is not None:
                totals = self._totals.read(catalog, health.pipeline, health.table.uuid)
                _add_totals(families, health.pipeline.name, totals)


def _family(name: str) -> Metric:
    family = FAMILIES[name]
    return _KINDS[family.kind](name, family.help, labels=("pipeline", *family.labels))


def _add_health(families: dict[str, Any], health: Health, ticked_ms: int | None) -> None:
    """Add the gauges of one look; an unknown value has no sample, so that it does not look like zero."""
    name, facts = health.pipeline.name, health.facts
    for result in health.results:
        labels = [name, result.name, result.severity.value]
        families["sluice_check_passed"].add_metric(labels, result.passed)
    for partition, records in _lag_series(facts.lag):
        families["sluice_lag_records"].add_metric([name, partition], records)
    if facts.audit is not None:
        for kind in ("missing", "duplicates", "differing", "outdated", "rounded", "removed", "foreign"):
            families["sluice_audit_findings"].add_metric([name, kind], getattr(facts.audit, kind))
        families["sluice_audit_findings"].add_metric([name, "damaged"], len(facts.audit.damaged))
    if ticked_ms is not None:
        families["sluice_last_tick_timestamp_seconds"].add_metric([name], ticked_ms / MILLISECONDS)
    for metric, value in (_gauges(facts) | _table_gauges(facts, health.table)).items():
        families[metric].add_metric([name], value)


def _gauges(facts: HealthFacts) -> dict[str, float]:
    gauges: dict[str, float] = {"sluice_pipeline_readable": facts.is_known}
    if facts.is_known:
        gauges["sluice_held_batches"] = len(facts.held)
    if facts.audit is not None:
        gauges["sluice_audit_timestamp_seconds"] = facts.audit.audited_at_ms / MILLISECONDS
    if facts.table is not None:
        if facts.is_retention_known:
            left = facts.headroom_ms
            gauges["sluice_retention_headroom_seconds"] = math.inf if left is None else left / MILLISECONDS
        gauges["sluice_freshness_seconds"] = (facts.now_ms - facts.oldest_since_ms) / MILLISECONDS
    if (through := facts.valid_through_ms) is not None:
        gauges["sluice_valid_through_timestamp_seconds"] = through / MILLISECONDS
    return gauges


def _table_gauges(facts: HealthFacts, table: TableState | None) -> dict[str, float]:
    """Return the gauges of the table, with Iceberg's totals from the newest snapshot."""
    if table is None or facts.table is None:
        return {}
    summary = CommitSummary(table.summary)
    data_files = summary.count("total-data-files")
    return {
        "sluice_last_commit_timestamp_seconds": facts.table.committed_at_ms / MILLISECONDS,
        "sluice_paused": facts.table.paused is not None,
        "sluice_table_snapshots": facts.table.snapshots,
        "sluice_table_rows": summary.live_rows,
        "sluice_table_data_files": data_files,
        "sluice_table_bytes": summary.count("total-files-size"),
        "sluice_table_uncompacted_files": max(0, data_files - table.progress.compacted_files),
    }


def _lag_series(lag: Mapping[int, int]) -> Iterator[tuple[str, int]]:
    if len(lag) > MAX_PARTITION_SERIES:
        yield "all", sum(lag.values())
        return
    for partition, records in sorted(lag.items()):
        yield str(partition), records


def _add_totals(families: dict[str, Any], name: str, found: TableTotals) -> None:
    totals, lifetime = found.totals, found.lifetime
    for kind, number in sorted(totals.landed.items()):
        families["sluice_batches_total"].add_metric([name, kind], number)
    for term, offsets in totals.balance.items():
        families["sluice_offsets_total"].add_metric([name, term], offsets)
    unknown = totals.balance.dead_letters - sum(totals.dead_letter_phases.values())
    for phase, letters in {**totals.dead_letter_phases, "unknown": unknown}.items():
        families["sluice_dead_letters_by_phase_total"].add_metric([name, phase], letters)
    for reason, records in totals.filtered_reasons.items():
        families["sluice_filtered_total"].add_metric([name, reason], records)
    for table, rows in totals.routed_tables.items():
        families["sluice_routed_rows_total"].add_metric([name, table], rows)
    for reason, values in found.native_left.items():
        families["sluice_native_left_total"].add_metric([name, reason], values)
    counters = {
        "sluice_attempts_given_up_total": totals.given_up,
        "sluice_rows_written_total": totals.balance.rows,
        "sluice_dead_letters_total": totals.balance.dead_letters,
        "sluice_tombstones_total": totals.balance.tombstones,
        "sluice_read_bytes_total": totals.counts["bytes_read"],
        "sluice_written_bytes_total": totals.counts["file_bytes"],
        "sluice_written_files_total": totals.counts["data_files"],
        "sluice_commit_conflicts_total": lifetime["conflicts"],
        "sluice_kafka_received_bytes_total": lifetime["received_bytes"],
        "sluice_kafka_received_messages_total": lifetime["received_messages"],
        "sluice_kafka_errors_total": lifetime["errors"],
    }
    for metric, number in counters.items():
        families[metric].add_metric([name], number)
    for step, spread in (("batch", totals.batches), ("commit", totals.commits)):
        families[f"sluice_{step}_duration_seconds"].add_metric([name], spread.buckets(), spread.seconds)
    if found.rtt_p99_us is not None:
        families["sluice_kafka_rtt_p99_seconds"].add_metric([name], found.rtt_p99_us / 1_000_000)


# The totals of all finished attempts of a table, exact after any restart.
#
# Attempts are in the log until a checkpoint moves them into the books, so the totals are those of the books
# plus those of attempts that are only in the log. The books are read again only when they have changed, and
# an attempt of the log is read once.


@dataclass(slots=True)
class TableTotals:
    """Totals since the table was created, and the state between looks; ``lifetime`` is since the first."""

    totals: Totals = field(default_factory=Totals)
    logged: dict[str, BookEntry] = field(default_factory=dict)
    books_snapshot_id: int | None = None
    in_books: Totals = field(default_factory=Totals)
    known_to_books: frozenset[str] = frozenset()
    lifetime: Counter[str] = field(default_factory=Counter)
    native_left: Counter[str] = field(default_factory=Counter)
    rtt_p99_us: int | None = None


class TotalsReader:
    """Reads the totals of tables, incrementally between looks."""

    def __init__(self, store: TxlogStore) -> None:
        self._store = store
        self._kept: dict[str, TableTotals] = {}

    def read(self, catalog: Catalog, pipeline: PipelineConfig, table_uuid: str) -> TableTotals:
        """Return the current totals. Raises ``RetryableError``, ``ConfigError`` and ``CorruptLog``."""
        kept = self._kept.setdefault(table_uuid, TableTotals())
        # The log first: an attempt that a checkpoint moves meanwhile is then in both, never in neither.
        self._read_log(kept, table_uuid)
        books = load_table(catalog, books_of(pipeline.table))
        snapshot_id = books.metadata.current_snapshot_id if books is not None else None
        if books is not None and snapshot_id != kept.books_snapshot_id:
            kept.in_books, kept.known_to_books = sum_books(books, table_uuid, kept.logged)
            kept.books_snapshot_id = snapshot_id
        kept.totals = copy.deepcopy(kept.in_books)
        for uuid, entry in kept.logged.items():
            if uuid not in kept.known_to_books:
                kept.totals.add(entry)
        return kept

    def _read_log(self, kept: TableTotals, table_uuid: str) -> None:
        finished = set(self._store.finished(table_uuid))
        unread = finished - kept.logged.keys()
        kept.logged = {uuid: entry for uuid, entry in kept.logged.items() if uuid in finished}
        for attempt in self._store.read(table_uuid, unread) if unread else ():
            entry = entry_of(attempt)
            if entry is None:
                continue  # moved into the books meanwhile
            kept.logged[attempt.uuid] = entry
            written, created = attempt.entry(ParquetWritten), attempt.entry(IcebergSnapshotCreated)
            summary = CommitSummary(written.summary if written else {})
            kafka = summary.kafka
            kept.native_left.update(summary.native_left)
            kept.rtt_p99_us = kafka.pop(RTT_P99_US, kept.rtt_p99_us)
            kept.lifetime.update(kafka, conflicts=created.conflicts if created else 0)
