"""Kafka Connect's schema of values that its Avro converters wrote, and these values as its JSON has them.

The converters keep in an Avro schema what Connect's own said: `connect.name`, `connect.parameters`. So a
value in Avro becomes what the JSON converter writes of the same value, and is read as that is.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any, TypeAlias

# Makes a value what it is in JSON.
Show: TypeAlias = Callable[[Any], Any]

_TYPES = {
    "int": "int32",
    "long": "int64",
    "float": "float",
    "double": "double",
    "boolean": "boolean",
    "string": "string",
    "bytes": "bytes",
    "enum": "string",
    "fixed": "bytes",
}
_DECIMAL = "org.apache.kafka.connect.data.Decimal"
# Connect's own types are also said in Avro's words, of which other writers have no more.
_LOGICAL = {
    ("bytes", "decimal"): _DECIMAL,
    ("int", "date"): "org.apache.kafka.connect.data.Date",
    ("int", "time-millis"): "org.apache.kafka.connect.data.Time",
    ("long", "timestamp-millis"): "org.apache.kafka.connect.data.Timestamp",
}


def connect_schema(
    written: Any, named: Mapping[str, Any], inside: frozenset[str] = frozenset()
) -> dict[str, Any]:
    """Return Connect's schema of an Avro one, by full name what its text says of each named type.

    A type that Connect has no form of is called by what it is: no column is made of it.
    """
    if isinstance(written, list):
        members = [each for each in written if each not in ("null", {"type": "null"})]
        if len(members) != 1:
            return {"type": "a union of several"}
        return connect_schema(members[0], named, inside) | {"optional": len(written) > 1}
    if isinstance(written, str):
        if written in inside:
            return {"type": f"{written} inside itself"}
        written = named.get(written, {"type": written})
    return _of(written, named, inside) | _meant(written)


def _of(written: Mapping[str, Any], named: Mapping[str, Any], inside: frozenset[str]) -> dict[str, Any]:
    match written["type"]:
        case "record":
            within = inside | {written["name"]}
            fields = [_field(each, named, within) for each in written["fields"]]
            return {"type": "struct" if fields else "a record of nothing", "fields": fields}
        case "array":
            items = written["items"]
            if "MapEntry" in (_internal(written), _internal(named.get(str(items), items))):
                return {"type": "a map by other than text"}
            return {"type": "array", "items": connect_schema(items, named, inside)}
        case "map":
            values = connect_schema(written["values"], named, inside)
            return {"type": "map", "keys": {"type": "string"}, "values": values}
    return {"type": _TYPES.get(written["type"], written["type"])}


def _internal(written: Any) -> Any:
    return written.get("connect.internal.type") if isinstance(written, Mapping) else None


def _field(field: Mapping[str, Any], named: Mapping[str, Any], inside: frozenset[str]) -> dict[str, Any]:
    doc = {"doc": field["doc"]} if isinstance(field.get("doc"), str) else {}
    return {"optional": False} | connect_schema(field["type"], named, inside) | doc | {"field": field["name"]}


def _meant(written: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a type stands for, and what Connect says of it beside that."""
    kind: str = written["type"]
    name = written.get("connect.name") or _LOGICAL.get((kind, str(written.get("logicalType"))))
    if name is None and kind == "record":
        name = written["name"]
    parameters = written.get("connect.parameters")
    if name == _DECIMAL and not parameters:
        precision = {"connect.decimal.precision": str(written["precision"])} if "precision" in written else {}
        parameters = {"scale": str(written.get("scale", 0)), **precision}
    doc = written.get("connect.doc") or written.get("doc")
    said = {"name": name, "parameters": parameters, "doc": doc}
    return {key: item for key, item in said.items() if item is not None}


def shown(schema: Mapping[str, Any]) -> Show | None:
    """Return what makes values of Connect's schema what JSON has; None where they are that already."""
    match schema["type"]:
        case "bytes":
            return lambda value: b64encode(value).decode()
        case "float" | "double":
            return lambda value: value if isfinite(value) else _NOT_FINITE[str(value)]
        case "array":
            item = shown(schema["items"])
            return None if item is None else lambda items: [_or_none(item, each) for each in items]
        case "map":
            value = shown(schema["values"]) or _as_it_is
            return lambda entries: {key: _or_none(value, each) for key, each in entries}
        case "struct":
            return _struct({each["field"]: show for each in schema["fields"] if (show := shown(each))})
    return None


_NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def _struct(fields: Mapping[str, Show]) -> Show | None:
    def show(row: Mapping[str, Any]) -> dict[str, Any]:
        return {**row, **{name: _or_none(of, row[name]) for name, of in fields.items()}}

    return show if fields else None


def _or_none(show: Show, value: Any) -> Any:
    return None if value is None else show(value)


def _as_it_is(value: Any) -> Any:
    return value
