"""Rewriting of configuration files of earlier versions (``validate --fix``).

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
from typing import Any

import yaml

from spark_jobs.config.file import parts
from spark_jobs.config.file_models import retired
from spark_jobs.config.problems import ConfigProblem, mistake
from spark_jobs.config.problems import Path as KeyPath
from spark_jobs.config.suites import ROW_CONDITION, WARNING
from spark_jobs.storage.state_files import write_whole

_ANCHOR_AND_TAG = re.compile(r"(?:[&!]\S*\s+)*")
_COMMA, _LAST_COMMA = re.compile(r"\s*,[ \t]*"), re.compile(r",\s*\Z")
_REST_OF_LINE = re.compile(r"[ \t]*(#[^\r\n]*)?(?:\r?\n|\Z)")


@dataclass(frozen=True, slots=True)
class Change:
    """A change of a file: the old and the new text."""

    file: str
    line: int
    key: str
    was: str
    now: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.key}: {self.was} is now {self.now}"


@dataclass(frozen=True, slots=True)
class Edit:
    """An edit of a file's text: range, new text, and the change to report (line, keys, old, new)."""

    start: int
    end: int
    text: str
    report: tuple[int, KeyPath, str, str]


# Of a file's text and nodes, and the nodes of the main file if it is a team's.
Mend = Callable[[str, yaml.Node, yaml.Node | None], Iterator[Edit]]


_Lists = dict[str, list[str]]  # of checks, by ``warn`` and ``off``


@dataclass(frozen=True, slots=True)
class _Entry:
    """A key of a map with its value, not from an alias; ``path`` is its key path."""

    path: KeyPath
    holder: yaml.MappingNode
    key: yaml.Node
    value: yaml.Node


def _row_conditions(text: str, root: yaml.Node, _main: yaml.Node | None) -> Iterator[Edit]:
    """Yield edits of row conditions in Python to equivalent SQL."""
    for each in _entries(root, (), set()):
        path, node = each.path, each.value
        is_condition = path[-1:] == (ROW_CONDITION,) and path[-4:-3] == ("expectations",)
        if is_condition and isinstance(node, yaml.ScalarNode):
            from spark_jobs.expressions.conditions import judge_condition, line_instead  # noqa: PLC0415  (DuckDB)
            from spark_jobs.expressions.judging import ExpressionError  # noqa: PLC0415

            with suppress(ExpressionError):
                if (line := line_instead(node.value)) is not None and judge_condition(line):
                    report = node.start_mark.line + 1, path, " ".join(node.value.split()), line
                    yield Edit(*_extent(text, node), _quoted(line), report)


def _retired_keys(text: str, root: yaml.Node, _main: yaml.Node | None) -> Iterator[Edit]:
    """Yield edits of retired keys to their replacement, or to nothing."""
    for each in _entries(root, (), set()):
        gone = retired(each.path, each.value.value)
        if gone is None or _is_shared(text, each.value, 0):
            continue
        start, end = each.key.start_mark.index, _extent(text, each.value)[1]
        report = each.key.start_mark.line + 1, each.path, " ".join(text[start:end].split())
        is_of_events = _value_of(each.holder, "layout") in ("changes", "mirror")
        if not gone[1]:
            yield Edit(*_with_its_place(text, each.holder, start, end), (*report, "left out"))
        elif _value_of(each.holder, gone[1].partition(":")[0]) is None and not is_of_events:
            yield Edit(start, end, gone[1], (*report, gone[1]))


def _severities(text: str, root: yaml.Node, main: yaml.Node | None) -> Iterator[Edit]:
    """Yield edits of check severities to equivalent lists; limits stay."""
    of_main = _lists(_defaults(main), {"warn": [*WARNING], "off": []})
    of_file = _lists(_defaults(root), of_main)
    for each in _entries(root, (), set()):
        match each.path, each.value:
            case ("defaults", "checks"), yaml.MappingNode() as checks:
                yield from _listed(text, each.path, checks, of_main)
            case ("pipelines", _, "checks"), yaml.MappingNode() as checks:
                yield from _listed(text, each.path, checks, of_file)


def _listed(text: str, path: KeyPath, checks: yaml.MappingNode, below: _Lists) -> Iterator[Edit]:
    before, after = _lists(checks, below, are_maps=False), _lists(checks, below)
    changed = [word for word in after if {*after[word]} != {*before[word]}]
    if _is_shared(text, checks, 0) or any(_value_of(checks, word) is not None for word in changed):
        return  # lists beside maps are for a person
    now = [f"{word}: [{', '.join(after[word])}]" for word in changed]
    for key, value in checks.value:
        if isinstance(value, yaml.MappingNode):
            now += [f"{key.value}: {limit.value}" for word, limit in value.value if word.value == "limit"]
            start, end = key.start_mark.index, _extent(text, value)[1]
            report = key.start_mark.line + 1, (*path, key.value), " ".join(text[start:end].split())
            if now:
                between = ", " if checks.flow_style else "\n" + " " * key.start_mark.column
                yield Edit(start, end, between.join(now), (*report, ", ".join(now)))
            else:
                yield Edit(*_with_its_place(text, checks, start, end), (*report, "left out"))
            now = []


