"""JSON's two readers of values, by ``formats/json``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import cast

import pyarrow as pa

from spark_jobs.config.columns import GROWTH, Growth
from spark_jobs.formats.json.block import decode_chunk
from spark_jobs.formats.json.infer import observe
from spark_jobs.formats.json.plain import read_rows
from spark_jobs.kafka.chunks import Chunk
from spark_jobs.records.decoder import BadValue, Decoded, Phase
from spark_jobs.records.framing import Encoded
from spark_jobs.records.shape import pick
from spark_jobs.schema.evidence import Evidence


@dataclass(frozen=True, slots=True)
class JsonDecoder:
    """JSON objects as values.

    Of the fields ``elsewhere`` nothing is read: they have no column here, and are none that a table lacks.
    ``fields`` are by column those that are called otherwise.
    """

    elsewhere: frozenset[str] = frozenset()
    fields: Mapping[str, str] = field(default_factory=dict)

    def read(self, encoded: Encoded, columns: pa.Schema, growth: Growth = GROWTH) -> Decoded:
        """Return values as rows of columns for what is in them alone."""
        read = decode_chunk(
            encoded.items,
            pa.schema([column.with_name(self._field(column.name)) for column in columns]),
            growth,
            elsewhere=self.elsewhere,
        )
        bad = tuple(BadValue(each.index, Phase.DECODE, each.field, each.error) for each in read.unread)
        decoded = Decoded(read.table, read.rows, bad, read.new_fields, read.ignored)
        return decoded.named(columns, len(encoded.items))

    def observe(self, records: Chunk, growth: Growth = GROWTH) -> Evidence:
        """See ``Decoder``; what is no JSON object is counted."""
        parts = (_observe_part(each, growth.max_fields_seen) for each in records.parts())
        return reduce(Evidence.merge, parts).without(self.elsewhere).within(growth.max_fields_seen)

    def _field(self, column: str) -> str:
        return self.fields.get(column, column)


def _observe_part(records: Chunk, max_fields: int) -> Evidence:
    there = None
    if None in records.values:
        there = [index for index, value in enumerate(records.values) if value is not None]
    values, offsets = cast("Sequence[bytes]", pick(records.values, there)), pick(records.offsets, there)
    return observe(values, partition=records.partition, offsets=offsets, max_fields=max_fields)


@dataclass(frozen=True, slots=True)
class PlainJsonDecoder:
    """JSON objects as values; a column of floating point holds the nearest of what was written.

    Fields ``elsewhere`` are said in no row of it, and need not be. ``fields`` are by column those that are
    called otherwise.
    """

    elsewhere: frozenset[str] = frozenset()
    fields: Mapping[str, str] = field(default_factory=dict)

    def read(self, encoded: Encoded, columns: pa.Schema) -> Decoded:
        """Return values as rows of columns for what is in them alone."""
        table, rows, more, rounded = read_rows(encoded.items, columns, self.fields, self.elsewhere)
        return Decoded(table, rows, has_more=more, rounded=rounded)
