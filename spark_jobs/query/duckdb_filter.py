"""DuckDB's conditions in Iceberg's terms, where both would keep exactly the same rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from duckdb._sources.nodes import Binary, Col, In, Lit, Postfix, exact_value
from pyiceberg.expressions import (
    And,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    IsNull,
    LessThan,
    LessThanOrEqual,
    NotNull,
    Or,
    Reference,
)
from pyiceberg.expressions import In as IsIn

if TYPE_CHECKING:
    from duckdb._sources.nodes import Node
    from pyiceberg.expressions import BooleanExpression

_COMPARISONS = {
    "=": EqualTo,
    "<": LessThan,
    "<=": LessThanOrEqual,
    ">": GreaterThan,
    ">=": GreaterThanOrEqual,
}
_NULLS = {"IS NULL": IsNull, "IS NOT NULL": NotNull}
# By DuckDB's name of a constant's type, the column's type in Iceberg that is equal and ordered the same way.
# Floating point is not among them: DuckDB orders NaN, statistics leave it out.
_ALIKE = {
    "INTEGER": "int",
    "BIGINT": "long",
    "VARCHAR": "string",
    "TIMESTAMP WITH TIME ZONE": "timestamptz",
}


def row_filter(predicate: Node, columns: Mapping[str, str]) -> BooleanExpression | None:
    """The condition over ``columns`` (name to Iceberg type); None when Iceberg might keep other rows."""
    match predicate:
        case Binary(op="AND" | "OR" as op, left=left, right=right):
            one, other = row_filter(left, columns), row_filter(right, columns)
            if one is None or other is None:
                return None
            return And(one, other) if op == "AND" else Or(one, other)
        # A dot in a column's name would be read as a path into a struct.
        case Binary(left=Col(parts=(name,))) | In(operand=Col(parts=(name,))) if "." not in name:
            return _compared(predicate, name, columns.get(name))
        case Postfix(op=op, operand=Col(parts=(name,))) if "." not in name and op in _NULLS:
            return _NULLS[op](Reference(name)) if columns.get(name) in _ALIKE.values() else None
    return None


def _compared(predicate: Node, name: str, kind: str | None) -> BooleanExpression | None:
    compared: BooleanExpression | None = None
    match predicate:
        case Binary(op=op, right=Lit() as constant) if op in _COMPARISONS and _is_alike(constant, kind):
            compared = _COMPARISONS[op](Reference(name), constant.value)
        case In(values=values):
            constants = {v.value for v in values if isinstance(v, Lit) and _is_alike(v, kind)}
            is_whole = all(isinstance(v, Lit) and _is_alike(v, kind) for v in values)
            compared = IsIn(Reference(name), constants) if is_whole else None  # type: ignore[arg-type, call-arg]
    return compared


def _is_alike(constant: Lit, kind: str | None) -> bool:
    return kind is not None and _ALIKE.get(constant.type) == kind and exact_value(constant)
