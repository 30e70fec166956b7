"""The record formats there are, and which one a pipeline's records have.

A format is a file of this room with its decoders and a line here, or stands behind ``schema.writer_schema``.
Nobody else imports the modules of one.
"""

from __future__ import annotations

from dataclasses import dataclass

from spark_jobs.config.new_fields import GROWTH
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.config.value_format import ValueFormat
from spark_jobs.records.by_schema import SchemaDecoder
from spark_jobs.records.by_schema_plain import PlainSchemaDecoder
from spark_jobs.records.decoder import Decoder, PlainDecoder
from spark_jobs.records.json import JsonDecoder
from spark_jobs.records.json_plain import PlainJsonDecoder
from spark_jobs.records.keyed import KeyedDecoder, PlainKeyedDecoder
from spark_jobs.schema.column_source import ColumnSource, KeyedColumns, SeenColumns, WrittenColumns
from spark_jobs.schema.known_schemas import KnownSchemas


@dataclass(frozen=True, slots=True)
class Format:
    """How its records are decoded, how ``audit`` reads them again, and where columns come from."""

    decoder: Decoder
    plain: PlainDecoder
    columns: ColumnSource


JSON = Format(JsonDecoder(), PlainJsonDecoder(), SeenColumns(GROWTH))


def format_of(pipeline: PipelineConfig, schemas: KnownSchemas) -> Format:
    """Return the format of the pipeline's records, of which these schemas are known."""
    growth = pipeline.table_schema.growth
    if pipeline.value.format is ValueFormat.JSON:
        values = Format(JSON.decoder.under(growth), JSON.plain, SeenColumns(growth))
    else:
        columns = WrittenColumns(schemas, growth)
        values = Format(SchemaDecoder(schemas, growth), PlainSchemaDecoder(schemas), columns)
    if schemas.keys is None:
        return values
    name = pipeline.record_key.column
    return Format(
        KeyedDecoder(values.decoder, SchemaDecoder(schemas.keys, growth), name),
        PlainKeyedDecoder(values.plain, PlainSchemaDecoder(schemas.keys), name),
        KeyedColumns(values.columns, WrittenColumns(schemas.keys, growth), name),
    )
