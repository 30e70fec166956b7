"""Every place that the product names for a kill is struck in the crash matrix, or it is said here why not."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from prove.crash.matrix import crash_cells
from prove.crash.nemeses import Kill
from prove.hostile import gateway, gateway_away
from spark_jobs.txlog.entries import Phase

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
ROOM = ROOT / "spark_jobs"
BATCH_KINDS = ("drain", "replay", "redrive", "rebuild")
# What stands before the places that a file hands on without: `self._reach("after-sweep")`.
PREFIXES = {
    "recover.py": ("recover",),
    "ordered.py": ("export",),
    "drain_batch.py": BATCH_KINDS,
    "lane.py": ("gateway",),
    "writer.py": ("gateway",),
}
PLACE = re.compile(r"(?!kill-)[a-z]+(?:-[a-z]+)*\.(?:before|after)-[a-z-]+")
NOT_STRUCK = {
    "replay.after-held": "a replay is never held",
    "redrive.after-held": "nor is a redrive",
    "rebuild.after-held": "nor a rebuild",
    "split.decode-*:*-*": "one for each chunk, for records that a decoder dies of (test_poison_records)",
    "notice.before-post": "what is told to others changes no table (test_notices)",
    "notice.after-post": "as above",
}


def test_every_place_is_struck() -> None:
    """A new place that no case kills at would prove nothing, and would not be missed."""
    reached = set(_reached())
    ending = {cell.nemesis.point for cell in crash_cells() if isinstance(cell.nemesis, Kill)}
    ending |= {f"gateway.{point}" for point in (*gateway.POINTS, *gateway_away.AWAY_POINTS)}
    assert ending <= reached, "places that the product does not name"
    assert reached - ending == set(NOT_STRUCK)


def test_every_kill_names_a_place() -> None:
    """A place that was moved or renamed is never reached: a case that still names it kills nothing."""
    named = {
        (str(path.relative_to(ROOT)), node.value)
        for folder in ("prove", "tests")
        for path in (ROOT / folder).rglob("*.py")
        if PLACE.search(source := path.read_text())
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and PLACE.fullmatch(node.value)
    }
    reached = set(_reached())
    assert len(named) > 100
    assert {(file, place) for file, place in named if place not in reached} == set()


def _reached() -> Iterator[str]:
    for path in (*ROOM.rglob("*.py"), *(ROOT / "gateway").rglob("*.py")):
        for call in _calls(path):
            if isinstance(call.func, ast.Attribute) and call.func.attr in {"reach", "_reach"}:
                yield from _expanded(path.name, _text(call.args[0]))


def _expanded(file: str, text: str) -> Iterator[str]:
    """The names that a place has at run time; a spelling that is not known here fails."""
    if text in {"*", "*.*", "recover.*", "export.*", "gateway.*"}:
        return  # hands on what its callers name
    if text == "after-*":
        logged = _phases("drain_batch.py") | _phases("gate.py")
        yield from (f"{kind}.after-{phase}" for kind in BATCH_KINDS for phase in logged)
    elif text == "act.after-*":
        yield from (f"act.after-{phase}" for phase in _phases("act.py"))
    elif text.startswith("*."):
        yield from (f"{swap}{text[1:]}" for swap in _swaps())
    elif "." not in text:
        yield from (f"{prefix}.{text}" for prefix in PREFIXES[file])
    else:
        assert "*" not in text or text in NOT_STRUCK, text
        yield text


def _phases(file: str) -> set[str]:
    """What a file makes for the log, as fail points spell it."""
    (path,) = ROOM.rglob(file)
    made = {call.func.id for call in _calls(path) if isinstance(call.func, ast.Name)}
    return {phase.kebab for phase in Phase if phase in made}


def _swaps() -> set[str]:
    """What commits are called."""
    return {
        _text(statement.value)
        for path in ROOM.rglob("*.py")
        for statement in ast.walk(ast.parse(path.read_text()))
        if isinstance(statement, ast.AnnAssign | ast.Assign) and statement.value is not None
        if "fail_point" in {getattr(target, "id", "") for target in _targets(statement)}
    }


def _targets(statement: ast.AnnAssign | ast.Assign) -> list[ast.expr]:
    return statement.targets if isinstance(statement, ast.Assign) else [statement.target]


def _text(argument: ast.expr) -> str:
    """A string as it is written; * for what is known at run time only."""
    if isinstance(argument, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "*" for part in argument.values)
    return str(argument.value) if isinstance(argument, ast.Constant) else "*"


@cache
def _calls(path: Path) -> list[ast.Call]:
    return [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
