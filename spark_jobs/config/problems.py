"""A parsed configuration file, and a mistake in one: where it stands and what to write instead. Pure."""

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
    """Return the mistakes of one file as they stand in it."""
    return tuple(sorted(problems, key=lambda problem: (problem.line or 0, problem.key)))


@dataclass(frozen=True, slots=True)
class Finding:
    """A mistake found in parsed content, before its path is turned into a file and a line."""

    path: Path
    message: str
    hint: str = ""

    def at(self, file: str, line: int | None = None) -> ConfigProblem:
        """Return it with its file, line and dotted key."""
        return ConfigProblem(file, line, ".".join(self.path), self.message, self.hint)


@dataclass(frozen=True, slots=True)
class Document:
    """``content`` holds str, None, lists and maps; ``lines`` goes from key path to line number, from 1."""

    file: str
    content: dict[str, Any]
    lines: dict[Path, int] = field(default_factory=dict)

    def line_of(self, path: Path) -> int | None:
        """Line of the key, or of the nearest key around it that is in the file."""
        for length in range(len(path), 0, -1):
            if path[:length] in self.lines:
                return self.lines[path[:length]]
        return None

    def locate(self, finding: Finding) -> ConfigProblem:
        """Return the finding with its file, line and dotted key."""
        return finding.at(self.file, self.line_of(finding.path))


class UnreadableValueError(ValueError):
    """A text that is not what its key wants; the message never holds more than that text."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def mistake(way: str, path: Path = (), /, **places: object) -> Finding:
    """Return the mistake that errors.toml has under ``bad-config.WAY``."""
    told = fault(f"bad-config.{way}", **places)
    return Finding(path, told.message, told.hint)


def wrong_value(way: str, /, **places: object) -> UnreadableValueError:
    """Return the same as what a value is refused with, where only pydantic knows the key."""
    found = mistake(way, **places)
    return UnreadableValueError(found.message, found.hint)


def only(way: str, is_right: Callable[[str], object], *, is_shown: bool = True) -> Callable[[str], str]:
    """Return what gives a text back if it is right, and refuses it as the mistake of this way if not.

    Without ``is_shown`` the text is kept from the mistake: it may hold a password.
    """

    def take(text: str) -> str:
        if not is_right(text):
            raise wrong_value(way, **({"text": text} if is_shown else {}))
        return text

    return take


def closest(word: str, known: Collection[str], *, cutoff: float = 0.6) -> str | None:
    """Return the known word that is most like this one, None when none is like it."""
    return next(iter(difflib.get_close_matches(word, known, n=1, cutoff=cutoff)), None)


def did_you_mean(meant: str | None, otherwise: str) -> str:
    """Return the hint that asks for what was meant, ``otherwise`` when nobody can tell."""
    return f"Did you mean {meant}?" if meant else otherwise
