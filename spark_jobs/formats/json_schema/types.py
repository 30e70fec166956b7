"""A JSON Schema's text as a tree of types, expanded wherever they are used.

What no one column can hold is JSON text: values of several types, tuples, objects without named properties,
and a type inside itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias

from spark_jobs.formats import tree
from spark_jobs.formats.json_schema.documents import Documents
from spark_jobs.formats.json_schema.parts import Node, Parts
from spark_jobs.formats.tree import Array, Bounded, Field, Map
from spark_jobs.protocol.errors import fault
from spark_jobs.schema.writer_schema import SchemaText

VALUE = "value"


class Kind(StrEnum):
    """Kind of a value without nested values, named after its column's type."""

    BOOLEAN = "boolean"
    INT = "int"
    LONG = "long"
    FLOAT = "float"
    DOUBLE = "double"
    STRING = "string"
    DATE = "date"
    TIMESTAMP = "timestamptz"
    UUID = "uuid"
    TEXT = "JSON text"


@dataclass(frozen=True, slots=True)
class Record(tree.Record["Field[Type]"]):
    """An object with its properties; if ``is_closed``, no others are allowed."""

    is_closed: bool = False


Type: TypeAlias = "Kind | Record | Array[Type] | Map[Type]"
_FORMATS = {"date": Kind.DATE, "date-time": Kind.TIMESTAMP, "uuid": Kind.UUID}
# What Kafka Connect says of a number that is narrower than JSON's.
_CONNECT = {"int8": Kind.INT, "int16": Kind.INT, "int32": Kind.INT, "float32": Kind.FLOAT}
_PLAIN = {"boolean": Kind.BOOLEAN, "string": Kind.STRING, "integer": Kind.LONG, "number": Kind.DOUBLE}


@dataclass(frozen=True, slots=True)
class Root:
    """A schema's columns as one record; with ``is_whole`` its one column is the whole value."""

    record: Record
    is_whole: bool


def parse(source: SchemaText) -> Root:
    """Return the types of a schema and of all schemas that it refers to.

    Raises ``ConfigError``: ``schema-unreadable`` for what is no JSON Schema, ``schema-unsupported`` for one
    that no columns can come of.
    """
    documents = Documents(source)
    tree = _Tree(Parts(documents))
    found = tree.field(VALUE, [documents.root], (), ())
    if found is None:
        raise fault("schema-unsupported.only-null")
    is_record = isinstance(found.type, Record)
    return Root(found.type if isinstance(found.type, Record) else Record((found,)), is_whole=not is_record)


@dataclass
class _Tree(Bounded):
    """Expands types; ``path`` leads to the current one, ``inside`` are the enclosing ones."""

    parts: Parts

    def field(
        self, name: str, schemas: Sequence[Any], path: tuple[str, ...], inside: tuple[frozenset[int], ...]
    ) -> Field[Type] | None:
        """Return the field that the schemas describe under a name, or None if it can only be null."""
        self.count(path, len(inside))
        node = self.parts.node(schemas)
        kind = None if node.is_never else self._type(node, path, inside)
        return None if kind is None else Field(name, kind, node.doc)

    def _type(self, node: Node, path: tuple[str, ...], inside: tuple[frozenset[int], ...]) -> Type | None:
        names = self.parts.names(node)
        if len(names) != 1:
            return Kind.TEXT if names else None
        (name,) = names
        if name in _PLAIN:
            return _leaf(name, node)
        if node.key in inside:
            return Kind.TEXT
        around = (*inside, node.key)
        return self._array(node, path, around) if name == "array" else self._object(node, path, around)

    def _array(self, node: Node, path: tuple[str, ...], inside: tuple[frozenset[int], ...]) -> Type:
        items = [each for each in node.keyword("items") if not _is_any(each)]
        if not items or node.keyword("prefixItems") or any(isinstance(each, list) for each in items):
            return Kind.TEXT
        found = self.field("element", items, (*path, "element"), inside)
        return Kind.TEXT if found is None else Array(found.type)

    def _object(self, node: Node, path: tuple[str, ...], inside: tuple[frozenset[int], ...]) -> Type:
        others = node.keyword("additionalProperties")
        if fields := tuple(self._fields(node, path, inside)):
            return Record(
                fields, any(each is False for each in (*others, *node.keyword("unevaluatedProperties")))
            )
        of_others = [each for each in others if not _is_any(each)]
        if node.properties() or node.keyword("patternProperties") or not of_others:
            return Kind.TEXT
        found = self.field("value", of_others, (*path, "value"), inside)
        return Kind.TEXT if found is None else Map(found.type)

    def _fields(
        self, node: Node, path: tuple[str, ...], inside: tuple[frozenset[int], ...]
    ) -> Iterator[Field[Type]]:
        for name, schemas in node.properties().items():
            found = self.field(name, schemas, (*path, name), inside)
            if found is not None:
                yield found


def _is_any(schema: Any) -> bool:
    return schema is True or schema == {}


def _leaf(name: str, node: Node) -> Kind:
    narrower = _FORMATS if name == "string" else _CONNECT if name in ("integer", "number") else {}
    formats = node.keyword("format" if name == "string" else "connect.type")
    found = next(
        (narrower[each] for each in formats if isinstance(each, str) and each in narrower), _PLAIN[name]
    )
    is_float = found is Kind.FLOAT
    return found if name == "string" or is_float == (name == "number") else _PLAIN[name]


# Properties that a value has in objects whose schema allows no others than it names.


def are_closed(kind: Type) -> set[bool]:
    """Return whether objects of a type are closed; both values if they differ."""
    match kind:
        case Record(fields, is_closed):
            return {is_closed}.union(*(are_closed(each.type) for each in fields))
        case Array(inner) | Map(inner):
            return are_closed(inner)
    return set()


def forbidden(value: Any, kind: Type, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the unnamed properties of closed objects, with their paths; other types are skipped."""
    match kind:
        case Record(fields, is_closed) if isinstance(value, dict):
            types = {each.name: each.type for each in fields}
            for name, item in value.items():
                if name in types:
                    yield from forbidden(item, types[name], (*path, name))
                elif is_closed:
                    yield (*path, name), item
        case Array(items) if isinstance(value, list):
            for item in value:
                yield from forbidden(item, items, (*path, "element"))
        case Map(values) if isinstance(value, dict):
            for name, item in value.items():
                yield from forbidden(item, values, (*path, name))
