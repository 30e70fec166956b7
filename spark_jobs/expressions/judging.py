"""Checks that a text is one deterministic expression over a record.

DuckDB parses it, and every node of the tree must be one that is known here; a function is known by what
DuckDB says of it. What is evaluated is written anew from the tree that was judged, never the text itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import duckdb

from spark_jobs.expressions import engine
from spark_jobs.expressions.quoting import quoted

if TYPE_CHECKING:
    import pyarrow as pa

MOST_CHARACTERS = 4000
_DEEPEST = 200
INGESTED_AT = "_ingested_at"
# Kafka's of a record, by the types that they have in every table; the key's may be bytes.
KAFKA_NAMES = {
    "_kafka_topic": "VARCHAR",
    "_kafka_partition": "INTEGER",
    "_kafka_offset": "BIGINT",
    "_kafka_generation": "INTEGER",
    "_kafka_timestamp": "TIMESTAMPTZ",
    "_kafka_key": "VARCHAR",
    "_kafka_headers": 'STRUCT("key" VARCHAR, "value" BLOB)[]',
}
# A dead letter's, under the names of its table; what came as bytes is text where it is UTF-8, else null.
LETTER_NAMES = {
    **{name: kind for name, kind in KAFKA_NAMES.items() if name not in {"_kafka_key", "_kafka_headers"}},
    **dict.fromkeys(("key", "value", "phase", "field", "error"), "VARCHAR"),
    "headers": KAFKA_NAMES["_kafka_headers"],
}
_NODES = {
    *("COLUMN_REF", "CONSTANT", "FUNCTION", "OPERATOR", "COMPARISON", "CONJUNCTION", "BETWEEN", "CASE"),
    *("CAST", "COLLATE", "TYPE"),
}
_REFUSED = {
    "SUBQUERY": "a query inside it, which sees more than one record",
    "WINDOW": "a window function, which sees more than one record",
    "STAR": "a star, which is many columns",
    "PARAMETER": "a parameter; parameters are not supported",
    "POSITIONAL_REFERENCE": "a position, which is not a column name",
    "LAMBDA": "a lambda or ->",
    "DEFAULT": "DEFAULT, which is not supported in an expression",
}
_HINTS = {
    "SUBQUERY": "Write IN ('a', 'b'), or list_contains(a_list, value).",
    "LAMBDA": "For JSON in a text: json_extract_string(column, '$.field').",
}
_HINT = "It is one DuckDB expression over the columns of one record: amount * quantity."
_ITEMS_HINT = "For the items of a list: list_sum(a_list)."
_MOMENT_HINT = "_kafka_timestamp is the record's own time, and stays the same when it is replayed."


# They take the name of any aggregate as a text, of one that draws lots too; those of a fixed one do not.
_ANY_AGGREGATE = {"aggregate", "list_aggr", "list_aggregate", "array_aggr", "array_aggregate"}
_LIKE_COLUMNS = {"user"}  # the engine's only where no column is called so, and there always is one


class ExpressionError(ValueError):
    """A text that is not an expression, or one that must not be evaluated."""

    def __init__(self, message: str, hint: str = _HINT) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Expression:
    """A checked SQL expression, and the top-level names that it refers to."""

    sql: str
    names: tuple[str, ...]

    @property
    def is_column(self) -> bool:
        """True if it is a bare column."""
        return len(self.names) == 1 and self.sql in {self.names[0], quoted(self.names[0])}


@lru_cache(1024)
def judge(text: str) -> Expression:
    """Return the text as an expression. Raises ``ExpressionError``."""
    tree, node = _parsed(text)
    names: dict[str, None] = {}
    for each in _nodes(node):
        _check(each)
        if each.get("function_name", "").lower() in _ANY_AGGREGATE:
            raise ExpressionError(f"calls {each['function_name']}, which takes any aggregate", _ITEMS_HINT)
        if each["class"] == "COLUMN_REF":
            names[_column(each["column_names"])] = None
    cases: dict[str, str] = {}
    for name in names:
        if cases.setdefault(name.lower(), name) != name:
            message = f"speaks of {cases[name.lower()]} and of {name}, which are the same name in SQL"
            raise ExpressionError(message, "Names differ by more than case; write it one way.")
    sql = engine.run(f"SELECT json_deserialize_sql({engine.text(json.dumps(tree))})").column(0)[0].as_py()
    return Expression(sql.removeprefix("SELECT ").removesuffix(";"), tuple(names))


def bound_type(expression: Expression, types: Mapping[str, str], *, folds: bool = True) -> pa.DataType:
    """Return the result's Arrow type, given columns of these DuckDB types.

    Raises ``ExpressionError`` where it does not go together; and, where it ``folds`` constants, for one
    that cannot be evaluated whatever the record is.
    """
    columns = ", ".join(f"NULL::{kind} AS {quoted(name)}" for name, kind in types.items())
    rows = " LIMIT 0" if expression.names else ""
    source = f"(SELECT {columns or '1'}{'' if folds else ' WHERE false'}) AS {quoted(engine.CHUNK)}"
    try:
        query = f"SELECT {expression.sql} FROM {source}{rows}"  # noqa: S608  (judged)
        return engine.run(query).schema.field(0).type
    except duckdb.Error as error:
        raise ExpressionError(first_line(error), type_hint(error)) from error


def first_line(error: Exception) -> str:
    """Return DuckDB's message without the query that it repeats."""
    line = str(error).partition("\n")[0]
    return line.partition(": ")[2] or line


