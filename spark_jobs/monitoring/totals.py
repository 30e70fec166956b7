"""What all finished attempts of a table came to, exact whenever an exporter is started.

Attempts are in the log until a checkpoint folds them into the books, so the sums are the books' and those of
the log that the books do not have. The books are summed again only when they changed, and an attempt of the
log is read once.
"""

from __future__ import annotations

import copy
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from spark_jobs.books.entries import BookEntry, books_of, entry_of
from spark_jobs.books.totals import Totals, sum_books
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.kafka.statistics import RTT_P99_US
from spark_jobs.lake.tables import load_table
from spark_jobs.protocol.commit_summary import CommitSummary
from spark_jobs.txlog.entries import IcebergSnapshotCreated, ParquetWritten

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

    from spark_jobs.txlog.store import TxlogStore


@dataclass(slots=True)
class _Kept:
    """What is remembered of a table between looks."""

    logged: dict[str, BookEntry] = field(default_factory=dict)
    books_snapshot_id: int | None = None
    in_books: Totals = field(default_factory=Totals)
    known_to_books: frozenset[str] = frozenset()
    lifetime: Counter[str] = field(default_factory=Counter)
    rtt_p99_us: int | None = None


@dataclass(frozen=True, slots=True)
class TableTotals:
    """Sums since the table was made; the rest is since the first look."""

    totals: Totals
    lifetime: Counter[str]
    rtt_p99_us: int | None


class TotalsReader:
    """Looks again and again."""

    def __init__(self, store: TxlogStore) -> None:
        self._store = store
        self._kept: dict[str, _Kept] = {}

    def read(self, catalog: Catalog, pipeline: PipelineConfig, table_uuid: str) -> TableTotals:
        """Return the sums as of now. Raises ``RetryableError``, ``ConfigError`` and ``CorruptLog``."""
        kept = self._kept.setdefault(table_uuid, _Kept())
        # The log first: what a checkpoint folds in between is then in both, never in neither.
        self._read_log(kept, table_uuid)
        books = load_table(catalog, books_of(pipeline.table))
        snapshot_id = books.metadata.current_snapshot_id if books is not None else None
        if books is not None and snapshot_id != kept.books_snapshot_id:
            kept.in_books, kept.known_to_books = sum_books(books, table_uuid, kept.logged)
            kept.books_snapshot_id = snapshot_id
        totals = copy.deepcopy(kept.in_books)
        for uuid, entry in kept.logged.items():
            if uuid not in kept.known_to_books:
                totals.add(entry)
        return TableTotals(totals, kept.lifetime, kept.rtt_p99_us)

    def _read_log(self, kept: _Kept, table_uuid: str) -> None:
        finished = set(self._store.finished(table_uuid))
        unread = finished - kept.logged.keys()
        kept.logged = {uuid: entry for uuid, entry in kept.logged.items() if uuid in finished}
        for attempt in self._store.read(table_uuid, unread) if unread else ():
            entry = entry_of(attempt)
            if entry is None:
                continue  # folded meanwhile: it is in the books
            kept.logged[attempt.uuid] = entry
            written, created = attempt.entry(ParquetWritten), attempt.entry(IcebergSnapshotCreated)
            kafka = CommitSummary(written.summary).kafka if written else {}
            kept.rtt_p99_us = kafka.pop(RTT_P99_US, kept.rtt_p99_us)
            kept.lifetime.update(kafka, conflicts=created.conflicts if created else 0)
