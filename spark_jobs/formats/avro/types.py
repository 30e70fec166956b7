"""An Avro schema's text as a tree of types; named types are expanded wherever they are used."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import Any, TypeAlias

from fastavro.schema import SchemaParseException, parse_schema

from spark_jobs.formats import tree
from spark_jobs.formats.tree import Array, Bounded, Map, Record, unreadable
from spark_jobs.protocol.errors import fault
from spark_jobs.schema.writer_schema import SchemaText

_SYMBOLS = "sluice-symbols"  # an enum's, under a name that fastavro does not look at
# Python writes no longer integer as text.
_MOST_DIGITS = 4_000


class Kind(StrEnum):
    """Kind of a value without nested values: Avro's name, or a valid logical type's name."""

    NULL = "null"
    BOOLEAN = "boolean"
    INT = "int"
    LONG = "long"
    FLOAT = "float"
    DOUBLE = "double"
    BYTES = "bytes"
    STRING = "string"
    FIXED = "fixed"
    ENUM = "enum"
    EMPTY = "a record without fields"
    DECIMAL = "decimal"
    UUID = "uuid"
    DATE = "date"
    TIME_MILLIS = "time-millis"
    TIME_MICROS = "time-micros"
    TIMESTAMP_MILLIS = "timestamp-millis"
    TIMESTAMP_MICROS = "timestamp-micros"
    TIMESTAMP_NANOS = "timestamp-nanos"
    LOCAL_MILLIS = "local-timestamp-millis"
    LOCAL_MICROS = "local-timestamp-micros"
    LOCAL_NANOS = "local-timestamp-nanos"
    DURATION = "duration"


@dataclass(frozen=True, slots=True)
class Leaf:
    """A type without nested types; ``base`` is the Avro type that it is written as.

    ``size`` is that of a fixed; ``precision`` and ``scale`` are a decimal's, ``symbols`` an enum's. A time
    may be told ``as_text``.
    """

    kind: Kind
    base: str
    size: int = 0
    precision: int = 0
    scale: int = 0
    symbols: tuple[str, ...] = ()
    as_text: bool = False


@dataclass(frozen=True, slots=True)
class Field(tree.Field["Type"]):
    """A record's field, or a union's branch named after its type.

    ``beside`` is a meaning that is written where Avro looks for none.
    """

    beside: str = field(default="", compare=False)

    def note(self, *, is_top: bool) -> str | None:
        """Return the note on a logical type that Avro ignores, unless the type has it too."""
        only = self.type.only if isinstance(self.type, Union) else self
        leaf, meant = only and only.type, self.beside.lower()
        if not meant or not isinstance(leaf, Leaf) or leaf.kind != leaf.base:
            return None
        text = f"{self.beside} is next to its type, where Avro ignores it: {leaf.base} as it is"
        if not is_top or leaf.kind is not Kind.LONG or "timestamp" not in meant or "nano" in meant:
            return text
        kind = "timestamp" if "local" in meant or "debezium" in meant else "timestamptz"
        form = "epoch_us" if "micro" in meant else "epoch_ms"
        columns = f"`columns: {{{self.name}: {{type: {kind}, from: {form}}}}}`"
        return f"{text}; {columns} makes times, in a flat table"


@dataclass(frozen=True, slots=True)
class Union:
    """A union; branches are in the order of their numbers in values."""

    branches: tuple[Field, ...]

    @property
    def members(self) -> tuple[Field, ...]:
        """The branches except null."""
        return tuple(branch for branch in self.branches if not is_null(branch.type))

    @property
    def only(self) -> Field | None:
        """The branch that is the column itself, or None if each branch is a field."""
        return self.members[0] if len(self.members) == 1 else None


@dataclass(frozen=True, slots=True)
class Again:
    """A recursive reference; ``levels`` is the number of enclosing types up to its definition."""

    name: str
    levels: int


Type: TypeAlias = "Leaf | Union | Again | Record[Field] | Array[Type] | Map[Type]"


def is_null(kind: Type) -> bool:
    """True if null is its only value, so that it needs no column."""
    if isinstance(kind, Union):
        return not kind.members
    return isinstance(kind, Leaf) and kind.kind is Kind.NULL


@dataclass(frozen=True, slots=True)
class ParsedSchema:
    """A schema's root type, and the text of the schema and of each named type, by full name."""

    root: Type
    written: Any = field(repr=False)
    named: Mapping[str, Any] = field(repr=False)

    def type_of(self, name: str) -> Type:
        """Return a named type as a separate tree."""
        return _Tree(self.named).type(name, (), ())


