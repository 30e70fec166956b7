"""Turns a chunk of Kafka records into rows of each table and dead letters: decode, shape, by table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from itertools import chain, pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.config.columns import GROWTH, Growth, LetterColumn
from spark_jobs.formats.json.native import left_by_reason, why_off
from spark_jobs.kafka.chunks import Chunk
from spark_jobs.protocol.batch import Balance
from spark_jobs.records.decoder import (
    NO_SHAPING,
    STAYS,
    BadValue,
    Decoded,
    Decoder,
    Encoded,
    Phase,
    Shaping,
)
from spark_jobs.records.shape import Origin, dead_letter_table, shape
from spark_jobs.schema.column_source import fitted
from spark_jobs.schema.iceberg_types import OFFSET, ORIGIN_COLUMNS

if TYPE_CHECKING:
    from numpy.typing import NDArray


def why_slow() -> str | None:
    """Return why this process decodes JSON without WebAssembly; None if it has it."""
    return why_off()


class NewFieldsSeen(Exception):
    """A chunk contains fields without a column in the table."""


@dataclass(frozen=True, slots=True)
class ChunkRows:
    """The result of decoding one chunk; ``balances`` count records by partition, without gaps.

    ``ignored`` counts values of fields that have no column, by dotted name. ``left_out`` are the
    offsets of records that a filter left out, by reason, ``passed`` of those that say nothing of a row, by
    the balance's term. ``routed`` are rows, in the columns of ``rows``,
    that go to other tables; ``unlisted`` counts those that stay for want of a table listed for their value.
    ``native_left`` counts values that the WebAssembly module left to the decoder in Python, by reason.
    """

    rows: pa.Table
    dead_letters: pa.Table
    balances: Mapping[int, Balance]
    ignored: Mapping[str, int] = field(default_factory=dict)
    dead_letter_phases: Mapping[str, int] = field(default_factory=dict)
    left_out: Mapping[str, list[int]] = field(default_factory=dict)
    passed: Mapping[str, list[int]] = field(default_factory=dict)
    routed: Mapping[str, pa.Table] = field(default_factory=dict)
    unlisted: Mapping[str, int] = field(default_factory=dict)
    native_left: Mapping[str, int] = field(default_factory=dict)

    @property
    def filtered_reasons(self) -> dict[str, int]:
        """Numbers of filtered records, by reason."""
        return {reason: len(offsets) for reason, offsets in self.left_out.items()}

    @property
    def routed_rows(self) -> dict[str, int]:
        """Numbers of routed rows, by table."""
        return {table: len(rows) for table, rows in self.routed.items()}


@dataclass(frozen=True, slots=True)
class RowMaker:
    """Makes rows of ``schema``, the table's whole Arrow schema, and of ``dead_letter_schema``.

    ``rejected`` says by partition and offset why a record that could be a row is to be a dead letter.
    ``batch_id`` is None of records that are in no batch yet. No record is written into columns that were
    ``kept`` when others took their place.
    """

    decoder: Decoder
    origin: Origin
    batch_id: str | None
    schema: pa.Schema
    dead_letter_schema: pa.Schema
    rejected: Mapping[int, Mapping[int, str]] = field(default_factory=dict)
    shaping: Shaping = NO_SHAPING
    letter_columns: Mapping[str, LetterColumn] = field(default_factory=dict)
    growth: Growth = GROWTH
    takes_tombstones: bool = False
    kept: frozenset[str] = frozenset()

    def make(
        self, chunk: Chunk, step: Callable[[str], AbstractContextManager[None]] = lambda _name: nullcontext()
    ) -> ChunkRows:
        """Return each record as a row, a dead letter, or a counted tombstone if it has no value.

        In an archive a tombstone is a row.

        ``step`` is entered around "decode" and "shape". Raises ``NewFieldsSeen``.
        """
        with step("decode"):
            # Truth is cheaper than equality, and nearly all values have it.
            is_whole = self.takes_tombstones or all(chunk.values) or None not in chunk.values
            records = chunk if is_whole else chunk.take(Encoded.there(chunk).rows)
            columns = pa.schema([field for field in self.schema if field.name not in ORIGIN_COLUMNS])
            left_before = left_by_reason()
            decoded = self.decoder.decode(records, self.shaping.decoded(columns), self.growth)
            native_left = left_by_reason() - left_before
            if decoded.new_fields is not None:
                raise NewFieldsSeen
            if bad := _in_kept(self.kept, decoded):
                decoded = decoded.without(bad)
        with step("shape"):
            shaped = self._shaped(decoded, records)
            if self.rejected:
                shaped = shaped.without(_rejected(self.rejected, shaped, records))
            dead_letters = dead_letter_table(
                shaped.bad, records, self.origin, self.batch_id, self.dead_letter_schema
            )
            if self.letter_columns and shaped.bad:
                # DuckDB, as below.
                from spark_jobs.records.dead_letter_columns import with_columns  # noqa: PLC0415

                dead_letters = with_columns(dead_letters, self.letter_columns)
        rows, routed = by_table(shaped)
        balances = _balances(chunk, records, shaped, routed)
        phases = Counter(bad.phase.value for bad in shaped.bad)
        left_out, passed = (
            {why: [records.offsets[i] for i in which] for why, which in each.items()}
            for each in (shaped.left_out, shaped.passed)
        )
        return ChunkRows(
            rows,
            dead_letters,
            balances,
            shaped.ignored,
            phases,
            left_out,
            passed,
            {table: each.rows for table, each in routed.items()},
            shaped.routes.unlisted if shaped.routes else {},
            native_left,
        )

    def _shaped(self, decoded: Decoded, records: Chunk) -> Decoded:
        if self.shaping.is_nothing:
            return shape(decoded, records, self.origin, self.schema)
        # DuckDB, which workers need for expressions alone.
        from spark_jobs.records.shaped_rows import shaped  # noqa: PLC0415

        return shaped(self.shaping, decoded, records, self.origin, self.schema)


def _balances(
    chunk: Chunk, records: Chunk, shaped: Decoded, routed: Mapping[str, RoutedRows]
) -> dict[int, Balance]:
    """Return the chunk's balances by partition; ``records`` with a value gave these rows."""
    there = records.counts
    bad = Counter(records.partitions[[value.index for value in shaped.bad]].tolist())
    left_out = Counter(records.partitions[[*chain(*shaped.left_out.values())]].tolist())
    passed = {term: Counter(records.partitions[[*at]].tolist()) for term, at in shaped.passed.items()}
    filtered = Counter[int]()
    if routed:
        rows = np.concatenate([each.indices for each in routed.values()])
        found, counts = np.unique(records.partitions[rows], return_counts=True)
        filtered.update(dict(zip(found.tolist(), counts.tolist(), strict=True)))
    return {
        partition: Balance(
            rows=there.get(partition, 0)
            - (bad + left_out + filtered + sum(passed.values(), Counter()))[partition],
            dead_letters=bad[partition],
            tombstones=count - there.get(partition, 0),
            **({"filtered": left_out[partition]} if left_out[partition] else {}),
            **({"routed": filtered[partition]} if filtered[partition] else {}),
            **{term: at[partition] for term, at in passed.items() if at[partition]},
        )
        for partition, count in chunk.counts.items()
    }


