"""Output of commands: lines, tables, one JSON object for programs, and errors with hint and anchor.

A command with ``--json`` fills one ``Report``, which prints for people or for programs.

All text passes the secret scrubber, because an error may contain text from a broker or catalog. Single words
and rows of data are not scrubbed: a mask would change a name or value.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import traceback
from collections.abc import Callable, Iterable, Sequence
from functools import partial, wraps
from operator import attrgetter
from typing import Any, ParamSpec

import click
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from spark_jobs.config.secrets import scrub
from spark_jobs.protocol import batch, texts
from spark_jobs.protocol.errors import SluiceError
from spark_jobs.protocol.offsets import OffsetRange

_Printed = ParamSpec("_Printed")
count, counts, seconds, when = texts.count, batch.counts, texts.seconds, texts.when
_NAME_OF = attrgetter("name")
_LAST_LINE = "Print one JSON object as the last line."
MOST_UNEXPECTED_CHARACTERS = 400
LONGEST_WORD = 20  # a longer one is a path, which may be broken
LONGEST_VALUE = 36  # a UUID; a time with its zone has 32; a longer word of data may be cut
_MOST_NAMES = 5
PIPE_WIDTH = 160  # a pipe has no width; 80 would cut table names in logs


def _console(*, stderr: bool = False) -> Console:
    console = Console(stderr=stderr, highlight=False, soft_wrap=False)
    if not console.is_terminal:
        console.width = PIPE_WIDTH
    return console


def when_ms(milliseconds: int | None) -> str | None:
    """Format milliseconds since the epoch like ``when``."""
    return None if milliseconds is None else when(milliseconds * 1000)


def say(*lines: str) -> None:
    """Print lines of plain text to standard output, flushing each."""
    for line in lines:
        print(scrub(line), flush=True)


def heading(text: str) -> None:
    """Print a heading with a blank line before it."""
    _console().print(Text(f"\n{scrub(text)}", style="bold"))


def table(
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    numbers: Sequence[str] = (),
    ids: Sequence[str] = (),
    is_data: bool = False,
) -> None:
    """Print rows under ``columns``; ``numbers`` and ``ids`` are right-aligned, ``ids`` without separators.

    Header words, numbers and names are never broken; the terminal wraps wider tables. With ``is_data``
    nothing is masked, times stay whole, and longer words are truncated instead of broken.
    """
    clean, longest = (str, LONGEST_VALUE) if is_data else (_masked, LONGEST_WORD)
    cells = [
        [clean(_cell(value, name in ids)) for name, value in zip(columns, row, strict=True)] for row in rows
    ]
    grid = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for index, name in enumerate(columns):
        is_number = name in numbers or name in ids
        words = [word for row in cells for word in row[index].split()]
        whole = [*name.split(), *(word for word in words if is_number or len(word) <= longest)]
        grid.add_column(
            name,
            justify="right" if is_number else "left",
            overflow="ellipsis" if is_data else "fold",
            min_width=max(map(cell_len, whole), default=0),
        )
    for row in cells:
        grid.add_row(*map(Text, row))
    _console().print(grid, crop=False)


class Report:
    """Output of one command: lines, headings and tables for people, one object for programs.

    With ``is_verbose`` False nothing is printed for people, as with ``--json`` of quick commands.
    """

    def __init__(self, *, as_json: bool = False, is_verbose: bool = True) -> None:
        self._as_json = as_json
        self._data: dict[str, Any] = {}
        self.say = _printer(say, is_verbose)
        self.heading = _printer(heading, is_verbose)
        self.table = _printer(table, is_verbose)

    def add(self, of: object = None, *names: str, **data: Any) -> None:
        """Add fields of a dataclass (all, or those named) and ``data`` to the object."""
        self._data |= {**({} if of is None else fields(of, *names)), **data}

    def end(self) -> None:
        """Print the object if ``--json`` was given."""
        if self._as_json:
            json_line(self._data)


def _printer(show: Callable[_Printed, None], is_verbose: bool) -> Callable[_Printed, None]:
    return show if is_verbose else lambda *_, **__: None


def reported(
    command: Callable[..., int | None], *, shows: str = _LAST_LINE, is_verbose: bool = False
) -> Callable[..., int | None]:
    """Add ``--json`` and a report to a command; with ``is_verbose`` lines are printed with ``--json`` too."""

    @wraps(command)
    def run(*, as_json: bool, **typed: Any) -> int | None:
        report = Report(as_json=as_json, is_verbose=is_verbose or not as_json)
        exit_code = command(report, **typed)
        report.end()
        return exit_code

    return click.option("--json", "as_json", is_flag=True, help=shows)(run)


verbosely_reported = partial(reported, is_verbose=True)


def _cell(value: object, is_id: bool) -> str:
    if value is None:
        return "-"
    if isinstance(value, int) and not isinstance(value, bool) and not is_id:
        return f"{value:,}"
    return str(value)


def json_line(value: Any) -> None:
    """Print one JSON object on one line, the last of ``--json``."""
    plain = json.loads(json.dumps(value, default=_plain))
    print(json.dumps(_masked(plain), separators=(",", ":")), flush=True)


def _plain(value: Any) -> Any:
    """Return the fields of a dataclass as a dict; offset ranges and other values as text."""
    is_text = isinstance(value, OffsetRange) or not dataclasses.is_dataclass(value)
    return str(value) if is_text else fields(value)


def fields(value: Any, *names: str) -> dict[str, Any]:
    """Return all fields of a dataclass, or the named attributes of any object; None has None for each."""
    return {name: getattr(value, name, None) for name in names or map(_NAME_OF, dataclasses.fields(value))}


def _masked(value: Any) -> Any:
    """Return the value with secrets removed from its sentences."""
    if isinstance(value, dict):
        return {key: _masked(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_masked(item) for item in value]
    return scrub(value) if isinstance(value, str) and " " in value else value


def render_error(error: BaseException) -> None:
    """Print an error to standard error: message with coordinates, hint, anchor."""
    for line in error_lines(error):
        print(scrub(line), file=sys.stderr)
    sys.stderr.flush()


def error_lines(error: BaseException) -> list[str]:
    """Return the lines of an error; its coordinates follow the first line of the message."""
    if not isinstance(error, SluiceError):
        text = " ".join(str(error).split()) or "no message"
        if len(text) > MOST_UNEXPECTED_CHARACTERS:  # a Java exception brings its whole stack
            text = f"{text[:MOST_UNEXPECTED_CHARACTERS]} …"
        return [
            f"error: unexpected {type(error).__name__}: {text}",
            "  hint: Run the command again with --debug for a traceback, and report it as a bug.",
        ]
    where = ", ".join(f"{name} {value}" for name, value in error.where.items())
    first, *others = error.message.strip().splitlines()
    return [
        f"error: {first}{f' ({where})' if where else ''}",
        *others,
        f"  hint: {error.hint}",
        f"  see:  docs/reference/errors.md#{error.code}",
    ]


def print_traceback(error: BaseException) -> None:
    """Print the traceback with secrets removed."""
    print(scrub("".join(traceback.format_exception(error))), file=sys.stderr)


def few(names: Sequence[str]) -> str:
    """Return the first names, and how many more there are."""
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more:,} more" if more > 0 else "")
