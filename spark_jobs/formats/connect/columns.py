"""A row's types as columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count

from pyiceberg import types as iceberg
from pyiceberg.schema import Schema, index_by_name

from spark_jobs.formats.connect.types import Entries, Field, Items, Kind, Leaf, Record, Type
from spark_jobs.protocol.errors import ConfigError
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


def columns_of(row: Record) -> WriterColumns:
    """Return the columns of a row.

    Raises ``ConfigError`` (``schema-unsupported``) for names that cannot be told apart by their paths.
    """
    build = _Columns()
    struct = iceberg.StructType(*build.fields(row.fields, ()))
    try:
        index_by_name(Schema(*struct.fields))
    except ValueError as error:
        raise ConfigError(
            f"fields that cannot be columns: {error}",
            code="schema-unsupported",
            hint="Rename the column at its source, or leave it out at the connector (`column.exclude.list`).",
        ) from error
    return WriterColumns(struct, build.identities)


class _Columns:
    def __init__(self) -> None:
        self.identities: dict[int, str] = {}
        self._ids = count(1)

    def fields(self, fields: Sequence[Field], path: tuple[str, ...]) -> Iterator[iceberg.NestedField]:
        """Yield the columns of a struct's fields."""
        for each in fields:
            field_id, here = next(self._ids), (*path, each.name)
            self.identities[field_id] = ".".join(here)
            yield iceberg.NestedField(
                field_id, each.name, self._type(each.type, here), required=False, doc=each.doc
            )

    def _type(self, kind: Type, path: tuple[str, ...]) -> iceberg.IcebergType:
        match kind:
            case Leaf(Kind.DECIMAL, precision=precision, scale=scale):
                return iceberg.DecimalType(precision, scale)
            case Leaf():
                return _TYPES[kind.kind]
            case Items(item):
                element_id = next(self._ids)
                return iceberg.ListType(
                    element_id, self._type(item, (*path, "element")), element_required=False
                )
            case Entries(item):
                key_id, value_id = next(self._ids), next(self._ids)
                inner = self._type(item, (*path, "value"))
                return iceberg.MapType(key_id, iceberg.StringType(), value_id, inner, value_required=False)
            case Record(fields):
                return iceberg.StructType(*self.fields(fields, path))
