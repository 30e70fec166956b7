"""Comparison of rows with their records, as the format's plain decoder reads them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isnan
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.config.settings import PipelineConfig
from spark_jobs.lake.tables import progress_of
from spark_jobs.protocol.progress_parts import old_column_names
from spark_jobs.records.decoder import NO_SHAPING, Decoded, PlainDecoder, Shaping
from spark_jobs.records.reading_plan import ReadingPlan
from spark_jobs.records.row_maker import PLACE, places_of
from spark_jobs.records.shape import Origin
from spark_jobs.records.shaped_rows import shaped
from spark_jobs.schema.archive_columns import INGEST_TIMESTAMP, KAFKA
from spark_jobs.schema.iceberg_types import GENERATION, INGESTED_AT, OFFSET, ORIGIN_COLUMNS

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyiceberg.table import Table

    from spark_jobs.connections.connect import Connections
    from spark_jobs.kafka.reader import Chunk


# Not Kafka's: they differ between a record and the row that was made of it at another time.
NOT_COMPARED = {GENERATION, INGESTED_AT}


@dataclass(frozen=True, slots=True)
class Differences:
    """Offsets of rows that differ from their records.

    ``rounded`` rows would be, but for integers of which a column of floating point holds only the nearest
    double, as versions before wrote them: by the column and the type that would hold them.
    """

    differing: NDArray[np.int64]
    rounded: Mapping[tuple[str, str], NDArray[np.int64]] = field(default_factory=dict)

    @property
    def every_rounded(self) -> NDArray[np.int64]:
        """The rows with any rounded integer, once each."""
        return np.unique(np.concatenate([np.empty(0, np.int64), *self.rounded.values()]))


@dataclass(frozen=True, slots=True)
class RowCheck:
    """Comparison of rows of ``schema``, the table's whole Arrow schema, with their records.

    With ``ignores_more`` a record may say what no column holds. ``kept`` columns hold what records said of
    others that took their place: they are passed over.
    """

    decoder: PlainDecoder
    origin: Origin
    schema: pa.Schema
    ignores_more: bool = False
    kept: frozenset[str] = frozenset()
    shaping: Shaping = NO_SHAPING
    takes_tombstones: bool = False

    def left_out(self, chunk: Chunk, offsets: NDArray[np.int64]) -> dict[str, NDArray[np.int64]]:
        """Return the offsets of records that the filter leaves out, by reason.

        And those that say nothing of a row, by their kind in a batch's balance.
        """
        if not len(offsets):
            return {}
        records = chunk.take(np.flatnonzero(np.isin(chunk.offsets, offsets)).tolist())
        rows = self.rows_of(records)
        every = np.asarray(records.offsets, np.int64)
        return {why: every[[*indices]] for why, indices in {**rows.left_out, **rows.passed}.items()}

    def rows_of(self, records: Chunk) -> Decoded:
        """Return the expected rows of these records, without records that cannot be rows."""
        return shaped(self.shaping, self._decoded(records), records, self.origin, self.schema)

    def _decoded(self, records: Chunk) -> Decoded:
        columns = pa.schema([column for column in self.schema if column.name not in ORIGIN_COLUMNS])
        return self.decoder.decode(records, self.shaping.decoded(columns))

    def compare(self, chunk: Chunk, held_rows: pa.Table) -> Differences:
        """Return the differences between rows and the chunk's records.

        ``held_rows`` are in offset order, one an offset; a ``PLACE`` that they have is compared as well. A
        record that says what no column holds was drained wrongly, or the column was dropped since: that is a
        difference in all of the chunk. So is the row of a record that can be none, but for those with a value
        in a kept column.
        """
        held_offsets = held_rows.column(OFFSET).to_numpy()
        is_held = np.isin(chunk.offsets, held_offsets)
        records = chunk if is_held.all() else chunk.take(np.flatnonzero(is_held).tolist())
        plain = self._decoded(records)
        if plain.has_more and not self.ignores_more:
            return Differences(np.asarray(chunk.offsets))
        made = shaped(self.shaping, plain, records, self.origin, self.schema)
        rows = made.table
        if PLACE in held_rows.column_names:
            rows = rows.append_column(PLACE, places_of(made))
        offsets: NDArray[np.int64] = rows.column(OFFSET).to_numpy()
        without = np.setdiff1d(records.offsets, offsets, assume_unique=True)
        baseless = np.setdiff1d(without, self._keeping(held_rows))
        held_rows = held_rows.take(np.searchsorted(held_offsets, offsets))
        same = np.ones(len(offsets), dtype=bool)
        for name in (name for name in rows.column_names if name not in NOT_COMPARED | self.kept):
            held, said = held_rows.column(name), rows.column(name)
            if plain.of_kafka and name == KAFKA:
                held, said = (without_field(each, INGEST_TIMESTAMP) for each in (held, said))
            same &= equal_values(held, said, is_nothing_null=True)
        unchanged = np.compress(same, offsets)
        rounded = {
            column: np.intersect1d(np.asarray(records.offsets)[rows_of], unchanged)
            for column, rows_of in plain.rounded.items()
        }
        return Differences(np.union1d(np.compress(~same, offsets), baseless), rounded)

    def _keeping(self, held_rows: pa.Table) -> NDArray[np.int64]:
        """Return the offsets of rows with values that did not fit another column."""
        offsets = held_rows.column(OFFSET)
        kept = [offsets.filter(held_rows.column(name).is_valid()).to_numpy() for name in self.kept]
        return np.concatenate([np.empty(0, np.int64), *kept])


def row_check(pipeline: PipelineConfig, connections: Connections, table: Table) -> RowCheck:
    """Return the check of a table's rows against records of its current generation."""
    progress = progress_of(table)
    plan = ReadingPlan(pipeline, connections.schemas(pipeline), table.schema(), progress)
    # A column that is not done yet is null where its record says something.
    undone = {each.column for each in progress.kept_columns if not each.is_done}
    ignores_more = pipeline.table_schema.growth.ignores
    kept = old_column_names(progress.kept_columns) | undone
    read, tombstones = plan.format.plain, plan.format.takes_tombstones
    return RowCheck(read, plan.origin, plan.columns, ignores_more, kept, plan.shaping, tombstones)