def parse(source: SchemaText) -> ParsedSchema:
    """Return the types of a schema and of all schemas that it refers to.

    Raises ``ConfigError``: ``schema-unreadable`` for what is no Avro schema, ``schema-unsupported`` for one
    that no values of bounded size, or no columns, can come of.
    """
    named: dict[str, Any] = {}
    for name, text in source.references:
        _parsed(text, named, reference=name)
    written = _parsed(source.text, named)
    root = _Tree(named).type(written, (), ())
    if is_null(root):
        raise fault("schema-unsupported.null")
    return ParsedSchema(root, written, named)


def _parsed(text: str, named: dict[str, Any], **where: object) -> Any:
    wrong = (SchemaParseException, ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
    try:
        return parse_schema(json.loads(text, object_hook=_as_avro_has_it), named, _write_hint=False)
    except (*wrong, RecursionError) as error:
        raise _unreadable(error, **where) from error


def _as_avro_has_it(written: dict[str, Any]) -> dict[str, Any]:
    """Return a type without attributes that Avro accepts and fastavro rejects.

    A decimal that is none, which is ignored; an enum's symbols of any letters; its default, which is for
    readers of another schema.
    """
    if written.get("type") == "enum" and isinstance(symbols := written.get("symbols"), list):
        kept = {name: item for name, item in written.items() if name != "default"}
        return {**kept, "symbols": [f"S{at}" for at in range(len(symbols))], _SYMBOLS: symbols}
    if written.get("logicalType") == Kind.DECIMAL and not _is_decimal(written):
        return {name: item for name, item in written.items() if name != "logicalType"}
    return written


_unreadable = partial(unreadable, "Avro schema")


@dataclass
class _Tree(Bounded):
    """Expands types; ``path`` leads to the current one, ``inside`` are the enclosing named types."""

    named: Mapping[str, Any]

    def type(self, schema: Any, path: tuple[str, ...], inside: tuple[str | None, ...]) -> Type:
        self.count(path, len(inside))
        try:
            name = self._name(schema) if not isinstance(schema, list) else ""
            if name in self.named:
                if name in inside:
                    return Again(name, len(inside) - inside.index(name))
                schema = self.named[name]
            if isinstance(schema, list):
                return self._union(schema, path, (*inside, None))
            return self._of(schema if isinstance(schema, dict) else {"type": schema}, path, inside)
        except (LookupError, TypeError, ValueError) as error:
            raise _unreadable(error, field=".".join(path) or None) from error

    def _of(self, schema: Mapping[str, Any], path: tuple[str, ...], inside: tuple[str | None, ...]) -> Type:
        match schema["type"]:
            case "record" | "error":
                return self._record(schema, path, (*inside, schema["name"]))
            case "array":
                items = self.type(schema["items"], (*path, "element"), (*inside, None))
                return Array(_of_some_bytes(items, path))
            case "map":
                values = self.type(schema["values"], (*path, "value"), (*inside, None))
                return Map(_of_some_bytes(values, path))
            case str() as base:
                return _leaf(base, schema)
        raise TypeError(f"{schema['type']!r} is not a type")

    def _record(
        self, schema: Mapping[str, Any], path: tuple[str, ...], inside: tuple[str | None, ...]
    ) -> Type:
        fields = tuple(
            Field(
                name := str(each["name"]),
                self.type(each["type"], (*path, name), inside),
                doc if isinstance(doc := each.get("doc"), str) else None,
                tuple(alias for alias in each.get("aliases", ()) if isinstance(alias, str)),
                str(each.get("logicalType") or each.get("connect.name") or ""),
            )
            for each in schema["fields"]
        )
        return Record(fields) if fields else Leaf(Kind.EMPTY, "record")

    def _union(self, schemas: list[Any], path: tuple[str, ...], inside: tuple[str | None, ...]) -> Union:
        full = [self._name(schema) for schema in schemas]
        short = [name.rpartition(".")[2] for name in full]
        lower = [name.lower() for name in short]
        if not full or len(set(full)) < len(full):
            raise ValueError(f"a union of {', '.join(full) or 'nothing'}")
        names = [
            name.replace(".", "_") if lower.count(brief.lower()) > 1 else brief
            for name, brief in zip(full, short, strict=True)
        ]
        return Union(
            tuple(
                Field(name, self.type(schema, (*path, name), inside), aliases=self._aliases(schema))
                for name, schema in zip(names, schemas, strict=True)
            )
        )

    def _name(self, schema: Any) -> str:
        if isinstance(schema, dict):
            return str(schema.get("name") if schema["type"] in _NAMED else schema["type"])
        if isinstance(schema, str):
            return schema
        raise ValueError("a union in a union")

    def _aliases(self, schema: Any) -> tuple[str, ...]:
        named = self.named.get(schema) if isinstance(schema, str) else schema
        aliases = named.get("aliases", ()) if isinstance(named, dict) else ()
        return tuple(alias.rpartition(".")[2] for alias in aliases if isinstance(alias, str))


_NAMED = ("record", "error", "enum", "fixed")
# By the type that each is written as, and a fixed's size.
_LOGICAL = {
    ("int", 0, Kind.DATE),
    ("int", 0, Kind.TIME_MILLIS),
    *(("long", 0, kind) for kind in Kind if kind is Kind.TIME_MICROS or "timestamp" in kind),
    ("string", 0, Kind.UUID),
    ("fixed", 16, Kind.UUID),
    ("fixed", 12, Kind.DURATION),
}


def _leaf(base: str, schema: Mapping[str, Any]) -> Leaf:
    logical = schema.get("logicalType")
    if base == "enum":
        symbols = tuple(schema[_SYMBOLS])
        if not all(isinstance(symbol, str) for symbol in symbols) or len(set(symbols)) < len(symbols):
            raise ValueError("an enum's symbols are texts that differ")
        return Leaf(Kind.ENUM, base, symbols=symbols)
    size = schema["size"] if base == "fixed" else 0
    if type(size) is not int or size < 0:
        raise ValueError(f"{size!r} is not a valid size")
    if logical == Kind.DECIMAL and base in ("fixed", "bytes"):
        precision, scale = schema["precision"], schema.get("scale", 0)
        if precision > _MOST_DIGITS:
            raise fault("schema-unsupported.digits", digits=precision, most=_MOST_DIGITS)
        return Leaf(Kind.DECIMAL, base, size, precision, scale)
    return Leaf(Kind(str(logical) if (base, size, logical) in _LOGICAL else base), base, size)


def _is_decimal(schema: Mapping[str, Any]) -> bool:
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    return type(precision) is int and type(scale) is int and 0 <= scale <= precision and precision > 0


def _of_some_bytes(inner: Type, path: tuple[str, ...]) -> Type:
    if _takes_bytes(inner) and not is_null(inner):
        return inner
    raise fault("schema-unsupported.no-bytes", field=".".join(path))


def _takes_bytes(kind: Type, depth: int = 0) -> bool:
    match kind:
        case Leaf():
            return kind.kind not in (Kind.NULL, Kind.EMPTY) and (kind.base != "fixed" or kind.size > 0)
        case Record(fields):
            return any(_takes_bytes(each.type, depth + 1) for each in fields)
        case Again():
            return kind.levels > depth  # around the very array; or a record in itself, which has no end
    return True
