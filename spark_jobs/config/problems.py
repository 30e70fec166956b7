"""A mistake in a configuration file: where it stands and what to write instead. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ConfigProblem:
    """One mistake; ``key`` is the dotted path, ``line`` counts from 1 (None: the file as a whole)."""

    file: str
    line: int | None
    key: str
    message: str
    hint: str = ""

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        key = f" {self.key}" if self.key else ""
        return f"{place}{key}: {self.message}{f' — {self.hint}' if self.hint else ''}"


def in_order(problems: Iterable[ConfigProblem]) -> tuple[ConfigProblem, ...]:
    """Return the mistakes of one file as they stand in it."""
    return tuple(sorted(problems, key=lambda problem: (problem.line or 0, problem.key)))


@dataclass(frozen=True, slots=True)
class Finding:
    """A mistake found in parsed content, before its path is turned into a file and a line."""

    path: tuple[str, ...]
    message: str
    hint: str = ""


class UnreadableValueError(ValueError):
    """A text that is not what its key wants; the message never holds more than that text."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def closest(word: str, known: Collection[str], *, cutoff: float = 0.6) -> str | None:
    """Return the known word that is most like this one, None when none is like it."""
    return next(iter(difflib.get_close_matches(word, known, n=1, cutoff=cutoff)), None)


def did_you_mean(meant: str | None, otherwise: str) -> str:
    """Return the hint that asks for what was meant, ``otherwise`` when nobody can tell."""
    return f"Did you mean {meant}?" if meant else otherwise
