"""A JSON Schema's types as columns."""

from __future__ import annotations

from pyiceberg import types as iceberg

from spark_jobs.formats import tree
from spark_jobs.formats.json_schema.types import Kind, Leaf, Root, Type
from spark_jobs.schema.writer_schema import WriterColumns

_TYPES: dict[Kind, iceberg.IcebergType] = {
    Kind.BOOLEAN: iceberg.BooleanType(),
    Kind.INT: iceberg.IntegerType(),
    Kind.LONG: iceberg.LongType(),
    Kind.FLOAT: iceberg.FloatType(),
    Kind.DOUBLE: iceberg.DoubleType(),
    Kind.STRING: iceberg.StringType(),
    Kind.DATE: iceberg.DateType(),
    Kind.TIMESTAMP: iceberg.TimestamptzType(),
    Kind.UUID: iceberg.UUIDType(),
}


def columns_of(root: Root) -> WriterColumns:
    """Return the columns of a schema; raises as ``tree.columns_of``."""
    hint = "Rename the property in a new version of the schema, or keep the topic's values as `raw`."
    return tree.columns_of(root.record.fields, _column, hint, is_whole=root.is_whole)


def _column(kind: Type) -> iceberg.IcebergType | Type | None:
    return _TYPES.get(kind.kind) if isinstance(kind, Leaf) else kind