# Whether two columns of rows hold the same values.


def equal_values(
    left: pa.ChunkedArray, right: pa.ChunkedArray, *, is_nothing_null: bool = False
) -> NDArray[np.bool_]:
    """Return a mask of equal rows: null equals null, NaN equals NaN, nested values as in Python.

    With ``is_nothing_null`` a null on the left equals what says nothing on the right: ``{}`` and ``[[]]``
    were drained as null before their column had a type.
    Both zeros are one value, as in SQL: only a partitioning by floats told them apart, and none is made.
    """
    if pa.types.is_nested(left.type):
        pairs = zip(left.to_pylist(), right.to_pylist(), strict=True)
        return np.fromiter(
            (a == b or _is_alike(a, b, is_nothing_null) for a, b in pairs), dtype=bool, count=len(left)
        )
    # Arrow compares the bytes of a UUID, and no UUIDs.
    kind = right.type.storage_type if isinstance(right.type, pa.BaseExtensionType) else right.type
    equal = pc.fill_null(pc.equal(left.cast(kind), right.cast(kind)), fill_value=False)
    both_null = pc.and_(pc.is_null(left), pc.is_null(right))
    if pa.types.is_floating(kind):
        no_number = pc.and_(pc.is_nan(left), pc.is_nan(right))
        equal = pc.or_(equal, pc.fill_null(no_number, fill_value=False))
    same: NDArray[np.bool_] = pc.or_(equal, both_null).to_numpy()
    return same


def without_field(column: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    """Return a column of structs without one of their fields."""
    kept = [field for field in column.type if field.name != name]
    parts = [
        pa.StructArray.from_arrays(
            [pc.struct_field(chunk, field.name) for field in kept], fields=kept, mask=chunk.is_null()
        )
        for chunk in column.chunks
    ]
    return pa.chunked_array(parts, pa.struct(kept))


def _is_map(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], tuple)


def _is_alike(left: Any, right: Any, is_nothing_null: bool) -> bool:
    """True if equal except for lists that are null or empty, and the order of a map's entries.

    PyIceberg reads a null list of structs as an empty one; not every reader keeps entries in their order.
    """
    if _is_map(left) and _is_map(right):
        left, right = dict(left), dict(right)
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(
            _is_alike(left[name], right[name], is_nothing_null) for name in left
        )
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        pairs = zip(left, right, strict=False)
        return len(left) == len(right) and all(_is_alike(*pair, is_nothing_null) for pair in pairs)
    nothing: tuple[Any, ...] = (None, [])
    if isinstance(left, float) and isinstance(right, float) and isnan(left):
        return isnan(right)
    if is_nothing_null and left is None:
        return _says_nothing(right)
    return bool(left == right) or (left in nothing and right in nothing)


def _says_nothing(value: Any) -> bool:
    inside = value.values() if isinstance(value, dict) else value
    return value is None or (isinstance(value, dict | list) and all(map(_says_nothing, inside)))
