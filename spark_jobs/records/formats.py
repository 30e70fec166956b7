"""Which format a pipeline's records have, and which layout its rows.

A format is a file of this room with its decoders, or stands behind ``schema.writer_schema``; what rows are of
what it reads is a file of ``layouts``. Nobody else imports the modules of one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from spark_jobs.config.columns import GROWTH
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.config.value_format import ValueFormat
from spark_jobs.records.decoder import Format
from spark_jobs.records.json import JsonDecoder, PlainJsonDecoder
from spark_jobs.records.layouts.change_columns import ChangeColumns
from spark_jobs.records.layouts.changes import takes_all_types
from spark_jobs.records.layouts.flat import FlatDecoder, PlainFlatDecoder
from spark_jobs.records.projection import refit_by_schema
from spark_jobs.records.shaping import shaping_of, told_of
from spark_jobs.schema.column_source import KnownSchemas, SeenColumns
from spark_jobs.schema.placing import Rules
from spark_jobs.values.exact import formed, refit

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.types import IcebergType

    from spark_jobs.protocol.cdc import Cdc
    from spark_jobs.protocol.progress import ColumnMap
    from spark_jobs.schema.evidence import Evidence

JSON = Format(FlatDecoder(JsonDecoder()), PlainFlatDecoder(PlainJsonDecoder()), SeenColumns(GROWTH))


def format_of(
    pipeline: PipelineConfig,
    schemas: KnownSchemas,
    table: Schema | None = None,
    bound: ColumnMap | None = None,
    *,
    takes_all_but: frozenset[str] | None = None,
    cdc: Cdc | None = None,
    retyped: frozenset[str] = frozenset(),
) -> Format:
    """Return the format of the pipeline's records, of which these schemas are known.

    Rows of a ``table`` can be decoded only by the format for it and for what it keeps of its columns'
    fields, ``bound``. ``takes_all_but`` is of a mirror that is made anew: see ``Rules``. ``cdc`` is how far
    one is. ``retyped`` columns were given another type.
    """
    shaping = shaping_of(pipeline)
    rules = Rules(
        pipeline.table_schema.growth.room,
        pipeline.table_schema.incompatible,
        frozenset(pipeline.declared),
        shaping.computed,
        shaping.converted,
        pipeline.layout,
        takes_all_but if takes_all_types(pipeline) else None,
        told_of(pipeline),
        retyped,
    )
    if cdc is not None and takes_all_but is not None:  # made anew it may be of another source
        cdc = replace(cdc, source=None)
    made: Format = pipeline.layout.rows(pipeline, schemas, rules, table, bound=bound or {}, cdc=cdc)
    return made


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
