"""The types of a table's row in Kafka Connect's schema of an event."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any, TypeAlias

from spark_jobs.formats import tree
from spark_jobs.formats.connect.documents import unique_names
from spark_jobs.formats.tree import Array, Map, Record, fields_in_forms
from spark_jobs.protocol.errors import SluiceError, fault
from spark_jobs.schema.writer_schema import Form, Forms

_MOST_DIGITS = 38


class Kind(StrEnum):
    """Kind of a value, independent of its JSON form: its column's type, or the meaning of its text."""

    BOOLEAN = "boolean"
    INT = "int"
    LONG = "long"
    FLOAT = "float"
    DOUBLE = "double"
    STRING = "string"
    BINARY = "binary"
    DECIMAL = "decimal"
    NUMBER_TEXT = "number as text"
    SCALED_TEXT = "number with its scale as text"
    DATE = "date"
    TIME = "time"
    TIMESTAMP = "timestamp"
    ZONED = "timestamptz"
    UUID = "uuid"
    CLOCK_TEXT = "time as text"
    INSTANT_TEXT = "timestamp as text"


@dataclass(frozen=True, slots=True)
class Leaf:
    """A value; ``unit_us`` is the unit of a time's number, ``precision`` and ``scale`` are a decimal's.

    ``unit_ns`` is that of one that is told as text.
    """

    kind: Kind
    unit_us: int = 1
    precision: int = 0
    scale: int = 0
    unit_ns: int = 0


@dataclass(frozen=True, slots=True)
class Field(tree.Field["Type"]):
    """A field; ``may_be_null`` is the source's nullability."""

    may_be_null: bool = False


Type: TypeAlias = "Leaf | Record[Field] | Array[Type] | Map[Type]"
_BY_TYPE = {
    "boolean": Kind.BOOLEAN,
    "int8": Kind.INT,
    "int16": Kind.INT,
    "int32": Kind.INT,
    "int64": Kind.LONG,
    "float": Kind.FLOAT,
    "float32": Kind.FLOAT,
    "double": Kind.DOUBLE,
    "float64": Kind.DOUBLE,
    "string": Kind.STRING,
    "bytes": Kind.BINARY,
}
_MS = 1000
# What has nanoseconds is kept as the number that it is: a column of this format holds microseconds.
_BY_NAME = {
    ("int32", "io.debezium.time.Date"): Leaf(Kind.DATE),
    ("int32", "org.apache.kafka.connect.data.Date"): Leaf(Kind.DATE),
    ("int32", "io.debezium.time.Time"): Leaf(Kind.TIME, _MS),
    ("int32", "org.apache.kafka.connect.data.Time"): Leaf(Kind.TIME, _MS),
    ("int64", "io.debezium.time.MicroTime"): Leaf(Kind.TIME),
    ("int64", "io.debezium.time.Timestamp"): Leaf(Kind.TIMESTAMP, _MS),
    ("int64", "org.apache.kafka.connect.data.Timestamp"): Leaf(Kind.TIMESTAMP, _MS),
    ("int64", "io.debezium.time.MicroTimestamp"): Leaf(Kind.TIMESTAMP),
    ("string", "io.debezium.time.ZonedTimestamp"): Leaf(Kind.ZONED),
    ("string", "io.debezium.data.Uuid"): Leaf(Kind.UUID),
    ("struct", "io.debezium.data.VariableScaleDecimal"): Leaf(Kind.SCALED_TEXT),
}
_TEXTS = {Kind.TIME: Kind.CLOCK_TEXT, Kind.TIMESTAMP: Kind.INSTANT_TEXT}
_AS_TEXT = {
    **{
        named: Leaf(_TEXTS[leaf.kind], unit_ns=leaf.unit_us * 1000)
        for named, leaf in _BY_NAME.items()
        if leaf.kind in _TEXTS
    },
    ("int64", "io.debezium.time.NanoTime"): Leaf(Kind.CLOCK_TEXT, unit_ns=1),
    ("int64", "io.debezium.time.NanoTimestamp"): Leaf(Kind.INSTANT_TEXT, unit_ns=1),
    ("string", "io.debezium.time.ZonedTimestamp"): Leaf(Kind.STRING),
}
_DECIMAL = ("bytes", "org.apache.kafka.connect.data.Decimal")


def row_type(text: str, *, is_enveloped: bool = True, forms: Forms = ()) -> Record[Field]:
    """Return a row's type from an envelope's or a row's schema; some time fields may be configured.

    Raises ``ConfigError``: ``schema-unreadable`` for what is no such schema, ``schema-unsupported`` for a
    type that is not known here.
    """
    try:
        schema = json.loads(text, object_pairs_hook=unique_names)
        if is_enveloped:
            schema = {each["field"]: each for each in schema["fields"]}["after"]
        row = _type(schema, ())
        if forms and isinstance(row, Record):
            written = {field.name: each for field, each in zip(row.fields, schema["fields"], strict=True)}
            row = Record(fields_in_forms(row.fields, forms, partial(_in_form, written)))
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise fault("schema-unreadable.debezium") from error
    if not isinstance(row, Record):
        raise _unsupported((), "no struct")
    return row


def _in_form(written: Mapping[str, Mapping[str, Any]], field: Field, form: Form) -> Type:
    schema = written[field.name]
    as_text = _AS_TEXT.get((schema["type"], str(schema.get("name"))))
    if as_text is not None and form is Form.TEXT:
        return as_text
    return Leaf(_BY_TYPE[schema["type"]]) if as_text is not None and as_text.unit_ns else field.type


def _type(schema: Mapping[str, Any], path: tuple[str, ...]) -> Type:
    written = schema["type"]
    named = (written, schema.get("name"))
    if named in _BY_NAME:
        return _BY_NAME[named]
    if named == _DECIMAL:
        return _decimal(schema.get("parameters") or {})
    if written == "array":
        return Array(_type(schema["items"], (*path, "element")))
    if written == "map":
        if schema["keys"]["type"] != "string":
            raise _unsupported(path, f"a map by {schema['keys']['type']}")
        return Map(_type(schema["values"], (*path, "value")))
    if written == "struct":
        return Record(tuple(_field(each, path) for each in schema["fields"]))
    if written not in _BY_TYPE:
        raise _unsupported(path, str(written))
    return Leaf(_BY_TYPE[written])


def _field(schema: Mapping[str, Any], path: tuple[str, ...]) -> Field:
    name = schema["field"]
    doc = schema.get("doc")
    may_be_null = bool(schema.get("optional", False))
    return Field(str(name), _type(schema, (*path, str(name))), doc, may_be_null=may_be_null)


def _decimal(parameters: Mapping[str, str]) -> Leaf:
    scale = int(parameters["scale"])
    precision = int(parameters.get("connect.decimal.precision", _MOST_DIGITS))
    if scale < 0 or max(precision, scale) > _MOST_DIGITS:
        return Leaf(Kind.NUMBER_TEXT, scale=scale)
    return Leaf(Kind.DECIMAL, precision=max(precision, scale, 1), scale=scale)


def _unsupported(path: tuple[str, ...], what: str) -> SluiceError:
    return fault("schema-unsupported.row", what=what, field=".".join(path) or None)
