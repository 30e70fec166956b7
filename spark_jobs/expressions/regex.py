"""User-written regular expressions, run by RE2 (in DuckDB): linear time in the text's length.

Importing this opens nothing; what backtracking alone can do is refused by name.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import duckdb
import pyarrow as pa

from spark_jobs.expressions import engine
from spark_jobs.expressions.judging import ExpressionError, first_line

_HINT = "Use RE2 syntax, as in Go: without lookaround, back references, atomic groups and conditions."
# By what RE2 names as the part that it cannot read.
_UNKNOWN_TO_RE2 = (
    (re.compile(r"\(\?<?[=!]"), "a lookaround"),
    (re.compile(r"\\[1-9]|\(\?P$"), "a back reference"),
    (re.compile(r"\(\?>"), "an atomic group"),
    (re.compile(r"[*+?}]\+"), "a possessive repeat"),
    (re.compile(r"\(\?\("), "a condition"),
)


def check_regex(pattern: str) -> None:
    """Raise ``ExpressionError`` if the text is not a regular expression of RE2."""
    try:
        engine.run(f"SELECT {_matches(engine.text(''), pattern)}")
    except (duckdb.Error, UnicodeError) as error:
        problem = first_line(error)
        part = problem.rpartition(": ")[2]
        if part == "(?<":  # a name's too, which RE2 wants as (?P<name>
            part = pattern[pattern.index(part) :][:4]
        named = next((name for form, name in _UNKNOWN_TO_RE2 if form.search(part)), None)
        if named is not None:
            raise ExpressionError(f"{pattern!r} has {named}, which RE2 cannot do: {part}", _HINT) from error
        raise ExpressionError(f"{pattern!r} is not a regular expression: {problem}", _HINT) from error


def whole_matches(pattern: str, texts: Sequence[str]) -> list[str]:
    """Return the texts that match as a whole, in order. Raises ``ExpressionError``."""
    check_regex(pattern)
    if not texts:
        return []
    found = engine.select(_matches("each", pattern), pa.table({"each": pa.array(texts, pa.string())}))
    return [each for each, is_one in zip(texts, found.column(0).to_pylist(), strict=True) if is_one]


def _matches(text: str, pattern: str) -> str:
    return f"regexp_full_match({text}, {engine.text(pattern)})"
