"""What can be said of ``sort_by`` before there is a table. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from spark_jobs.config.problems import Finding, UnreadableValueError

_NESTED = ("struct", "list", "map")


def sort_column(text: str) -> str:
    """Return the column's name; raises ``UnreadableValueError`` for what is inside one."""
    if "." in text or not text:
        raise UnreadableValueError(
            f"{text!r} is no column by itself",
            "Name a column of the table itself.",
        )
    return text


def check_sort_by(sort_by: Sequence[str], columns: Mapping[str, str]) -> Finding | None:
    """Return what speaks against sorting by these; ``columns`` are declared types."""
    if twice := next((name for name in sort_by if sort_by.count(name) > 1), None):
        return Finding(("sort_by",), f"names the column {twice} twice", "Keep the first.")
    for name in sort_by:
        if (kind := columns.get(name, "")).startswith(_NESTED):
            told = f"names {name}, a {kind}: such values have no order"
            return Finding(("sort_by",), told, "Name columns with single values.")
    return None
