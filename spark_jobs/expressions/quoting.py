"""Names as SQL has them; loads no DuckDB."""

from __future__ import annotations


def quoted(name: str) -> str:
    """Return a name as SQL has it, whatever is in it."""
    return '"' + name.replace('"', '""') + '"'
