"""Mistakes in configuration files: place, message and hint. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

from spark_jobs.protocol.errors import fault

Path = tuple[str, ...]


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
    """Return the mistakes of one file in their order in it."""
    return tuple(sorted(problems, key=lambda problem: (problem.line or 0, problem.key)))


@dataclass(frozen=True, slots=True)
class Finding:
    """A mistake in parsed content, by key path."""

    path: Path
    message: str
    hint: str = ""

    def at(self, file: str, line: int | None = None) -> ConfigProblem:
        """Return the problem with its file, line and dotted key."""
        return ConfigProblem(file, line, ".".join(self.path), self.message, self.hint)


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed file: ``content`` of str, None, lists and maps; ``lines`` maps key paths to lines, from 1."""

    file: str
    content: dict[str, Any]
    lines: dict[Path, int] = field(default_factory=dict)

    def line_of(self, path: Path) -> int | None:
        """Return the line of the key, or of the nearest enclosing key in the file."""
        for length in range(len(path), 0, -1):
            if path[:length] in self.lines:
                return self.lines[path[:length]]
        return None

    def locate(self, finding: Finding) -> ConfigProblem:
        """Return the finding as a problem with file, line and dotted key."""
        return finding.at(self.file, self.line_of(finding.path))


class UnreadableValueError(ValueError):
    """A value of the wrong type or format. The message never contains more than the value itself."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def mistake(way: str, path: Path = (), /, **places: object) -> Finding:
    """Return the mistake ``bad-config.WAY`` of errors.toml."""
    error = fault(f"bad-config.{way}", **places)
    return Finding(path, error.message, error.hint)


def wrong_value(way: str, /, **places: object) -> UnreadableValueError:
    """Return the mistake as a validation error, for use where only pydantic knows the key."""
    found = mistake(way, **places)
    return UnreadableValueError(found.message, found.hint)


def only(way: str, is_right: Callable[[str], object], *, is_shown: bool = True) -> Callable[[str], str]:
    """Return a validator that returns valid text and refuses other text with the mistake ``way``.

    Without ``is_shown`` the text is kept from the mistake: it may hold a password.
    """

    def take(text: str) -> str:
        if not is_right(text):
            raise wrong_value(way, **({"text": text} if is_shown else {}))
        return text

    return take


def closest(word: str, known: Collection[str], *, cutoff: float = 0.6) -> str | None:
    """Return the most similar known word, or None."""
    return next(iter(difflib.get_close_matches(word, known, n=1, cutoff=cutoff)), None)


def did_you_mean(meant: str | None, otherwise: str) -> str:
    """Return a hint with the probable word, or ``otherwise`` without one."""
    return f"Did you mean {meant}?" if meant else otherwise