def _defaults(root: yaml.Node | None) -> yaml.MappingNode | None:
    """Return the checks in a file's defaults."""
    entries = _entries(root, (), set()) if root else ()
    checks = (each.value for each in entries if each.path == ("defaults", "checks"))
    return next((each for each in checks if isinstance(each, yaml.MappingNode)), None)


def _lists(checks: yaml.MappingNode | None, below: _Lists, *, are_maps: bool = True) -> _Lists:
    """Return the checks that warn and are off, by lists and, if ``are_maps``, by severities."""
    lists = dict(below)
    for key, value in checks.value if checks else ():
        if key.value in lists:
            named = value.value if isinstance(value, yaml.SequenceNode) else [value]
            lists[key.value] = [each.value for each in named]
    for key, value in checks.value if checks and are_maps else ():
        how = _value_of(value, "severity")
        for word, names in lists.items() if how else ():
            kept = [name for name in names if name != key.value or how in ("off", word)]
            lists[word] = kept if how != word or key.value in kept else [*kept, key.value]
    return lists


MENDS: tuple[Mend, ...] = (_row_conditions, _retired_keys, _severities)


def rewrite(file: Path, main: Path | None = None) -> tuple[list[Change], list[ConfigProblem]]:
    """Rewrite a file in today's form; a file that cannot be read or written is a problem.

    ``main`` is the main file, written before, of a team's file.
    """
    try:
        before = file.read_bytes().decode()
        after, changes = rewritten(str(file), before, main.read_bytes().decode() if main else "")
        if changes:
            _write(file.resolve(), after)
    except UnicodeDecodeError:
        return [], []  # told by whoever reads it
    except OSError as error:
        return [], [mistake("file-unwritable", reason=error.strerror).at(str(file))]
    return changes, []


def rewritten(file: str, text: str, main: str = "") -> tuple[str, list[Change]]:
    """Return a file's text in today's form and the changes; without YAML, unchanged."""
    changes = []
    for mend in MENDS:
        while edits := _edits(mend, text, main):
            for edit in reversed(edits):
                text = text[: edit.start] + edit.text + text[edit.end :]
            for line, path, was, now in (edit.report for edit in edits):
                changes.append(Change(file, line, ".".join(path), was, now))
    return text, changes


def _edits(mend: Mend, text: str, main: str) -> list[Edit]:
    """Return edits by position; of two overlapping edits the second is found in the next pass."""
    try:
        root, below = (yaml.compose(each, Loader=yaml.SafeLoader) for each in (text, main))
    except (yaml.YAMLError, RecursionError):
        return []
    apart: list[Edit] = []
    for edit in sorted(mend(text, root, below), key=lambda each: each.start) if root else ():
        if not apart or apart[-1].end <= edit.start:
            apart.append(edit)
    return apart


def _entries(node: yaml.Node, path: KeyPath, seen: set[int]) -> Iterator[_Entry]:
    """Yield every key with its value in text order; aliased content comes once."""
    if id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            inside = (*path, str(key.value))
            if id(value) not in seen:
                yield _Entry(inside, node, key, value)
            yield from _entries(value, inside, seen)
    elif isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            yield from _entries(item, (*path, str(index)), seen)


def _value_of(holder: yaml.Node, name: str) -> Any:
    """Return the node under the name in a map, or None."""
    entries = holder.value if isinstance(holder, yaml.MappingNode) else ()
    return next((value.value for key, value in entries if key.value == name), None)


def _is_shared(text: str, node: yaml.Node, after: int) -> bool:
    """True if the node contains or is shared by an alias; such nodes are left to the user."""
    start = node.start_mark.index
    is_alias, is_anchor = start < after, text.startswith("&", start)
    return is_alias or is_anchor or any(_is_shared(text, part, start) for part in parts(node))


def _extent(text: str, node: yaml.Node) -> tuple[int, int]:
    """Return start and end of a value, after its anchor and without trailing space."""
    start, end = node.start_mark.index, node.end_mark.index
    if kept := _ANCHOR_AND_TAG.match(text, start, end):
        start = kept.end()
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return start, _extent(text, last[1] if isinstance(last, tuple) else last)[1]
    return start, start + len(text[start:end].rstrip())


def _with_its_place(text: str, holder: yaml.MappingNode, start: int, end: int) -> tuple[int, int, str]:
    """Return the range of an entry's text with its line or comma; comments stay."""
    if holder.flow_style:
        if comma := _COMMA.match(text, end):
            return start, comma.end(), ""
        return len(_LAST_COMMA.sub("", text[:start])), end, ""
    line = text.rfind("\n", 0, start) + 1
    rest = _REST_OF_LINE.match(text, end)
    if text[line:start].strip() or rest is None:
        return start, end, ""
    return (start, rest.start(1), "") if rest[1] else (line, rest.end(), "")


def _quoted(value: str) -> str:
    """Return a text quoted for YAML in any map or list, on one line."""
    if value.isprintable() and not {'"', "\\"} & set(value):
        return f'"{value}"'
    if value.isprintable():
        return "'" + value.replace("'", "''") + "'"
    return json.dumps(value)


def _write(file: Path, text: str) -> None:
    before = file.stat()
    write_whole(file, text)
    file.chmod(before.st_mode)
    with suppress(PermissionError):
        os.chown(file, before.st_uid, before.st_gid)