def type_hint(error: Exception, *, has_columns: bool = False) -> str:
    """Return a hint for mismatched types in an expression; all its names may be columns."""
    if isinstance(error, duckdb.BinderException) and "VARCHAR" in str(error) and not has_columns:
        return "A field without a column is text here: CAST(amount AS DECIMAL(12,2)) * 2, or declare it."
    return "Cast what is of another type: CAST(amount AS DECIMAL(12,2))."


def _parsed(text: str) -> tuple[Any, Mapping[str, Any]]:
    if not text.strip() or len(text) > MOST_CHARACTERS:
        problem = "is empty" if not text.strip() else f"is longer than {MOST_CHARACTERS} characters"
        raise ExpressionError(problem)
    try:
        # Parentheses of their own lines: neither a comment nor a second clause gets out of them.
        query = f"SELECT json_serialize_sql({engine.text(f'SELECT ({chr(10)}{text}{chr(10)})')})"
        tree = json.loads(engine.run(query).column(0)[0].as_py())
    except (duckdb.Error, RecursionError, UnicodeError) as error:
        raise ExpressionError(f"cannot be parsed: {first_line(error)}") from error
    if tree.get("error"):
        raise ExpressionError(f"is not a SQL expression: {tree['error_message']}")
    selected: Sequence[Mapping[str, Any]] = tree["statements"][0]["node"]["select_list"]
    if len(tree["statements"]) != 1 or len(selected) != 1:
        raise ExpressionError("is more than one expression")
    if selected[0].get("function_name") == "row" and not selected[0]["arguments"]:
        raise ExpressionError("is empty")
    return tree, selected[0]


def _nodes(node: Any, depth: int = 0) -> Iterator[Mapping[str, Any]]:
    """Yield every expression node of the tree."""
    if depth > _DEEPEST:
        raise ExpressionError("nests too deep")
    if isinstance(node, dict):
        if "class" in node:
            yield node
        if node.get("class") == "SUBQUERY":
            return  # refused as it is
        for each in node.values():
            yield from _nodes(each, depth + 1)
    elif isinstance(node, list):
        for each in node:
            yield from _nodes(each, depth + 1)


