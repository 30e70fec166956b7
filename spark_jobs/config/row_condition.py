"""``row_condition``: a column, a comparison and a literal, joined by and, or and not. Pure.

Great Expectations has pandas run the text as code. Here it is parsed by Python's grammar, of which all but
a few nodes are refused, and compared column by column: nothing in it is ever called or looked up.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from spark_jobs.config.problems import UnreadableValueError

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
_JOINS: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.And: operator.and_,
    ast.Or: operator.or_,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
}
_NULLITY = ("isnull", "notnull")
_HINT = "Write column == 'text', column > 3, column in [1, 2], column.isnull(); join them by and, or, not."


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


def _parse(text: object) -> ast.expr:
    if isinstance(text, str) and len(text) <= MOST_CHARACTERS:
        with suppress(SyntaxError, ValueError, RecursionError, MemoryError):
            return ast.parse(text.strip(), mode="eval").body
    raise UnreadableValueError("has a row_condition that is not a condition on columns", _HINT)


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
        case ast.Compare(left=column, ops=[kind], comparators=[value]) if type(kind) in _COMPARISONS:
            is_set = isinstance(kind, ast.In | ast.NotIn)
            if isinstance(_literal(value), list) is not is_set:
                raise _refused(value)
            yield _name(column)
        case _:
            raise _refused(node)


def _name(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=struct, attr=field):
            return f"{_name(struct)}.{field}"
    raise _refused(node)


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
        case ast.Compare(left=column, ops=[kind], comparators=[value]):
            return _COMPARISONS[type(kind)](_column(frame, column), _literal(value))
    raise _refused(node)


def _column(frame: Any, node: ast.expr) -> Any:
    name = _name(node)
    if name not in frame:
        raise LookupError(f"there is no column {name}, which the row_condition compares")
    return frame[name]


def _refused(node: ast.AST) -> UnreadableValueError:
    at = getattr(node, "col_offset", 0) + 1
    return UnreadableValueError(f"has a row_condition that is no comparison at character {at}", _HINT)
