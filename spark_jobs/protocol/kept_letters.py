"""The dead letters that a commit takes out of their table or puts back, kept whole in a file. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KeptLetters:
    """A file under ``state:`` with so many ``letters``; its ``name`` has the digest of what is in it."""

    name: str
    letters: int

    @property
    def digest(self) -> str:
        """Return the first hex digits of the content's SHA-256."""
        return self.name.removesuffix(".parquet").rpartition("-")[2]
