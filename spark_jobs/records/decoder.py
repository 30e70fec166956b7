"""The seam between a record format and all that reads records, and a second one for ``audit`` alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from spark_jobs.config.columns import GROWTH, Growth
from spark_jobs.schema.evidence import Evidence

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from spark_jobs.kafka.chunks import Chunk
    from spark_jobs.schema.column_source import ColumnSource


class Phase(StrEnum):
    """The step a record did not pass."""

    SCHEMA = "schema"
    DECODE = "decode"
    KEY = "key"
    TIMESTAMP = "timestamp"  # of letters that versions before made, which can be redriven
    TRANSFORM = "transform"
    QUALITY = "quality"


@dataclass(frozen=True, slots=True)
class BadValue:
    """A record that cannot become a row: its index in the chunk, the field (None: the whole record), why."""

    index: int
    phase: Phase
    field: str | None
    error: str


@dataclass(frozen=True, slots=True)
class Routes:
    """Which of ``tables`` the row of each record goes to, by the record's index; -1: it stays.

    ``unlisted`` counts rows that stay since no table is listed for their value.
    """

    tables: tuple[str, ...]
    places: NDArray[np.int16]
    unlisted: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Decoded:
    """A chunk's rows in the order of its records, and the records that are none.

    ``rows`` are the indices of the records in ``table``, None when it is all of them; ``bad`` is in the
    records' order. With ``new_fields`` the chunk has fields that columns can be added for, or names schemas
    that are not known yet: ``table`` is empty, decode again with them. ``ignored`` fields have no column and
    are in no row: by dotted name, how many values they have. ``left_out`` are the indices of records that a
    filter keeps from being rows, by reason, ``passed`` of those that say nothing of a row, by the balance's
    term. ``routes`` say where rows go. Rows
    (``of_kafka``) are to get what Kafka says of each record.

    Of records that were read again, what can be no row is nowhere; ``has_more`` are those that say more than
    their row, ``rounded`` those with an integer of which a column holds only the nearest double, by the
    column's dotted name and the Iceberg type that would hold it.
    """

    table: pa.Table
    rows: list[int] | None = None
    bad: tuple[BadValue, ...] = ()
    new_fields: Evidence | None = None
    ignored: Mapping[str, int] = field(default_factory=dict)
    left_out: Mapping[str, Sequence[int]] = field(default_factory=dict)
    passed: Mapping[str, Sequence[int]] = field(default_factory=dict)
    of_kafka: bool = False
    routes: Routes | None = None
    has_more: Sequence[int] = ()
    rounded: Mapping[tuple[str, str], Sequence[int]] = field(default_factory=dict)

    @property
    def indices(self) -> Sequence[int]:
        """The indices of the records in ``table``."""
        return range(self.table.num_rows) if self.rows is None else self.rows

    def beside(self, columns: Mapping[str, pa.Array], schema: pa.Schema) -> Decoded:
        """Return rows of ``schema``, whose columns are these and the table's own, found by name."""
        every = {**dict(zip(self.table.column_names, self.table.columns, strict=True)), **columns}
        table = pa.Table.from_arrays([every[name] for name in schema.names], schema=schema)
        return replace(self, table=table)

    def named(self, columns: pa.Schema, count: int) -> Decoded:
        """Return the same rows of ``count`` records with their columns called so, if there are any."""
        # A table without columns does not say how many rows it has.
        is_bare = self.rows is None and self.new_fields is None and not columns.names
        if not is_bare and self.table.schema == columns:
            return self
        table = self.table.rename_columns(columns.names)
        return replace(self, table=table, rows=[*range(count)] if is_bare else self.rows)

    def only(self, positions: Sequence[int]) -> Decoded:
        """Return the rows at these positions alone."""
        rows = [self.indices[position] for position in positions]
        return replace(
            self,
            table=self.table.take(pa.array(positions, pa.int64())),  # typed: none may be left
            rows=rows,
            has_more=sorted({*rows}.intersection(self.has_more)),
            rounded={column: sorted({*rows}.intersection(at)) for column, at in self.rounded.items()},
        )

    def without(self, bad: Sequence[BadValue]) -> Decoded:
        """Return the same with these records' rows among the bad values."""
        at_fault = {value.index for value in bad}
        kept = [position for position, row in enumerate(self.indices) if row not in at_fault]
        every_bad = sorted((*self.bad, *bad), key=lambda value: value.index)
        return replace(self.only(kept), bad=tuple(every_bad))


class Decoder(Protocol):
    """What a record format can do. It travels pickled to Spark's tasks: a frozen dataclass, no secrets."""

    def decode(self, records: Chunk, columns: pa.Schema, growth: Growth = GROWTH) -> Decoded:
        """Return every record as a row of ``columns`` or as a bad value, none of them changed or left out.

        ``columns`` are a table's own but for those of the record's origin: the value's, ``_kafka_key`` and
        ``_kafka_headers``. No value is None where the format does not take tombstones. With ``new_fields``
        in the result nothing was decoded.
        """

    def observe(self, records: Chunk, growth: Growth = GROWTH) -> Evidence:
        """Return what the values' fields or schemas are; records without a value are passed over."""


class PlainDecoder(Protocol):
    """Reads records again, slowly and by other means than the format's ``Decoder``."""

    def decode(self, records: Chunk, columns: pa.Schema) -> Decoded:
        """Return what rows of ``columns`` must hold, the columns as ``Decoder`` takes them."""


@dataclass(frozen=True, slots=True)
class Format:
    """How its records are decoded, how ``audit`` reads them again, and where columns come from.

    One that ``takes_tombstones`` makes rows of records without a value too.
    """

    decoder: Decoder
    plain: PlainDecoder
    columns: ColumnSource
    takes_tombstones: bool = False
