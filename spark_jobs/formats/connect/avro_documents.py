"""Avro values as the documents that Kafka's JSON converter would write for the same values.

The converters keep in an Avro schema what Connect's own said: `connect.name`, `connect.parameters`. So a
value in Avro becomes what the JSON converter writes of the same value, and is read as that is.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, TypeAlias, cast

import orjson
import pyarrow as pa

from spark_jobs.formats.avro.plain import finite
from spark_jobs.formats.avro.schema import AvroSchema, avro_schema
from spark_jobs.formats.avro.types import parse
from spark_jobs.formats.connect.documents import NotReadError
from spark_jobs.formats.connect.events import WHOSE
from spark_jobs.schema.arrow_schema import one_array
from spark_jobs.schema.schema_views import OneColumn
from spark_jobs.schema.writer_schema import SchemaText, Unread, WriterSchema

_MOST_SCHEMAS = 64
# Of where an event comes from, what is asked of it: the other dozen fields cost as much as the row.
_ASKED = {"source": frozenset({"sequence", "lsn", "txId", "ts_us", "ts_ms", *WHOSE})}


@dataclass(frozen=True, slots=True)
class AvroDocument:
    """One value of a block that was read together; a member is converted when it is requested."""

    columns: _Columns
    at: int

    @property
    def schema(self) -> str:
        """The schema's text in Connect's JSON form."""
        return self.columns.schema

    @property
    def whole(self) -> str:
        """The whole value as JSON text. Raises ``NotReadError``."""
        if not self.columns.is_record:
            raise NotReadError("not a record")
        return orjson.dumps({name: self.value_of(name) for name in self.columns.members}).decode()

    @property
    def names(self) -> Collection[str]:
        """The members' names."""
        return self.columns.members

    def value_of(self, name: str) -> Any:
        """Return the value under a name as parsed JSON, or None if the name is absent."""
        return self.columns.member(name)[self.at] if name in self.columns.members else None

    def text_of(self, name: str) -> bytes:
        """Return the value under a name as JSON text."""
        return orjson.dumps(self.value_of(name))


@dataclass(slots=True)
class _Columns:
    """The values of one schema, by member."""

    schema: str
    is_record: bool
    members: Mapping[str, Sequence[Any] | pa.ChunkedArray]
    shows: Mapping[str, Show]
    _made: dict[str, list[Any]] = field(default_factory=dict)

    def member(self, name: str) -> list[Any]:
        """Return the member of each value as parsed JSON."""
        if name not in self._made:
            column, show = self.members[name], self.shows.get(name)
            items = (
                _requested_parts(column, name).to_pylist()
                if isinstance(column, pa.ChunkedArray)
                else [*column]
            )
            if show is not None:
                items = [None if item is None else show(item) for item in items]
            self._made[name] = items
        return self._made[name]


def _requested_parts(column: pa.ChunkedArray, name: str) -> pa.Array:
    array = one_array(column)
    if name not in _ASKED or not pa.types.is_struct(array.type):
        return array
    parts = {
        each.name: part
        for each, part in zip(array.type, array.flatten(), strict=True)
        if each.name in _ASKED[name]
    }
    if not parts:
        return array
    return pa.StructArray.from_arrays([*parts.values()], names=[*parts], mask=array.is_null())


def documents_of(schema: WriterSchema) -> AvroDocuments:
    """Return the reader of a schema's values or keys."""
    bare = schema.schema if isinstance(schema, OneColumn) else schema
    return _documents(cast("AvroSchema", bare).source)


class AvroDocuments:
    """Reads values of one schema; everything derived from it is computed once per process."""

    def __init__(self, source: SchemaText) -> None:
        parsed = parse(source)
        connect = connect_schema(parsed.written, parsed.named)
        self._schema = json.dumps(connect)
        self._bare = avro_schema(_bare(source))
        self._is_record = not self._bare.columns.is_whole
        fields = connect.get("fields", ()) if self._is_record else ()
        self._shows = {each["field"]: show for each in fields if (show := shown(each)) is not None}

    def read(self, values: Sequence[bytes]) -> tuple[dict[int, AvroDocument], Sequence[Unread]]:
        """Return values that were read in parallel, by index, and the indices of unread ones."""
        read = self._bare.read(values)
        columns = self._columns(dict(zip(read.table.column_names, read.table.columns, strict=True)))
        return {row: AvroDocument(columns, at) for at, row in enumerate(read.indices)}, read.unread

    def read_plain(self, value: bytes) -> AvroDocument:
        """Read one value with the one-by-one reader. Raises ``UnreadableValueError``."""
        members = {name: [item] for name, item in self._bare.read_plain(value).items()}
        return AvroDocument(self._columns(members), 0)

    def _columns(self, members: Mapping[str, Sequence[Any] | pa.ChunkedArray]) -> _Columns:
        return _Columns(self._schema, self._is_record, members, self._shows)


_documents = lru_cache(_MOST_SCHEMAS)(AvroDocuments)


def _bare(source: SchemaText) -> SchemaText:
    """Return a schema without logical types: values are read as the numbers and bytes that are written."""
    references = tuple((name, _without_meaning(text)) for name, text in source.references)
    return replace(source, text=_without_meaning(source.text), references=references)


def _without_meaning(text: str) -> str:
    def bare(written: dict[str, Any]) -> dict[str, Any]:
        return {name: item for name, item in written.items() if name != "logicalType"}

    return json.dumps(json.loads(text, object_hook=bare))


# Connect's schema of an Avro one, and what makes its values what JSON has.


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
    """Return Connect's schema for an Avro schema, and the text of each named type by full name.

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
    """Return the logical meaning of a type, and Connect's other attributes of it."""
    kind: str = written["type"]
    name = written.get("connect.name") or _LOGICAL.get((kind, str(written.get("logicalType"))))
    if name is None and kind == "record":
        name = written["name"]
    parameters = written.get("connect.parameters")
    if name == _DECIMAL and not parameters:
        precision = {"connect.decimal.precision": str(written["precision"])} if "precision" in written else {}
        parameters = {"scale": str(written.get("scale", 0)), **precision}
    doc = written.get("connect.doc") or written.get("doc")
    attributes = {"name": name, "parameters": parameters, "doc": doc}
    return {key: item for key, item in attributes.items() if item is not None}


def shown(schema: Mapping[str, Any]) -> Show | None:
    """Return a converter from Avro values to Connect's JSON form, or None if none is needed."""
    match schema["type"]:
        case "bytes":
            return lambda value: b64encode(value).decode()
        case "float" | "double":
            return finite
        case "array":
            item = shown(schema["items"])
            return None if item is None else lambda items: [_or_none(item, each) for each in items]
        case "map":
            value = shown(schema["values"]) or _as_it_is
            return lambda entries: {key: _or_none(value, each) for key, each in entries}
        case "struct":
            return _struct({each["field"]: show for each in schema["fields"] if (show := shown(each))})
    return None


def _struct(fields: Mapping[str, Show]) -> Show | None:
    def show(row: Mapping[str, Any]) -> dict[str, Any]:
        return {**row, **{name: _or_none(of, row[name]) for name, of in fields.items()}}

    return show if fields else None


def _or_none(show: Show, value: Any) -> Any:
    return None if value is None else show(value)


def _as_it_is(value: Any) -> Any:
    return value
