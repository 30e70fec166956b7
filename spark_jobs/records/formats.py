"""The record formats there are, and which one a pipeline's records have.

A format is a file of this room with its decoders and a line here, or stands behind ``schema.writer_schema``.
Nobody else imports the modules of one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from spark_jobs.config.columns import GROWTH, Growth, Incompatible
from spark_jobs.config.sections import Envelope
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.config.value_format import ValueFormat
from spark_jobs.formats.connect.keys import Spelling
from spark_jobs.records.archive import ArchiveDecoder, PlainArchiveDecoder
from spark_jobs.records.by_schema import SchemaDecoder
from spark_jobs.records.by_schema_plain import PlainSchemaDecoder
from spark_jobs.records.change_source import ChangeColumns, PlacedRows
from spark_jobs.records.changes import ChangesDecoder, DebeziumDecoder, EnvelopeDecoder, UpsertDecoder
from spark_jobs.records.changes_avro import AvroChangesDecoder, PlainAvroChangesDecoder
from spark_jobs.records.changes_plain import (
    PlainChangesDecoder,
    PlainDebeziumDecoder,
    PlainEnvelopeDecoder,
    PlainUpsertDecoder,
)
from spark_jobs.records.decoder import Decoder, PlainDecoder
from spark_jobs.records.json import JsonDecoder, PlainJsonDecoder
from spark_jobs.records.keeping import refit_by_schema
from spark_jobs.records.keyed import KeyedDecoder, PlainKeyedDecoder
from spark_jobs.records.shaping import Shaping, shaping_of, told_of
from spark_jobs.schema.archive_columns import ArchiveColumns, inside_value, key_alone
from spark_jobs.schema.column_source import (
    ColumnSource,
    KeyedColumns,
    KnownSchemas,
    SeenColumns,
    WrittenColumns,
)
from spark_jobs.schema.metadata_columns import CHANGE_COLUMNS, MIRROR_COLUMNS
from spark_jobs.schema.partitioning import field_names
from spark_jobs.schema.placing import Rules
from spark_jobs.values.exact import formed, refit

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.types import IcebergType

    from spark_jobs.protocol.cdc import Cdc
    from spark_jobs.protocol.progress import ColumnMap
    from spark_jobs.schema.evidence import Evidence


@dataclass(frozen=True, slots=True)
class Format:
    """How its records are decoded, how ``audit`` reads them again, and where columns come from."""

    decoder: Decoder
    plain: PlainDecoder
    columns: ColumnSource


JSON = Format(JsonDecoder(), PlainJsonDecoder(), SeenColumns(GROWTH))
_ENVELOPES: dict[Envelope, tuple[type[ChangesDecoder], type[PlainChangesDecoder]]] = {
    Envelope.DEBEZIUM: (DebeziumDecoder, PlainDebeziumDecoder),
    Envelope.UPSERT: (UpsertDecoder, PlainUpsertDecoder),
    Envelope.SLUICE: (EnvelopeDecoder, PlainEnvelopeDecoder),
}


def format_of(
    pipeline: PipelineConfig,
    schemas: KnownSchemas,
    table: Schema | None = None,
    bound: ColumnMap | None = None,
    *,
    takes_all_but: frozenset[str] | None = None,
    cdc: Cdc | None = None,
) -> Format:
    """Return the format of the pipeline's records, of which these schemas are known.

    Rows of a ``table`` can be decoded only by the format for it and for what it keeps of its columns'
    fields, ``bound``. ``takes_all_but`` is of a mirror that is made anew: see ``Rules``. ``cdc`` is how far
    one is.
    """
    if pipeline.is_archive:
        return _archive(pipeline, schemas, table, bound or {})
    growth, shaping = pipeline.table_schema.growth, shaping_of(pipeline)
    rules = Rules(
        growth.room,
        pipeline.table_schema.incompatible,
        frozenset(pipeline.declared),
        shaping.computed,
        shaping.converted,
        pipeline.layout,
        takes_all_but if takes_all_types(pipeline) else None,
        told_of(pipeline),
    )
    if pipeline.envelope is not None:
        if cdc is not None and takes_all_but is not None:  # made anew it may be of another source
            cdc = replace(cdc, source=None)
        return _changes(pipeline, schemas, rules, shaping, (table, bound or {}, cdc))
    schemas = schemas.told(rules.told)
    columns = WrittenColumns(schemas, growth, rules, pipeline.is_exact)
    if table is not None:
        schemas = schemas.placed(table, bound or {}, rules)
    if pipeline.value.format is not ValueFormat.JSON:
        is_text = pipeline.value.format is ValueFormat.CSV  # numbers of epochs too
        values = Format(
            SchemaDecoder(schemas, growth, converts=is_text), PlainSchemaDecoder(schemas), columns
        )
    else:
        seen = SeenColumns(growth, pipeline.is_exact, frozenset(shaping.columns))
        made = seen if schemas.keys is None else KeyedColumns(seen, columns)
        values = Format(*_of_json(growth, shaping, table, bound), made)
    if schemas.keys is None:
        return values
    names = frozenset(field.name for each in schemas.keys.every for field in each.columns.struct.fields)
    return Format(
        KeyedDecoder(values.decoder, SchemaDecoder(schemas.keys, growth), names),
        PlainKeyedDecoder(values.plain, PlainSchemaDecoder(schemas.keys), names),
        values.columns,
    )


def spelling_of(pipeline: PipelineConfig, cdc: Cdc | None = None) -> Spelling:
    """Return how keys of change events are spelled: of a mirror, with their names in the order of its key."""
    order = (cdc.key if cdc else None) or pipeline.mirror.key
    return Spelling(tuple(order), "format" in pipeline.record_key.model_fields_set, pipeline.is_mirror)


def takes_all_types(pipeline: PipelineConfig) -> bool:
    """Whether a column holds what its source ever told of it, in whatever type: those of a mirror do.

    But for a mirror that has a column for each of the types.
    """
    return pipeline.is_mirror and pipeline.table_schema.incompatible is not Incompatible.NEW_COLUMN


def types_of_newest(
    pipeline: PipelineConfig, table: Schema, bound: ColumnMap, evidence: Evidence
) -> dict[str, IcebergType]:
    """Return by column of a mirror the type that its source has it in by now, where that is another one."""
    columns = format_of(pipeline, KnownSchemas(), table, bound).columns
    if not takes_all_types(pipeline) or not isinstance(columns, ChangeColumns):
        return {}
    return columns.types_of_newest(table, bound, evidence)


def refit_of(pipeline: PipelineConfig, column: str) -> Callable[[pa.ChunkedArray, pa.DataType], pa.Array]:
    """Return what gives a column's values as a replay would in another type, null where one does not fit."""
    by_type = refit if pipeline.value.format is ValueFormat.JSON else refit_by_schema
    shaping = shaping_of(pipeline)
    if column in shaping.computed or column not in shaping.converted:
        return by_type

    def refit_formed(values: pa.ChunkedArray, kind: pa.DataType) -> pa.Array:
        written = by_type(values, shaping.written(pa.field(column, kind)).type)
        return formed(written, shaping.columns[column], kind)[0]

    return refit_formed


