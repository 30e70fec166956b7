"""Values in Avro as the documents that Kafka's JSON converter would have written of the same values."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

import orjson
import pyarrow as pa

from spark_jobs.formats.avro.schema import avro_schema
from spark_jobs.formats.avro.types import parse
from spark_jobs.formats.connect.avro_schemas import Show, connect_schema, shown
from spark_jobs.formats.connect.documents import NotReadError
from spark_jobs.formats.connect.events import WHOSE
from spark_jobs.schema.arrow_schema import one_array
from spark_jobs.schema.placed import OneColumn
from spark_jobs.schema.writer_schema import SchemaText, Unread, WriterSchema

if TYPE_CHECKING:
    from spark_jobs.formats.avro.schema import AvroSchema

_MOST_SCHEMAS = 64
# Of where an event comes from, what is asked of it: the other dozen fields cost as much as the row.
_ASKED = {"source": frozenset({"sequence", "lsn", "txId", "ts_us", "ts_ms", *WHOSE})}


@dataclass(frozen=True, slots=True)
class AvroDocument:
    """One of the values that were read together; a member is looked at when it is asked for."""

    columns: _Columns
    at: int

    @property
    def schema(self) -> str:
        """The schema's text as Connect's JSON has it."""
        return self.columns.schema

    @property
    def whole(self) -> str:
        """All of it as JSON writes it. Raises ``NotReadError``."""
        if not self.columns.is_record:
            raise NotReadError("not a record")
        return orjson.dumps({name: self.said(name) for name in self.columns.members}).decode()

    @property
    def names(self) -> Collection[str]:
        """The names of the members."""
        return self.columns.members

    def said(self, name: str) -> Any:
        """Return the value under a name as JSON has it, None without one."""
        return self.columns.member(name)[self.at] if name in self.columns.members else None

    def written(self, name: str) -> bytes:
        """Return what stands under a name as JSON writes it."""
        return orjson.dumps(self.said(name))


@dataclass(slots=True)
class _Columns:
    """What values of one schema hold, by member."""

    schema: str
    is_record: bool
    members: Mapping[str, Sequence[Any] | pa.ChunkedArray]
    shows: Mapping[str, Show]
    _made: dict[str, list[Any]] = field(default_factory=dict)

    def member(self, name: str) -> list[Any]:
        """Return what is under a name in each value, as JSON has it."""
        if name not in self._made:
            column, show = self.members[name], self.shows.get(name)
            items = _asked(column, name).to_pylist() if isinstance(column, pa.ChunkedArray) else [*column]
            if show is not None:
                items = [None if item is None else show(item) for item in items]
            self._made[name] = items
        return self._made[name]


def _asked(column: pa.ChunkedArray, name: str) -> pa.Array:
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


@dataclass(frozen=True, slots=True)
class ReadDocuments:
    """Values of a schema: ``rows`` are the indices of those that were read, in order."""

    columns: _Columns
    rows: Sequence[int]
    unread: Sequence[Unread]

    def __iter__(self) -> Iterator[tuple[int, AvroDocument]]:
        """Yield the index of each value that was read, and it."""
        return ((row, AvroDocument(self.columns, at)) for at, row in enumerate(self.rows))


def documents_of(schema: WriterSchema) -> AvroDocuments:
    """Return what reads values of a schema, or keys of one."""
    bare = schema.schema if isinstance(schema, OneColumn) else schema
    return _documents(cast("AvroSchema", bare).source)


@lru_cache(_MOST_SCHEMAS)
def _documents(source: SchemaText) -> AvroDocuments:
    return AvroDocuments(source)


class AvroDocuments:
    """Reads values of one schema; everything of it is made once in a process."""

    def __init__(self, source: SchemaText) -> None:
        parsed = parse(source)
        connect = connect_schema(parsed.written, parsed.named)
        self._schema = json.dumps(connect)
        self._bare = avro_schema(_bare(source))
        self._is_record = not self._bare.columns.is_whole
        fields = connect.get("fields", ()) if self._is_record else ()
        self._shows = {each["field"]: show for each in fields if (show := shown(each)) is not None}

    def read(self, values: Sequence[bytes]) -> ReadDocuments:
        """Return many values, read side by side."""
        read = self._bare.read(values)
        members = dict(zip(read.table.column_names, read.table.columns, strict=True))
        return ReadDocuments(self._columns(members), read.indices, read.unread)

    def read_plain(self, value: bytes) -> AvroDocument:
        """Return one by other means. Raises ``UnreadableValueError``."""
        members = {name: [item] for name, item in self._bare.read_plain(value).items()}
        return AvroDocument(self._columns(members), 0)

    def _columns(self, members: Mapping[str, Sequence[Any] | pa.ChunkedArray]) -> _Columns:
        return _Columns(self._schema, self._is_record, members, self._shows)


def _bare(source: SchemaText) -> SchemaText:
    """Return a schema by which values are what is written: numbers and bytes, whatever these stand for."""
    references = tuple((name, _without_meaning(text)) for name, text in source.references)
    return replace(source, text=_without_meaning(source.text), references=references)


def _without_meaning(text: str) -> str:
    return json.dumps(json.loads(text, object_hook=_without_logical_type))


def _without_logical_type(written: dict[str, Any]) -> dict[str, Any]:
    return {name: item for name, item in written.items() if name != "logicalType"}
