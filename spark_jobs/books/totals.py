"""Sums over finished attempts, from the log or the batch history, for counters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.books.columns import BY_NAME, further_terms
from spark_jobs.books.entries import BookEntry
from spark_jobs.lake.row_filters import equals
from spark_jobs.protocol.batch import TERMS, Balance
from spark_jobs.protocol.work import work_of

if TYPE_CHECKING:
    from pyiceberg.table import Table

# Seconds. A batch is anything from an empty one to the longest a run may last.
BATCH_BOUNDS = (1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
COMMIT_BOUNDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
COUNTED = ("bytes_read", "file_bytes", "data_files")
_COLUMNS = ("attempt", "kind", "landed", "durations_ms", *TERMS, *COUNTED)


@dataclass(slots=True)
class Distribution:
    """Number of durations up to each bound, their total number and their sum."""

    bounds: tuple[float, ...]
    within: Counter[float] = field(default_factory=Counter)
    count: int = 0
    seconds: float = 0.0

    def add(self, seconds: float) -> None:
        """Count one duration."""
        self.within.update(bound for bound in self.bounds if seconds <= bound)
        self.count += 1
        self.seconds += seconds

    def buckets(self) -> list[tuple[str, float]]:
        """Return buckets as Prometheus expects them: cumulative, the last without a bound."""
        return [*((str(bound), float(self.within[bound])) for bound in self.bounds), ("+Inf", self.count)]


@dataclass(slots=True)
class Totals:
    """Landed commits by kind, abandoned attempts, and sums of ``balance`` and ``COUNTED`` over landed ones.

    ``dead_letter_phases`` are the dead letters by phase, as far as they were counted so, ``filtered_reasons``
    what filters left out, ``routed_tables`` the rows that went to other tables.
    """

    landed: Counter[str] = field(default_factory=Counter)
    given_up: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    balance: Balance = field(default_factory=Balance)
    dead_letter_phases: Counter[str] = field(default_factory=Counter)
    filtered_reasons: Counter[str] = field(default_factory=Counter)
    routed_tables: Counter[str] = field(default_factory=Counter)
    batches: Distribution = field(default_factory=lambda: Distribution(BATCH_BOUNDS))
    commits: Distribution = field(default_factory=lambda: Distribution(COMMIT_BOUNDS))

    def add(self, entry: BookEntry) -> None:
        """Count one finished attempt; one that never landed only counts as such."""
        if not entry.is_landed:
            self.given_up += 1
            return
        self.landed[entry.kind] += 1
        self.balance += entry.counts.balance
        for name in BY_NAME:
            getattr(self, name).update(getattr(entry.counts, name))
        self.counts.update({name: getattr(entry.counts, name) for name in COUNTED})
        self.time(entry.kind, entry.durations_ms)

    def time(self, kind: str, durations_ms: Mapping[str, int]) -> None:
        """Add the durations of a landed attempt by step; attempts finished by recovery have none."""
        # An act writes nothing that would take time.
        if durations_ms and work_of(kind).writes_files:
            self.batches.add(sum(durations_ms.values()) / 1000)
            self.commits.add(durations_ms.get("commit", 0) / 1000)


def sum_books(books: Table, table_uuid: str, logged: Collection[str]) -> tuple[Totals, frozenset[str]]:
    """Return the sums, and the ``logged`` attempts that they already include."""
    totals, known = Totals(), set[str]()
    names = pa.array(sorted(logged), pa.string())
    further = further_terms(books)
    later = [name for name in BY_NAME if name in books.schema().column_names]
    columns = (*_COLUMNS, *later, *(["balance"] if further else []))
    rows = books.scan(equals("table_uuid", table_uuid), selected_fields=columns)
    for batch in rows.to_arrow_batch_reader():
        attempts = batch.column("attempt").cast(pa.string())
        known.update(attempts.filter(pc.is_in(attempts, value_set=names)).to_pylist())
        _add(totals, batch, further)
    return totals, frozenset(known)


def _add(totals: Totals, batch: pa.RecordBatch, further: Collection[str]) -> None:
    landed = batch.filter(batch.column("landed"))
    totals.given_up += batch.num_rows - landed.num_rows
    for pair in pc.value_counts(landed.column("kind").cast(pa.string())).to_pylist():
        totals.landed[pair["values"]] += pair["counts"]
    for name in COUNTED:
        totals.counts[name] += pc.sum(landed.column(name)).as_py() or 0
    terms = {term: landed.column(term) for term in TERMS}
    terms |= {term: pc.struct_field(pc.list_flatten(landed.column("balance")), term) for term in further}
    totals.balance += Balance({term: pc.sum(offsets).as_py() or 0 for term, offsets in terms.items()})
    for name in set(BY_NAME).intersection(landed.schema.names):
        for numbers in landed.column(name).to_pylist():
            getattr(totals, name).update(dict(numbers or ()))
    for kind, durations in zip(
        landed.column("kind").to_pylist(), landed.column("durations_ms").to_pylist(), strict=True
    ):
        totals.time(kind, dict(durations or ()))
