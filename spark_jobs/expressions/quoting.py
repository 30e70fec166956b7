"""SQL identifiers, without importing DuckDB."""

from __future__ import annotations


def quoted(name: str) -> str:
    """Return a quoted SQL identifier for any name."""
    return '"' + name.replace('"', '""') + '"'
