"""The JSON Schema implementation of ``spark_jobs.schema.writer_schema``; the JSON decoder reads values.

A value that is no object is read as the one field of an object around it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyiceberg.schema import Schema

from spark_jobs.config.columns import Growth, NewFields
from spark_jobs.formats import tree
from spark_jobs.formats.json.block import decode_chunk
from spark_jobs.formats.json.parsing import parse_any, parse_object
from spark_jobs.formats.json_schema.plain import PlainReader
from spark_jobs.formats.json_schema.types import VALUE, Kind, Type, are_closed, forbidden, parse
from spark_jobs.formats.lanes.packed_values import ParsedOnce, Readers
from spark_jobs.formats.tree import Field, fields_in_forms
from spark_jobs.schema.arrow_schema import arrow_schema
from spark_jobs.schema.writer_schema import Form, Forms, ReadValues, SchemaText, Unread, UnreadableValueError
from spark_jobs.values.literals import says_something

_AROUND = b'{"%s":%%b}' % VALUE.encode()
_HINT = "Rename the property in a new version of the schema, or keep values as `raw` with `layout: flat`."


@dataclass(frozen=True, slots=True)
class JsonSchema(ParsedOnce):
    """A JSON Schema; with ``ignores`` unnamed properties are counted, otherwise they make a value unread."""

    source: SchemaText
    ignores: bool = False
    forms: Forms = ()

    def readers(self) -> Readers:
        """See ``ParsedOnce``."""
        reader = _Reader(self)
        return Readers(reader.columns, reader.read, reader.plain.read)


def json_schema(source: SchemaText, *, ignores: bool = False) -> JsonSchema:
    """Return a schema that can be used to read values.

    Raises ``ConfigError``: ``schema-unreadable`` for text that is no JSON Schema, or refers to what is not
    there, ``schema-unsupported`` for a schema that no table can be made of.
    """
    return JsonSchema(source, ignores).usable()


class _Reader:
    def __init__(self, schema: JsonSchema) -> None:
        root = parse(schema.source)
        fields = fields_in_forms(root.record.fields, schema.forms, _in_form)
        root = replace(root, record=replace(root.record, fields=fields))
        self._record = root.record
        closed = are_closed(root.record)
        ignores = schema.ignores and closed != {True}
        self._is_partly_closed = ignores and True in closed
        self._growth = Growth(NewFields.IGNORE if ignores else NewFields.DEAD_LETTER, is_by_schema=True)
        self.columns = tree.columns_of(root.record.fields, _column, _HINT, is_whole=root.is_whole)
        self._arrow = self._written = arrow_schema(Schema(*self.columns.struct.fields))
        if as_text := self.columns.as_text:
            self._written = pa.schema([_as_written(each, "", as_text) for each in self._arrow])
        self.plain = PlainReader(root, self._written, ignores=ignores)

    def read(self, values: Sequence[bytes]) -> ReadValues:
        """Decode the values in one call; validate first if the schema requires it."""
        read = self._looked_at(values, self._object) if self.columns.is_whole else self._decoded(values)
        if read.ignored and self._is_partly_closed:
            read = self._looked_at(values, self._allowed)
        return read

    def _decoded(self, values: Sequence[bytes]) -> ReadValues:
        read = decode_chunk(values, self._written, self._growth)
        return read if self._written is self._arrow else replace(read, table=read.table.cast(self._arrow))

    def _looked_at(self, values: Sequence[bytes], look: Callable[[bytes], bytes]) -> ReadValues:
        """Decode the result of ``look`` for each value; a value for which it raises is unread."""
        objects: dict[int, bytes] = {}
        unread = []
        for index, value in enumerate(values):
            try:
                objects[index] = look(value)
            except UnreadableValueError as error:
                unread.append(Unread(index, error.field, str(error)))
        places, read = list(objects), self._decoded(list(objects.values()))
        rows = [places[row] for row in read.indices]
        unread += [replace(each, index=places[each.index]) for each in read.unread]
        return replace(read, rows=None if len(rows) == len(values) else rows, unread=tuple(unread))

    def _object(self, value: bytes) -> bytes:
        if not self.columns.is_whole:
            return value
        parse_any(value)  # else what looks like more fields may be inside it
        return _AROUND % value

    def _allowed(self, value: bytes) -> bytes:
        """Return the object; raise ``UnreadableValueError`` if a closed object has other properties."""
        made = self._object(value)
        for path, item in forbidden(parse_object(made), self._record):
            if says_something(item):
                raise UnreadableValueError("the schema allows no additional properties", ".".join(path))
        return made


def _column(kind: Type) -> Type | None:
    return None if kind is Kind.TEXT else kind


def _in_form(field: Field[Type], form: Form) -> Type:
    """Return the type of a time in its configured form; in JSON it is text."""
    return Kind.STRING if form is Form.TEXT and field.type is Kind.TIMESTAMP else field.type


def _as_written(field: pa.Field, around: str, as_text: Collection[str]) -> pa.Field:
    """Return a column as the JSON decoder should fill it: JSON if it holds JSON text."""
    here, kind = f"{around}.{field.name}" if around else field.name, field.type
    if here in as_text:
        return field.with_type(pa.json_())
    if pa.types.is_struct(kind):
        return field.with_type(pa.struct([_as_written(each, here, as_text) for each in kind]))
    if pa.types.is_list(kind):
        return field.with_type(pa.list_(_as_written(kind.value_field, here, as_text)))
    if pa.types.is_map(kind):
        return field.with_type(pa.map_(kind.key_field, _as_written(kind.item_field, here, as_text)))
    return field