def _in_kept(kept: frozenset[str], decoded: Decoded) -> list[BadValue]:
    """Return the rows with a non-null value in one of these columns as bad values."""
    why = "the column stores the old values of another column, and accepts no others"
    errors = {
        decoded.indices[at]: BadValue(decoded.indices[at], Phase.DECODE, name, why)
        for name in kept.intersection(decoded.table.column_names)
        for at in pc.indices_nonzero(decoded.table.column(name).is_valid()).to_pylist()
    }
    return [*errors.values()]


def _rejected(rejected: Mapping[int, Mapping[int, str]], shaped: Decoded, records: Chunk) -> list[BadValue]:
    """Return the rows at these partitions and offsets as bad values."""
    partitions = records.partitions.tolist()
    reasons = ((row, rejected.get(partitions[row], {}).get(records.offsets[row])) for row in shaped.indices)
    return [BadValue(row, Phase.QUALITY, None, reason) for row, reason in reasons if reason is not None]


# A chunk's rows by the table that each goes to: the pipeline's own, and those it routes to.


PLACE = "(table)"  # beside the columns of rows that are looked at together: null in the pipeline's own table


def placed_rows(own: pa.Table, routed: Mapping[str, pa.Table]) -> pa.Table:
    """Return the rows of all tables in the pipeline's own columns, with their ``PLACE``, by offset."""
    if not routed:
        return own.append_column(PLACE, pa.nulls(len(own), pa.string()))
    tables = [
        each.append_column(PLACE, pa.repeat(pa.scalar(name, pa.string()), len(each)))
        for name, each in [(None, own), *((name, _as_own(rows, own.schema)) for name, rows in routed.items())]
    ]
    return pa.concat_tables(tables).sort_by(OFFSET)


def _as_own(rows: pa.Table, columns: pa.Schema) -> pa.Table:
    """Return a routed table's rows in these columns; a value that no longer fits is null."""
    found = []
    for column in columns:
        try:
            found.append(fitted(rows, pa.schema([column])).column(0))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            found.append(pa.chunked_array([pa.nulls(len(rows), column.type)]))
    return pa.Table.from_arrays(found, schema=columns)


def places_of(shaped: Decoded) -> pa.Array:
    """Return the ``PLACE`` of each row."""
    if shaped.routes is None:
        return pa.nulls(shaped.table.num_rows, pa.string())
    places = shaped.routes.places[np.asarray(shaped.indices, np.int64)]
    return pa.array(shaped.routes.tables, pa.string()).take(pa.array(places, mask=places == STAYS))


@dataclass(frozen=True, slots=True)
class RoutedRows:
    """Rows that are routed to another table, and their records' indices."""

    rows: pa.Table
    indices: NDArray[np.int64]


def taken(table: pa.Table, rows: NDArray[np.int64]) -> pa.Table:
    """Return a copy of these rows; Arrow's own ``take`` of a table costs four times as much."""
    if not len(rows):
        return table.slice(0, 0)
    (batch,) = table.combine_chunks().to_batches()
    return pa.Table.from_batches([batch.take(pa.array(rows))])


def by_table(shaped: Decoded) -> tuple[pa.Table, dict[str, RoutedRows]]:
    """Return the rows that stay and the rows of other tables, each in record order.

    The latter are cut out of one copy: a part that is kept keeps all of it.
    """
    routes = shaped.routes
    if routes is None:
        return shaped.table, {}
    indices = np.asarray(shaped.indices, np.int64)
    places = routes.places[indices]
    order = np.argsort(places, kind="stable")
    firsts = np.searchsorted(places[order], np.arange(len(routes.tables) + 1)).tolist()
    staying, going = order[: firsts[0]], taken(shaped.table, order[firsts[0] :])
    parts = zip(routes.tables, pairwise(firsts), strict=True)
    return taken(shaped.table, staying), {
        table: RoutedRows(going.slice(first - firsts[0], end - first), indices[order[first:end]])
        for table, (first, end) in parts
        if end > first
    }