def _changes(
    pipeline: PipelineConfig,
    schemas: KnownSchemas,
    rules: Rules,
    shaping: Shaping,
    made: tuple[Schema | None, ColumnMap, Cdc | None],
) -> Format:
    growth, (table, bound, cdc) = pipeline.table_schema.growth, made
    spelling, whose = spelling_of(pipeline, cdc), cdc.source if cdc else None
    own = MIRROR_COLUMNS if pipeline.is_mirror else CHANGE_COLUMNS
    rules = replace(rules, computed=rules.computed.union(own.column_names))
    seen = SeenColumns(growth, pipeline.is_exact, frozenset(shaping.columns))
    is_debezium = pipeline.envelope is Envelope.DEBEZIUM
    placed = PlacedRows(table or own, bound, rules, is_debezium)
    # What was told before a rebuild took another type is a row still.
    every_type = frozenset[str]() if takes_all_types(pipeline) else None
    told = replace(placed, rules=replace(rules, takes_all_but=every_type))
    columns = ChangeColumns(seen, rules, is_debezium, own)
    rows, plain = _of_json(growth, shaping, table, bound)
    if pipeline.value.format is ValueFormat.AVRO:
        return Format(
            AvroChangesDecoder(rows, placed, pipeline.is_mirror, spelling, whose, schemas),
            PlainAvroChangesDecoder(plain, told, growth, pipeline.is_mirror, spelling, schemas),
            columns,
        )
    decoder, plain_decoder = _ENVELOPES[pipeline.envelope or Envelope.DEBEZIUM]
    return Format(
        decoder(rows, placed, pipeline.is_mirror, spelling, whose),
        plain_decoder(plain, told, growth, pipeline.is_mirror, spelling),
        columns,
    )


def _of_json(
    growth: Growth, shaping: Shaping, table: Schema | None, bound: ColumnMap | None
) -> tuple[JsonDecoder, PlainJsonDecoder]:
    fields = field_names(table, bound)
    decoder = JsonDecoder(growth, elsewhere=shaping.elsewhere, fields=fields)
    return decoder, PlainJsonDecoder(shaping.elsewhere, fields)


def _archive(
    pipeline: PipelineConfig, schemas: KnownSchemas, table: Schema | None, bound: ColumnMap
) -> Format:
    growth = pipeline.table_schema.growth
    rules = Rules(growth.room, pipeline.table_schema.incompatible)
    values, keys = replace(schemas, keys=None), schemas.keys
    is_json = pipeline.value.format is ValueFormat.JSON
    columns = ArchiveColumns(
        SeenColumns(growth) if is_json else WrittenColumns(values, growth, rules),
        None if keys is None else WrittenColumns(keys, growth, rules),
    )
    if table is not None:
        values = values.placed(inside_value(table), bound, rules)
        keys = None if keys is None else keys.placed(key_alone(table), bound, rules)
    decoder = JSON.decoder if is_json else SchemaDecoder(values)
    plain = JSON.plain if is_json else PlainSchemaDecoder(values)
    return Format(
        ArchiveDecoder(decoder, values, None if keys is None else SchemaDecoder(keys)).under(growth),
        PlainArchiveDecoder(plain, values, None if keys is None else PlainSchemaDecoder(keys)),
        columns,
    )
