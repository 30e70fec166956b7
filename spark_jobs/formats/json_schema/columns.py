"""A JSON Schema's types as columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count

from pyiceberg import types as iceberg
from pyiceberg.schema import Schema, index_by_name

from spark_jobs.formats.json_schema.documents import refused
from spark_jobs.formats.json_schema.types import Array, Field, Kind, Leaf, Map, Record, Root, Type
from spark_jobs.protocol.errors import ConfigError
from spark_jobs.schema.inference import Field as Column
from spark_jobs.schema.inference import Primitive, by_lower_case, name_clash
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
    Kind.TEXT: iceberg.StringType(),
}


def columns_of(root: Root) -> WriterColumns:
    """Return the columns of a schema.

    Raises ``ConfigError`` (``schema-unsupported``) for names that cannot stand beside each other in a table.
    """
    build = _Columns()
    struct = iceberg.StructType(*build.fields(root.record.fields, ()))
    try:
        index_by_name(Schema(*struct.fields))
    except ValueError as error:
        raise _unnamed(str(error)) from error
    as_text = tuple(build.as_text)
    return WriterColumns(struct, build.identities, as_text=as_text, is_whole=root.is_whole)


class _Columns:
    def __init__(self) -> None:
        self._ids = count(1)
        self.identities: dict[int, str] = {}
        self.as_text: list[str] = []

    def fields(self, fields: Sequence[Field], path: tuple[str, ...]) -> Iterator[iceberg.NestedField]:
        siblings = by_lower_case(Column(each.name, Primitive.STRING) for each in fields)
        for each in fields:
            clash = name_clash(each.name, siblings, is_top=not path)
            if clash is not None or "." in each.name:
                raise _unnamed(clash or f"{each.name} has a dot", ".".join(path) or None)
        for each in fields:
            field_id, here = next(self._ids), (*path, each.name)
            self.identities[field_id] = ".".join(here)
            yield iceberg.NestedField(
                field_id, each.name, self._type(each.type, here), required=False, doc=each.doc
            )

    def _type(self, kind: Type, path: tuple[str, ...]) -> iceberg.IcebergType:
        match kind:
            case Leaf():
                if kind.kind is Kind.TEXT:
                    self.as_text.append(".".join(path))
                return _TYPES[kind.kind]
            case Array(items):
                element_id = next(self._ids)
                return iceberg.ListType(
                    element_id, self._type(items, (*path, "element")), element_required=False
                )
            case Map(values):
                key_id, value_id = next(self._ids), next(self._ids)
                inner = self._type(values, (*path, "value"))
                return iceberg.MapType(key_id, iceberg.StringType(), value_id, inner, value_required=False)
            case Record(fields):
                return iceberg.StructType(*self.fields(fields, path))


def _unnamed(why: str, field: str | None = None) -> ConfigError:
    hint = "Rename the property in a new version of the schema, or keep the topic's values as `raw`."
    return refused(f"fields that cannot be columns: {why}", hint, field=field)
