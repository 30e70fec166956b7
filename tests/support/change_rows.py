"""A table of changes, or a mirror, whose rows are made of records by hand; both decoders say the same."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyiceberg.schema import Schema

from spark_jobs.config.sections import CdcSettings, Envelope
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.kafka.chunks import Chunk
from spark_jobs.protocol.work import Layout, layout_named
from spark_jobs.records.decoder import Decoded
from spark_jobs.records.reading_plan import format_of
from spark_jobs.schema.arrow_schema import arrow_schema
from spark_jobs.schema.column_source import KnownSchemas
from spark_jobs.schema.evolution import bind, evolved
from spark_jobs.schema.iceberg_types import ORIGIN_COLUMNS, declared_fields, with_metadata_columns

CHANGES = layout_named("changes")


class Table:
    """A pipeline's table of changes, which gets what it lacks as a drain gives it that."""

    def __init__(
        self,
        envelope: Envelope = Envelope.DEBEZIUM,
        layout: Layout = CHANGES,
        **settings: Any,
    ) -> None:
        cdc = CdcSettings(envelope=envelope)
        self.pipeline = PipelineConfig(name="a", topic="t", table="l.a", layout=layout, cdc=cdc, **settings)
        self.schema: Schema | None = None
        self.bound: Any = {}
        self.known = KnownSchemas()

    def drain(self, records: list[tuple[bytes | None, bytes | None]], headers: Any = None) -> Decoded:
        """Return what a drain makes of these, and have the plain decoder say the same."""
        chunk = chunk_of(records)
        chunk.headers = headers or chunk.headers
        of_now, growth = self.format(), self.pipeline.table_schema.growth
        if self.schema is None:
            lacks, _ = of_now.columns.first(
                of_now.decoder.observe(chunk), declared_fields(self.pipeline.declared)
            )
            self.schema = with_metadata_columns(
                evolved(Schema(), lacks), key_is_binary=self.pipeline.key_is_binary
            )
            self.bound = bind({}, lacks.bindings, self.schema)
        decoded = self.format().decoder.decode(chunk, self.columns, growth)
        if decoded.new_fields is not None:
            lacks, _ = of_now.columns.evolution(self.schema, self.bound, of_now.decoder.observe(chunk))
            self.schema = evolved(self.schema, lacks)
            self.bound = bind(self.bound, lacks.bindings, self.schema)
            decoded = self.format().decoder.decode(chunk, self.columns, growth)
        assert decoded.new_fields is None
        plain = self.format().plain.decode(chunk, self.columns)
        said = dict(zip(plain.rows, plain.table.to_pylist(), strict=True))
        assert plain.passed == decoded.passed
        # It may know rows where a drain makes a dead letter.
        assert repr([said[index] for index in decoded.indices]) == repr(decoded.table.to_pylist())
        assert decoded.ignored or not set(plain.has_more).intersection(decoded.indices)
        assert isinstance(decoded, Decoded)
        return decoded

    def format(self) -> Any:
        """Return the format for the table as it is."""
        return format_of(self.pipeline, self.known, self.schema, self.bound)

    @property
    def columns(self) -> pa.Schema:
        """The columns that a decoder makes."""
        assert self.schema is not None
        return pa.schema([each for each in arrow_schema(self.schema) if each.name not in ORIGIN_COLUMNS])


def chunk_of(records: list[tuple[bytes | None, bytes | None]]) -> Chunk:
    """Return records with these keys and values."""
    count = len(records)
    keys, values = ([record[part] for record in records] for part in (0, 1))
    return Chunk(0, [*range(10, 10 + count)], [5] * count, keys, values, [None] * count)
