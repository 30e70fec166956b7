"""A row's types as columns."""

from __future__ import annotations

from pyiceberg import types as iceberg

from spark_jobs.formats import tree
from spark_jobs.formats.connect.types import Field, Kind, Leaf, Type
from spark_jobs.formats.tree import Record
from spark_jobs.schema.writer_schema import WriterColumns

_TYPES: dict[Kind, iceberg.IcebergType] = {
    Kind.BOOLEAN: iceberg.BooleanType(),
    Kind.INT: iceberg.IntegerType(),
    Kind.LONG: iceberg.LongType(),
    Kind.FLOAT: iceberg.FloatType(),
    Kind.DOUBLE: iceberg.DoubleType(),
    Kind.STRING: iceberg.StringType(),
    Kind.BINARY: iceberg.BinaryType(),
    Kind.NUMBER_TEXT: iceberg.StringType(),
    Kind.SCALED_TEXT: iceberg.StringType(),
    Kind.DATE: iceberg.DateType(),
    Kind.TIME: iceberg.TimeType(),
    Kind.TIMESTAMP: iceberg.TimestampType(),
    Kind.ZONED: iceberg.TimestamptzType(),
    Kind.UUID: iceberg.UUIDType(),
    Kind.CLOCK_TEXT: iceberg.StringType(),
    Kind.INSTANT_TEXT: iceberg.StringType(),
}


def columns_of(row: Record[Field]) -> WriterColumns:
    """Return the columns of a row; raises as ``tree.columns_of``."""
    hint = "Rename the column at its source, or leave it out at the connector (`column.exclude.list`)."
    return tree.columns_of(row.fields, _column, hint, are_names_free=True)


def _column(kind: Type) -> iceberg.IcebergType | Type:
    if isinstance(kind, Leaf) and kind.kind is Kind.DECIMAL:
        return iceberg.DecimalType(kind.precision, kind.scale)
    return _TYPES[kind.kind] if isinstance(kind, Leaf) else kind
