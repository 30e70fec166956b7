"""Values beside keys that have a schema of their own: one column of the key's fields, `_kafka_key` its bytes.

The values' decoder sees the table without that column, the keys' sees nothing else; a row needs both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from spark_jobs.config.columns import Growth
from spark_jobs.records.by_schema import SchemaDecoder
from spark_jobs.records.by_schema_plain import PlainSchemaDecoder, is_storable, says_more
from spark_jobs.records.decoder import BadValue, Decoded, Decoder, Phase, PlainDecoder, PlainRows
from spark_jobs.records.framing import Encoded
from spark_jobs.schema.arrow_schema import column_of, no_rows
from spark_jobs.schema.evidence import Evidence
from spark_jobs.schema.metadata_columns import KEY

if TYPE_CHECKING:
    from spark_jobs.kafka.chunks import Chunk
    from spark_jobs.protocol.kept import KeptColumn


@dataclass(frozen=True, slots=True)
class KeyedDecoder:
    """Keys by their schemas in their ``columns``, null where a record has none; values by ``values``."""

    values: Decoder
    keys: SchemaDecoder
    columns: frozenset[str]
    takes_tombstones: ClassVar[bool] = False

    @property
    def growth(self) -> Growth:
        """See ``Decoder``."""
        return self.values.growth

    def under(self, growth: Growth) -> KeyedDecoder:
        """See ``Decoder``."""
        return replace(self, values=self.values.under(growth), keys=self.keys.under(growth))

    def keeping(self, kept: Sequence[KeptColumn], generation: int) -> KeyedDecoder:
        """See ``Decoder``."""
        return replace(self, values=self.values.keeping(kept, generation))

    def decode(self, records: Chunk, columns: pa.Schema) -> Decoded:
        """See ``Decoder``."""
        own, others = _split(columns, self.columns)
        values = self.values.decode(records, others)
        if values.new_fields is not None:
            return Decoded(no_rows(columns), [], new_fields=values.new_fields.merge(self._observe(records)))
        keyed = [row for row in values.indices if records.keys[row] is not None]
        keys = self.keys.read(Encoded.keys(records, keyed), own)
        if keys.new_fields is not None:
            return Decoded(no_rows(columns), [], new_fields=keys.new_fields)
        rows = values.without(_bad_keys(keys, keyed)) if keys.bad else values
        rows = replace(rows, ignored=Counter(rows.ignored) + Counter(keys.ignored))
        if not own:
            return rows
        place = {keyed[index]: position for position, index in enumerate(keys.indices)}
        taken = pa.array([place.get(row) for row in rows.indices], pa.int64())
        made = {field.name: keys.table.column(field.name).take(taken).combine_chunks() for field in own}
        return rows.beside(made, columns)

    def observe(self, records: Chunk) -> Evidence:
        """See ``Decoder``; how many can be read is said of the values."""
        return self.values.observe(records).merge(self._observe(records))

    def _observe(self, records: Chunk) -> Evidence:
        there = [index for index, key in enumerate(records.keys) if key is not None]
        return Evidence(schemas=self.keys.new(Encoded.keys(records, there)))


@dataclass(frozen=True, slots=True)
class PlainKeyedDecoder:
    """The same for ``audit``: each key read by its plain reader."""

    values: PlainDecoder
    keys: PlainSchemaDecoder
    columns: frozenset[str]
    takes_tombstones: ClassVar[bool] = False

    def decode(self, records: Chunk, columns: pa.Schema) -> PlainRows:
        """See ``PlainDecoder``."""
        own, others = _split(columns, self.columns)
        plain = self.values.decode(records, others)
        keyed = [row for row in plain.rows if records.keys[row] is not None]
        read = {keyed[at]: row for at, row in self.keys.read(Encoded.keys(records, keyed), {}).items()}
        right = [
            position
            for position, row in enumerate(plain.rows)
            if records.keys[row] is None or (row in read and is_storable(read[row], own))
        ]
        rows = [plain.rows[position] for position in right]
        kinds = {field.name: field.type for field in own}
        more = [row for row in rows if row in read and says_more(read[row], kinds)]
        table = plain.table.take(pa.array(right, pa.int64()))
        made = dict(zip(table.column_names, table.columns, strict=True))
        made |= {
            field.name: column_of([_of(read.get(row), field) for row in rows], field.type) for field in own
        }
        return PlainRows(
            pa.Table.from_arrays([made[name] for name in columns.names], schema=columns),
            rows,
            sorted({*more, *set(rows).intersection(plain.has_more)}),
            {column: sorted(set(rows).intersection(at)) for column, at in plain.rounded.items()},
            passed=plain.passed,
        )


def _split(columns: pa.Schema, names: frozenset[str]) -> tuple[pa.Schema, pa.Schema]:
    """Return the columns of these names, as far as there are any, and the others."""
    own = [column for column in columns if column.name in names]
    return pa.schema(own), pa.schema([column for column in columns if column.name not in names])


def _bad_keys(keys: Decoded, keyed: Sequence[int]) -> list[BadValue]:
    phase = {Phase.DECODE: Phase.KEY}
    return [
        BadValue(keyed[bad.index], phase.get(bad.phase, bad.phase), bad.field or KEY, f"the key: {bad.error}")
        for bad in keys.bad
    ]


def _of(row: Any, field: pa.Field) -> Any:
    return None if row is None else row.get(field.name)
