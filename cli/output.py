"""What commands print: tables, steps, one JSON line for machines, and errors as a line, a hint and an anchor.

A command with ``--json`` makes one ``Report``, which is both what people read and what programs do.

All that is told passes the secret scrubber, as an error's text may carry what a broker or catalog was told. A
word alone does not, and no row of data: it is a name or a value, in which a mask would be another one.
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

_Said = ParamSpec("_Said")
count, counts, seconds, when = texts.count, batch.counts, texts.seconds, texts.when
_NAME_OF = attrgetter("name")
_LAST_LINE = "Print one JSON object as the last line."
MOST_UNEXPECTED_CHARACTERS = 400
LONGEST_WORD = 20  # a longer one is a path, which may be broken
LONGEST_VALUE = 36  # a UUID; a time with its zone has 32; a longer word of data may be cut
PIPE_WIDTH = 160  # a pipe has no width; 80 would cut table names in logs


def _console(*, stderr: bool = False) -> Console:
    console = Console(stderr=stderr, highlight=False, soft_wrap=False)
    if not console.is_terminal:
        console.width = PIPE_WIDTH
    return console


def when_ms(milliseconds: int | None) -> str | None:
    """Return milliseconds since the epoch as ``when`` does."""
    return None if milliseconds is None else when(milliseconds * 1000)


def say(*lines: str) -> None:
    """Print lines of plain text to standard output, each at once even through a pipe."""
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
    """Print rows under ``columns``; ``numbers`` and ``ids`` are aligned to the right, ids to be typed again.

    A word of the header, a number and a name stay whole: what is wider than the terminal is the terminal's
    to wrap. Of rows that are data nothing is masked, times stay whole, and longer words are cut, not broken.
    """
    told, longest = (str, LONGEST_VALUE) if is_data else (_masked, LONGEST_WORD)
    cells = [
        [told(_cell(value, name in ids)) for name, value in zip(columns, row, strict=True)] for row in rows
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
    """What one command has to tell: lines, headings and tables to people, an object to programs.

    ``is_told`` says whether people are told at all: with ``--json`` only by commands that take their time.
    """

    def __init__(self, *, as_json: bool = False, is_told: bool = True) -> None:
        self._as_json = as_json
        self._data: dict[str, Any] = {}
        self.say = _told(say, is_told)
        self.heading = _told(heading, is_told)
        self.table = _told(table, is_told)

    def add(self, of: object = None, *names: str, **data: Any) -> None:
        """Add to the object: the fields of a dataclass, all or those named, then ``data``."""
        self._data |= {**({} if of is None else fields(of, *names)), **data}

    def end(self) -> None:
        """Print the object where it is asked for."""
        if self._as_json:
            json_line(self._data)


def _told(tell: Callable[_Said, None], is_told: bool) -> Callable[_Said, None]:
    return tell if is_told else lambda *_, **__: None


def reported(
    command: Callable[..., int | None], *, shows: str = _LAST_LINE, is_told: bool = False
) -> Callable[..., int | None]:
    """Give a command ``--json`` and its report; with ``is_told`` people are told beside the object too."""

    @wraps(command)
    def run(*, as_json: bool, **typed: Any) -> int | None:
        report = Report(as_json=as_json, is_told=is_told or not as_json)
        exit_code = command(report, **typed)
        report.end()
        return exit_code

    return click.option("--json", "as_json", is_flag=True, help=shows)(run)


told_and_reported = partial(reported, is_told=True)


def _cell(value: object, is_id: bool) -> str:
    if value is None:
        return "-"
    if isinstance(value, int) and not isinstance(value, bool) and not is_id:
        return f"{value:,}"
    return str(value)


def json_line(value: Any) -> None:
    """Print one JSON object on one line: what ``--json`` ends with."""
    plain = json.loads(json.dumps(value, default=_plain))
    print(json.dumps(_masked(plain), separators=(",", ":")), flush=True)


def _plain(value: Any) -> Any:
    """Return the fields of a dataclass; a range of offsets and all else is written as people write it."""
    is_text = isinstance(value, OffsetRange) or not dataclasses.is_dataclass(value)
    return str(value) if is_text else fields(value)


def fields(value: Any, *names: str) -> dict[str, Any]:
    """Return by name the fields of a dataclass, or what is named of whatever it is; of None each is None."""
    return {name: getattr(value, name, None) for name in names or map(_NAME_OF, dataclasses.fields(value))}


def _masked(value: Any) -> Any:
    """Return the value with its sentences scrubbed."""
    if isinstance(value, dict):
        return {key: _masked(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_masked(item) for item in value]
    return scrub(value) if isinstance(value, str) and " " in value else value


def render_error(error: BaseException) -> None:
    """Print an error to standard error: what and where, then the hint, then where it is explained."""
    for line in error_lines(error):
        print(scrub(line), file=sys.stderr)
    sys.stderr.flush()


def error_lines(error: BaseException) -> list[str]:
    """Return an error's lines; a message of several keeps them, its place goes after the first."""
    if not isinstance(error, SluiceError):
        text = " ".join(str(error).split()) or "no message"
        if len(text) > MOST_UNEXPECTED_CHARACTERS:  # a Java exception brings its whole stack
            text = f"{text[:MOST_UNEXPECTED_CHARACTERS]} …"
        return [
            f"error: unexpected {type(error).__name__}: {text}",
            "  hint: the same command with --debug shows where; this deserves a bug report.",
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
    """Print the traceback, secrets removed."""
    print(scrub("".join(traceback.format_exception(error))), file=sys.stderr)