def _check(node: Mapping[str, Any]) -> None:
    kind = node["class"]
    if kind not in _NODES or node["type"] == "GROUPING_FUNCTION":
        problem = _REFUSED.get(kind, f"{kind.lower().replace('_', ' ')}, which is not evaluated here")
        raise ExpressionError(f"has {problem}", _HINTS.get(kind, _HINT))
    if kind == "FUNCTION":
        _check_function(node)


def _check_function(node: Mapping[str, Any]) -> None:
    name = node["function_name"].lower()
    if node["filter"] or node["distinct"] or node["order_bys"]["orders"]:
        raise ExpressionError(f"calls {name} as an aggregate, which sees more than one record")
    if node["schema"] or node["catalog"]:
        raise ExpressionError(f"calls {name} of a schema", f"Write {name}(...) alone.")
    wrong = _wrong_with(name, len(node["arguments"]))
    if wrong:
        raise ExpressionError(*wrong)


@lru_cache(1024)
def _wrong_with(name: str, arguments: int) -> tuple[str, str] | None:
    """Return the reason why the function must not be called, and a hint."""
    known = _every_function().get(name, ())
    kinds = {each["function_type"] for each in known}
    if (name, arguments) == ("age", 1):
        return "calls age of one time, which asks the clock", f"Write age(one, other). {_MOMENT_HINT}"
    if "aggregate" in kinds or kinds == {"window"}:
        return f"calls {name}, which sees more than one record", _ITEMS_HINT
    if not kinds & {"scalar", "macro"}:
        problem = "not a function of one record" if known else "not a DuckDB function"
        return f"calls {name}, which is {problem}", _HINT
    return next(filter(None, map(_wrong_with_one, known)), None)


def _wrong_with_one(function: Mapping[str, Any]) -> tuple[str, str] | None:
    name = function["function_name"]
    if function["function_type"] == "scalar" and function["stability"] != "CONSISTENT":
        return f"calls {name}, which does not return the same value every time", _MOMENT_HINT
    if function["function_type"] == "macro":
        try:
            for node in _nodes(_parsed(function["macro_definition"])[1]):
                _check(node)
                if node["class"] == "COLUMN_REF" and node["column_names"][0] not in function["parameters"]:
                    _column(node["column_names"])
        except ExpressionError as error:
            return f"calls {name}, which {error.message}", error.hint
    return None


@lru_cache(1)
def _every_function() -> Mapping[str, Sequence[Mapping[str, Any]]]:
    columns = "function_name, function_type, stability, macro_definition, parameters"
    every: dict[str, list[Mapping[str, Any]]] = {}
    for each in engine.run(f"SELECT {columns} FROM duckdb_functions()").to_pylist():  # noqa: S608  (fixed)
        if each["function_type"] != "pragma":
            every.setdefault(each["function_name"].lower(), []).append(each)
    return every


def _column(path: Sequence[str]) -> str:
    """Return the column at the start of a reference."""
    name = path[0]
    if name.lower() == INGESTED_AT:
        message = "uses _ingested_at, which differs when a record is replayed"
        raise ExpressionError(message, _MOMENT_HINT)
    if name.lower().startswith("_kafka_") and name.lower() not in KAFKA_NAMES:
        raise ExpressionError(f"speaks of {name}", f"Kafka's columns are {', '.join(KAFKA_NAMES)}.")
    if name.lower() == engine.CHUNK or "\0" in name:
        raise ExpressionError(f"speaks of {name!r}, which is not a column")
    if name.lower() not in _LIKE_COLUMNS and _is_value_of_the_engine(name):
        message = f"speaks of {name}, which depends on the time or the session, not on the record"
        raise ExpressionError(message, _MOMENT_HINT)
    return name


@lru_cache(1024)
def _is_value_of_the_engine(name: str) -> bool:
    """True for ``current_date`` and similar names, which look like columns."""
    try:
        engine.run(f"SELECT {quoted(name)}")
    except duckdb.Error:
        return False
    return True
