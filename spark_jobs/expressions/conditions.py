"""Conditions on rows of a table: SQL, and the SQL for conditions in the earlier Python grammar.

A ``row_condition`` was read by Python's grammar, as pandas reads it. Some of that is SQL as well and keeps
the same rows. The rest is no SQL, or keeps other rows: ``"a"`` is a column, and a null meets neither ``!=``
nor ``not``. That is refused with the line which keeps the rows that were kept.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from contextlib import suppress

from spark_jobs.expressions.engine import text
from spark_jobs.expressions.judging import Expression, ExpressionError, judge
from spark_jobs.expressions.quoting import quoted

_MOST_CHARACTERS = 2000  # far below what nests too deep to be parsed
_COMPARISONS: dict[type[ast.AST], str] = {
    ast.Eq: "=",
    ast.NotEq: "IS DISTINCT FROM",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}
_JOINS: dict[type[ast.AST], str] = {
    ast.And: " AND ",
    ast.Or: " OR ",
    ast.BitAnd: " AND ",
    ast.BitOr: " OR ",
}
_IS_NULL = {"isnull": True, "notnull": False}
_NUMBER = re.compile(r"\d+(\.\d+)?([eE][+-]?\d+)?")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Python's grammar knows no quoted names: they go through it as words that spell them.
_TEXT_OR_QUOTED = re.compile(r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|`([^`]+)`""")
_SPELLED = re.compile(r"sluice_quoted_([0-9a-f]+)")


def judge_condition(written: str) -> Expression:
    """Return the text as a condition.

    Raises ``ExpressionError`` for what is none, and for what kept other rows before conditions were SQL.
    """
    line = line_instead(written)
    if line is None:
        return judge(written)
    judge(line)
    raise ExpressionError(
        "would keep other rows than before: a row_condition is now SQL",
        f"./sluice validate --fix writes: {line}",
    )


def line_instead(written: str) -> str | None:
    """Return SQL that keeps the same rows as a condition in the Python grammar.

    None where the text does so itself, and where it never was a condition.
    """
    line = _as_sql(written)
    if line is None:
        return None
    with suppress(ExpressionError):
        if judge(written).sql == judge(line).sql:
            return None
    return line


def _as_sql(written: str) -> str | None:
    if len(written) > _MOST_CHARACTERS:
        return None
    source = _TEXT_OR_QUOTED.sub(_spelled, written.strip())
    with suppress(SyntaxError, ValueError, RecursionError, MemoryError):
        return _Former(source).sql(ast.parse(source, mode="eval").body)
    return None


def _spelled(found: re.Match[str]) -> str:
    return f"sluice_quoted_{found[1].encode().hex()}" if found[1] else found[0]


class _Former:
    """A condition in the Python grammar: joined comparisons with literals; else ``ValueError``."""

    def __init__(self, source: str) -> None:
        self._source = source

    def sql(self, node: ast.expr) -> str:
        """Return SQL that is true for the same rows."""
        match node:
            case ast.BoolOp(op=join, values=parts):
                return self._joined(join, parts)
            case ast.BinOp(left=left, op=ast.BitAnd() | ast.BitOr() as join, right=right):
                return self._joined(join, [left, right])
            case ast.UnaryOp(op=ast.Not() | ast.Invert(), operand=operand):
                return self._is_null(operand, is_not=True) or f"({self.sql(operand)}) IS NOT TRUE"
            case ast.Compare(left=left, ops=kinds, comparators=others):
                pairs = zip([left, *others], kinds, others, strict=False)
                return " AND ".join(self._compared(*pair) for pair in pairs)
        if is_null := self._is_null(node, is_not=False):
            return is_null
        raise ValueError(node)

    def _joined(self, join: ast.AST, parts: Sequence[ast.expr]) -> str:
        return _JOINS[type(join)].join(
            f"({self.sql(part)})" if _is_joined(part) else self.sql(part) for part in parts
        )

    def _is_null(self, node: ast.expr, *, is_not: bool) -> str | None:
        match node:
            case ast.Call(func=ast.Attribute(value=column, attr=name), args=[], keywords=[]) if (
                name in _IS_NULL
            ):
                return f"{self._name(column)} IS {'NULL' if _IS_NULL[name] is not is_not else 'NOT NULL'}"
        return None

    def _compared(self, left: ast.expr, kind: ast.cmpop, right: ast.expr) -> str:
        match kind, right:
            case ast.In() | ast.NotIn(), ast.List(elts=items) | ast.Tuple(elts=items):
                among = f"{self._name(left)} IN ({', '.join(map(self._literal, items)) or 'NULL'})"
                return among if isinstance(kind, ast.In) else f"({among}) IS NOT TRUE"
        if type(kind) not in _COMPARISONS:
            raise ValueError(kind)
        first, second = (
            (self._name(left), self._literal(right))
            if isinstance(left, ast.Name | ast.Attribute)
            else (self._literal(left), self._name(right))
        )
        return f"{first} {_COMPARISONS[type(kind)]} {second}"

    def _name(self, node: ast.expr) -> str:
        match node:
            case ast.Name(id=name):
                return _as_path(name)
            case ast.Attribute(value=struct, attr=field):
                return f"{self._name(struct)}.{_as_path(field)}"
        raise ValueError(node)

    def _literal(self, node: ast.expr) -> str:
        match node:
            case ast.Constant(value=bool() as value):
                return str(value).upper()
            # SQL's 'it''s' is two texts in Python, which nobody wrote.
            case ast.Constant(value=str() as value) if _TEXT_OR_QUOTED.fullmatch(self._source_of(node)):
                return text(value)
            case ast.Constant(value=int() | float() as value):
                written = self._source_of(node)
                return written if _NUMBER.fullmatch(written) else repr(value)
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float()) as value):
                return f"-{self._literal(value)}"
        raise ValueError(node)

    def _source_of(self, node: ast.expr) -> str:
        return ast.get_source_segment(self._source, node) or ""


def _is_joined(node: ast.expr) -> bool:
    return isinstance(node, ast.BoolOp | ast.BinOp) or (isinstance(node, ast.Compare) and len(node.ops) > 1)


def _as_path(name: str) -> str:
    """Return a name in SQL; one in backticks may be a path into a struct."""
    spelled = _SPELLED.fullmatch(name)
    whole = bytes.fromhex(spelled[1]).decode() if spelled else name
    parts = whole.split(".")
    return ".".join(map(_as_name, parts if all(map(_WORD.fullmatch, parts)) else [whole]))


def _as_name(name: str) -> str:
    """Return a name in SQL, quoted if it would be a keyword."""
    if _WORD.fullmatch(name):
        with suppress(ExpressionError):
            if judge(f"0 = {name} AND {name} = 0 AND {name} IS NULL").names == (name,):
                return name
    return quoted(name)
