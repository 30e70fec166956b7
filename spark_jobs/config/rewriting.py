"""Files that say what an earlier version had otherwise: found, and written as it is said now.

A mend finds what to change in the nodes of a file, and what to write there. Nothing else of the file changes:
comments, quotes, order and layout stay. What is written needs no mend, so a second time changes nothing.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import yaml

from spark_jobs.config.problems import ConfigProblem
from spark_jobs.config.problems import Path as KeyPath
from spark_jobs.config.suites import ROW_CONDITION
from spark_jobs.storage.state_files import write_whole

_ANCHOR_AND_TAG = re.compile(r"(?:[&!]\S*\s+)*")


@dataclass(frozen=True, slots=True)
class Change:
    """What a file said otherwise, and what it says now."""

    file: str
    line: int
    key: str
    was: str
    now: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.key}: {self.was} is now {self.now}"


@dataclass(frozen=True, slots=True)
class Edit:
    """A part of a file's text, what is to stand there, and what is told: line, keys, what was, what is."""

    start: int
    end: int
    text: str
    told: tuple[int, KeyPath, str, str]


Mend = Callable[[str, yaml.Node], Iterator[Edit]]


def _row_conditions(text: str, root: yaml.Node) -> Iterator[Edit]:
    """Conditions that were read as Python, as the SQL that keeps the same rows."""
    for path, node in _scalars(root, (), set()):
        if path[-1:] == (ROW_CONDITION,) and path[-4:-3] == ("expectations",):
            from spark_jobs.expressions.conditions import line_instead  # noqa: PLC0415  (DuckDB)

            if (line := line_instead(node.value)) is not None and _is_condition(line):
                yield _of_scalar(text, path, node, line)


MENDS: tuple[Mend, ...] = (_row_conditions,)


def rewrite(file: Path) -> tuple[list[Change], list[ConfigProblem]]:
    """Write what a file says otherwise as it is said now; what cannot be read or written is a problem."""
    try:
        before = file.read_bytes().decode()
        after, changes = rewritten(str(file), before)
        if changes:
            _write(file.resolve(), after)
    except UnicodeDecodeError:
        return [], []  # told by whoever reads it
    except OSError as error:
        told = f"cannot be written: {error.strerror}"
        return [], [ConfigProblem(str(file), None, "", told, "Check the file and its rights.")]
    return changes, []


def rewritten(file: str, text: str) -> tuple[str, list[Change]]:
    """Return a file's text as it is said now, and what is changed; of what is no YAML nothing is."""
    changes = []
    for mend in MENDS:
        try:
            root = yaml.compose(text, Loader=yaml.SafeLoader)
        except (yaml.YAMLError, RecursionError):
            break
        edits = sorted(mend(text, root), key=lambda edit: edit.start) if root else []
        for edit in reversed(edits):
            text = text[: edit.start] + edit.text + text[edit.end :]
        for line, path, was, now in (edit.told for edit in edits):
            changes.append(Change(file, line, ".".join(path), was, now))
    return text, changes


def _scalars(node: yaml.Node, path: KeyPath, seen: set[int]) -> Iterator[tuple[KeyPath, yaml.ScalarNode]]:
    """Give every text with the keys that lead to it; what aliases repeat comes once."""
    if id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, yaml.ScalarNode):
        yield path, node
    elif isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield from _scalars(value, (*path, str(key.value)), seen)
    else:
        for index, item in enumerate(node.value):
            yield from _scalars(item, (*path, str(index)), seen)


def _of_scalar(text: str, path: KeyPath, node: yaml.ScalarNode, now: str) -> Edit:
    start, end = node.start_mark.index, node.end_mark.index
    if kept := _ANCHOR_AND_TAG.match(text, start, end):
        start = kept.end()
    told = node.start_mark.line + 1, path, " ".join(node.value.split()), now
    return Edit(start, start + len(text[start:end].rstrip()), _quoted(now), told)


def _quoted(value: str) -> str:
    """Return a text as YAML has it within any map or list, on one line."""
    if value.isprintable() and not {'"', "\\"} & set(value):
        return f'"{value}"'
    if value.isprintable():
        return "'" + value.replace("'", "''") + "'"
    return json.dumps(value)


def _is_condition(line: str) -> bool:
    from spark_jobs.expressions.conditions import judge_condition  # noqa: PLC0415  (DuckDB)
    from spark_jobs.expressions.judging import ExpressionError  # noqa: PLC0415

    try:
        judge_condition(line)
    except ExpressionError:
        return False
    return True


def _write(file: Path, text: str) -> None:
    before = file.stat()
    write_whole(file, text)
    file.chmod(before.st_mode)
    with suppress(PermissionError):
        os.chown(file, before.st_uid, before.st_gid)
