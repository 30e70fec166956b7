"""Translates a condition from DuckDB to Iceberg, as far as Iceberg can express it.

DuckDB passes Arrow expressions, which Arrow shows only as Substrait: Protobuf messages, of which some fields
are read here by their numbers (https://substrait.io, extended_expression.proto and algebra.proto).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from google.protobuf.empty_pb2 import Empty
from google.protobuf.unknown_fields import UnknownFieldSet
from pyiceberg.expressions import (
    AlwaysTrue,
    And,
    BooleanExpression,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNull,
    LessThan,
    LessThanOrEqual,
    NotNull,
    Or,
    Reference,
)

_LITERAL, _FIELD, _FUNCTION, _IF_THEN, _IN_LIST = 1, 2, 3, 6, 8
_DECLARED_FUNCTION, _FIELD_INSIDE = 3, 2
_COMPARISONS: dict[str, Callable[..., BooleanExpression]] = {
    "equal": EqualTo,
    "lt": LessThan,
    "lte": LessThanOrEqual,
    "gt": GreaterThan,
    "gte": GreaterThanOrEqual,
}
_NULLS: dict[str, Callable[..., BooleanExpression]] = {"is_null": IsNull, "is_not_null": NotNull}
# By the number of a literal's kind, the column's type in Iceberg that is equal and ordered the same way.
# Floating point is not among them: DuckDB orders NaN, statistics leave it out.
_ALIKE = {5: "int", 7: "long", 12: "string", 27: "timestamptz"}
_Message = Mapping[int, list[Any]]


@dataclass(frozen=True, slots=True)
class Pushed:
    """The Iceberg filter of a condition, True if it is exact, and the columns of the condition."""

    condition: BooleanExpression = field(default_factory=AlwaysTrue)
    is_whole: bool = True
    columns: frozenset[str] = frozenset()


def pushed(condition: pc.Expression | None, schema: pa.Schema, columns: Mapping[str, str]) -> Pushed:
    """Return the filter for a condition over the schema, using only ``columns`` (name to Iceberg type).

    The schema's first column is not a column of the table.
    """
    if condition is None:
        return Pushed()
    try:
        whole = _message(bytes(condition.to_substrait(pa.schema(map(_as_substrait, schema)))))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # Substrait has no form for it
        return Pushed(is_whole=False, columns=frozenset(schema.names[1:]))
    declared = [_message(each[3][0]) for each in map(_message, whole[2]) if _DECLARED_FUNCTION in each]
    reading = _Reading({each.get(2, [0])[0]: each[3][0].decode() for each in declared}, schema.names, columns)
    tree = _message(_message(whole[3][0])[1][0])
    kept, is_whole = reading.filter_of(tree)
    return Pushed(kept, is_whole, frozenset(reading.columns_of(tree)))


@dataclass(frozen=True, slots=True)
class _Reading:
    functions: Mapping[int, str]
    names: list[str]
    columns: Mapping[str, str]

    def filter_of(self, node: _Message) -> tuple[BooleanExpression, bool]:
        """Return a filter that is true for all rows of the condition, and True if for no others."""
        found: BooleanExpression | None = None
        if _FUNCTION in node:
            name, parts = self._called(node)
            if name in {"and", "or"}:
                (one, is_one), (other, is_other) = map(self.filter_of, parts)
                return (And if name == "and" else Or)(one, other), is_one and is_other
            if name in _NULLS:
                found = self._compared(_NULLS[name], parts[0])
            elif name in _COMPARISONS:
                found = self._compared(_COMPARISONS[name], *parts)
        elif _IF_THEN in node and _IN_LIST in (then := _branches(node)[1]):
            # A null is in no list; DuckDB returns null for it, which keeps no row either.
            found = self._compared(_is_in, *_list_of(then))
        return (AlwaysTrue(), False) if found is None else (found, True)

    def columns_of(self, node: _Message) -> Iterator[str]:
        """Return the columns of a condition; for a field inside a struct the whole struct."""
        if _FIELD in node:
            yield self._path(node)[0]
        elif _LITERAL not in node:
            parts = self._called(node)[1] if _FUNCTION in node else _parts_of(node)
            for part in parts:
                yield from self.columns_of(part)

    def _called(self, node: _Message) -> tuple[str, list[_Message]]:
        function = _message(node[_FUNCTION][0])
        arguments = [_message(_message(each)[3][0]) for each in function.get(4, [])]
        return self.functions[function.get(1, [0])[0]], arguments

    def _compared(
        self, make: Callable[..., BooleanExpression], at: _Message, *literals: _Message
    ) -> BooleanExpression | None:
        """Return the condition on a column if both sides compare its values and constants equally."""
        if _FIELD not in at:
            return None
        name, is_inside = self._path(at)
        kind = self.columns.get(name)
        values = [_value(each, kind) for each in literals]
        # A dot in a column's name would be read as a path into a struct.
        if is_inside or "." in name or kind not in _ALIKE.values() or None in values:
            return None
        return make(Reference(name), *values)

    def _path(self, node: _Message) -> tuple[str, bool]:
        """Return the column of a reference, and True if it refers to a field inside it."""
        step = _message(_message(_message(node[_FIELD][0])[1][0])[2][0])
        return self.names[step.get(1, [0])[0]], _FIELD_INSIDE in step


def _is_in(column: Reference, *values: str | int) -> BooleanExpression:
    return In(column, values)  # type: ignore[arg-type, call-arg]


def _parts_of(node: _Message) -> list[_Message]:
    return [*_branches(node)] if _IF_THEN in node else _list_of(node)


def _branches(node: _Message) -> tuple[_Message, _Message]:
    """Return the first condition of a choice, and its result."""
    clause = _message(_message(node[_IF_THEN][0])[1][0])
    return _message(clause[1][0]), _message(clause[2][0])


def _list_of(node: _Message) -> list[_Message]:
    """Return the value to look for, and the list."""
    message = _message(node[_IN_LIST][0])
    return [_message(each) for each in (message[1][0], *message[2])]


def _value(node: _Message, kind: str | None) -> str | int | None:
    """Return a constant of the kind; None for another one."""
    for number, value in _message(node[_LITERAL][0]).items() if _LITERAL in node else ():
        if _ALIKE.get(number) == kind:
            found = value[0]
            return found.decode() if isinstance(found, bytes) else found - (found >> 63 << 64)
    return None


def _message(data: bytes) -> _Message:
    """Return the fields of a Protobuf message by number."""
    fields: dict[int, list[Any]] = defaultdict(list)
    for each in UnknownFieldSet(Empty.FromString(data)):
        fields[each.field_number].append(each.data)
    return dict(fields)


def _as_substrait(column: pa.Field) -> pa.Field:
    """Return the column with a type that Substrait has; other types support only null tests."""
    kind = column.type
    if pa.types.is_struct(kind):
        kind = pa.struct([*map(_as_substrait, kind)])
    elif pa.types.is_large_string(kind):
        kind = pa.string()
    elif pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        kind = pa.binary()
    elif pa.types.is_nested(kind) or pa.types.is_null(kind) or isinstance(kind, pa.BaseExtensionType):
        kind = pa.bool_()
    return pa.field(column.name, kind)
