"""``row_condition``: a column, a comparison and a literal, joined by and, or and not. Pure.

Great Expectations has pandas run the text as code. Here it is parsed by Python's grammar, of which all but
a few nodes are refused, and compared column by column: nothing in it is ever called or looked up.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, time
from decimal import Decimal
from typing import Any

from spark_jobs.config.problems import UnreadableValueError

UUID_BYTES = 16
MOST_CHARACTERS = 2000  # far below what nests too deep to be parsed
_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda column, values: column.isin(values),
    ast.NotIn: lambda column, values: ~column.isin(values),
}
# `1 < column` is `column > 1`.
_MIRRORED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.Eq,
    ast.NotEq: ast.NotEq,
    ast.Lt: ast.Gt,
    ast.LtE: ast.GtE,
    ast.Gt: ast.Lt,
    ast.GtE: ast.LtE,
}
_JOINS: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.And: operator.and_,
    ast.Or: operator.or_,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
}
_NULLITY = ("isnull", "notnull")
_HINT = (
    "Write column == 'text', 1 <= column < 3, column in [1, 2], column.isnull(), `a name` in backticks;"
    " join them by and, or, not."
)
# Python's grammar knows no quoted names: they go through it as words that spell them.
_TEXT_OR_QUOTED = re.compile(r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|`([^`]+)`""")
_SPELLED = re.compile(r"sluice_quoted_([0-9a-f]+)")


def check(text: object) -> None:
    """Raise ``UnreadableValueError`` when the text is anything but such a condition."""
    columns(text)


def columns(text: object) -> tuple[str, ...]:
    """Return the columns that are compared; ``customer.country`` is a field of ``customer``."""
    return tuple(dict.fromkeys(_columns(_parse(text))))


def rows_that_meet(text: object, frame: Any) -> Any:
    """Return the rows of a pandas frame that meet it; a null meets no comparison but ``!=``, as in pandas.

    Raises ``LookupError`` for a column the frame does not have, ``TypeError`` for values that do not compare.
    """
    return frame[_evaluate(_parse(text), frame)]


def moment_of(text: str) -> datetime:
    """Return the time as columns are compared: UTC, without a zone. Raises ``ValueError``."""
    moment = datetime.fromisoformat(text)
    return moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment


def _uuid_bytes(text: str) -> bytes:
    if len(value := bytes.fromhex(text.replace("-", ""))) != UUID_BYTES:
        raise ValueError(text)
    return value


# How a literal is read for columns of these values; a uuid's are bytes.
_FROM_TEXT: dict[type, Callable[[str], Any]] = {
    datetime: moment_of,
    time: time.fromisoformat,
    Decimal: Decimal,
    bytes: _uuid_bytes,
}


def _parse(text: object) -> ast.expr:
    if isinstance(text, str) and len(text) <= MOST_CHARACTERS:
        with suppress(SyntaxError, ValueError, RecursionError, MemoryError):
            return ast.parse(_TEXT_OR_QUOTED.sub(_spelled, text.strip()), mode="eval").body
    raise UnreadableValueError("has a row_condition that is not a condition on columns", _HINT)


def _spelled(found: re.Match[str]) -> str:
    return f"sluice_quoted_{found[1].encode().hex()}" if found[1] else found[0]


def _columns(node: ast.expr) -> Iterator[str]:
    match node:
        case ast.BoolOp(values=parts):
            for part in parts:
                yield from _columns(part)
        case ast.BinOp(left=left, op=ast.BitAnd() | ast.BitOr(), right=right):
            yield from _columns(left)
            yield from _columns(right)
        case ast.UnaryOp(op=ast.Not() | ast.Invert(), operand=operand):
            yield from _columns(operand)
        case ast.Call(func=ast.Attribute(value=column, attr=name), args=[], keywords=[]) if name in _NULLITY:
            yield _name(column)
        case ast.Compare():
            for column, kind, value in _comparisons(node):
                if kind not in _COMPARISONS or isinstance(_literal(value), list) is not (
                    kind in {ast.In, ast.NotIn}
                ):
                    raise _refused(value)
                yield _name(column)
        case _:
            raise _refused(node)


def _comparisons(node: ast.Compare) -> Iterator[tuple[ast.expr, type[ast.cmpop], ast.expr]]:
    """Give column, comparison and literal for each; ``1 <= id < 3`` has two."""
    operands = [node.left, *node.comparators]
    for left, kind, right in zip(operands, map(type, node.ops), operands[1:], strict=False):
        if isinstance(left, ast.Name | ast.Attribute):
            yield left, kind, right
        elif kind in _MIRRORED:
            yield right, _MIRRORED[kind], left
        else:
            raise _refused(left)


def _name(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name):
            return _unquoted(name)
        case ast.Attribute(value=struct, attr=field):
            return f"{_name(struct)}.{_unquoted(field)}"
    raise _refused(node)


def _unquoted(name: str) -> str:
    spelled = _SPELLED.fullmatch(name)
    return bytes.fromhex(spelled[1]).decode() if spelled else name


def _literal(node: ast.expr) -> Any:
    match node:
        case ast.Constant(value=bool() | int() | float() | str() as value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
            return -value
        case ast.List(elts=items) | ast.Tuple(elts=items):
            values = [_literal(item) for item in items]
            if not any(isinstance(value, list) for value in values):
                return values
    raise _refused(node)


def _evaluate(node: Any, frame: Any) -> Any:
    """Return which rows meet a tree whose every node ``_columns`` knows."""
    match node:
        case ast.BoolOp(op=join, values=[first, *others]):
            met = _evaluate(first, frame)
            for other in others:
                met = _JOINS[type(join)](met, _evaluate(other, frame))
            return met
        case ast.BinOp(left=left, op=join, right=right):
            return _JOINS[type(join)](_evaluate(left, frame), _evaluate(right, frame))
        case ast.UnaryOp(operand=operand):
            return ~_evaluate(operand, frame)
        case ast.Call(func=ast.Attribute(value=column, attr=name)):
            is_null = _column(frame, column).isnull()
            return is_null if name == "isnull" else ~is_null
        case ast.Compare():
            met = True
            for compared, kind, value in _comparisons(node):
                column = _column(frame, compared)
                met = _COMPARISONS[kind](column, _as_type_of(column, _literal(value))) & met
            return met
    raise _refused(node)


def _column(frame: Any, node: ast.expr) -> Any:
    name = _name(node)
    if name not in frame:
        raise LookupError(f"there is no column {name}, which the row_condition compares")
    return frame[name]


def _as_type_of(column: Any, literal: Any) -> Any:
    """Return the literal as the column's values are: times in UTC, decimals, the bytes of a uuid."""
    if isinstance(literal, list):
        return [_as_type_of(column, each) for each in literal]
    kind = _kind_of(column)
    with suppress(ValueError, ArithmeticError):
        if kind in _FROM_TEXT:
            return _FROM_TEXT[kind](str(literal))
        if kind is type(None) or isinstance(literal, str) is (kind is str):
            return literal
    told = f"column {column.name} of the row_condition holds what {literal!r} is not: {kind.__name__}"
    raise TypeError(told)


def _kind_of(column: Any) -> type:
    """Return what the column's values are; of nulls alone that of ``None``, which are of any type."""
    if column.dtype.kind == "O":
        return type(next(iter(column.dropna()), None))
    return datetime if column.dtype.kind == "M" else column.dtype.type


def _refused(node: ast.AST) -> UnreadableValueError:
    at = getattr(node, "col_offset", 0) + 1
    return UnreadableValueError(f"has a row_condition that is no comparison at character {at}", _HINT)
