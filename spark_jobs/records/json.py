"""JSON's two decoders: values by ``formats/json``, beside keys and headers as they come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import ClassVar, cast

import pyarrow as pa

from spark_jobs.config.columns import GROWTH, Growth
from spark_jobs.formats.json.block import decode_chunk
from spark_jobs.formats.json.infer import observe
from spark_jobs.formats.json.plain import read_rows
from spark_jobs.kafka.chunks import Chunk
from spark_jobs.protocol.kept import KeptColumn, kept_names
from spark_jobs.records.decoder import BadValue, Decoded, Phase, PlainRows
from spark_jobs.records.keeping import fallbacks_of
from spark_jobs.records.shape import add_keys_and_headers, pick
from spark_jobs.schema.evidence import Evidence
from spark_jobs.schema.metadata_columns import METADATA_COLUMNS


@dataclass(frozen=True, slots=True)
class JsonDecoder:
    """JSON objects as values; keys and headers are kept as they come.

    Of the fields ``elsewhere`` nothing is read: they have no column here, and are none that a table lacks.
    ``fields`` are by column those that are called otherwise.
    """

    growth: Growth = GROWTH
    takes_tombstones: ClassVar[bool] = False
    kept: tuple[KeptColumn, ...] = ()
    generation: int = 0
    elsewhere: frozenset[str] = frozenset()
    fields: Mapping[str, str] = field(default_factory=dict)

    def under(self, growth: Growth) -> JsonDecoder:
        """See ``Decoder``."""
        return replace(self, growth=growth)

    def keeping(self, kept: Sequence[KeptColumn], generation: int) -> JsonDecoder:
        """See ``Decoder``."""
        of_fields = (replace(each, column=self._field(each.column)) for each in kept)
        return replace(self, kept=tuple(of_fields), generation=generation)

    def decode(self, records: Chunk, columns: pa.Schema) -> Decoded:
        """See ``Decoder``."""
        own = [column for column in columns if column.name not in METADATA_COLUMNS]
        value_columns = pa.schema([column.with_name(self._field(column.name)) for column in own])
        fallbacks = fallbacks_of(records, self.kept, self.generation)
        values = cast("Sequence[bytes]", records.values)
        read = decode_chunk(
            values,
            value_columns,
            self.growth,
            fallbacks,
            kept_names(self.kept),
            elsewhere=self.elsewhere,
        )
        if read.new_fields is not None:
            return Decoded(read.table, [], new_fields=read.new_fields)
        rows = read.table.rename_columns([column.name for column in own])
        bad = tuple(BadValue(each.index, Phase.DECODE, each.field, each.error) for each in read.unread)
        decoded = Decoded(rows, read.rows, bad, ignored=read.ignored)
        return add_keys_and_headers(decoded, records, columns)

    def observe(self, records: Chunk) -> Evidence:
        """See ``Decoder``; what is no JSON object is counted."""
        seen = reduce(Evidence.merge, map(self._observe_part, records.parts()))
        return seen.without(self.elsewhere).within(self.growth.max_fields_seen)

    def _field(self, column: str) -> str:
        return self.fields.get(column, column)

    def _observe_part(self, records: Chunk) -> Evidence:
        there = None
        if None in records.values:
            there = [index for index, value in enumerate(records.values) if value is not None]
        values = cast("Sequence[bytes]", pick(records.values, there))
        return observe(
            values,
            partition=records.partition,
            offsets=pick(records.offsets, there),
            max_fields=self.growth.max_fields_seen,
        )


@dataclass(frozen=True, slots=True)
class PlainJsonDecoder:
    """JSON objects as values; a column of floating point holds the nearest of what was written.

    Fields ``elsewhere`` are said in no row of it, and need not be. ``fields`` are by column those that are
    called otherwise.
    """

    elsewhere: frozenset[str] = frozenset()
    fields: Mapping[str, str] = field(default_factory=dict)
    takes_tombstones: ClassVar[bool] = False

    def decode(self, records: Chunk, columns: pa.Schema) -> PlainRows:
        """See ``PlainDecoder``."""
        return PlainRows(*read_rows(records, columns, self.fields, self.elsewhere))
