"""Sums over what the books hold of one table; streams the few columns it needs."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.books.attempt_totals import COMMIT_STEP, COUNTED, Totals
from spark_jobs.books.columns import further_terms
from spark_jobs.lake.row_filters import equals
from spark_jobs.protocol.batch import TERMS, Balance, BatchKind

if TYPE_CHECKING:
    from pyiceberg.table import Table

_COLUMNS = ("attempt", "kind", "landed", "durations_ms", *TERMS, *COUNTED)


def sum_books(books: Table, table_uuid: str, logged: Collection[str]) -> tuple[Totals, frozenset[str]]:
    """The sums, and which of the ``logged`` attempts are in them already."""
    totals, known = Totals(), set[str]()
    names = pa.array(sorted(logged), pa.string())
    further = further_terms(books)
    columns = (*_COLUMNS, "balance") if further else _COLUMNS
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
    for kind, durations in zip(
        landed.column("kind").to_pylist(), landed.column("durations_ms").to_pylist(), strict=True
    ):
        steps = dict(durations or ())
        if steps and BatchKind(kind).writes_files:
            totals.batches.add([sum(steps.values()) / 1000])
            totals.commits.add([steps.get(COMMIT_STEP, 0) / 1000])
