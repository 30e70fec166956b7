"""A brake: each room of the house has a budget of lines, and only a commit of its own raises one."""

from __future__ import annotations

import tomllib
from collections import Counter
from pathlib import Path

from tests.measures import PACKAGES
from tests.support.questions import room_of

ROOT = Path(__file__).parents[2]
BUDGETS = ROOT / "tests" / "budgets.toml"


def _lines() -> Counter[str]:
    """Return the lines of Python of each room."""
    lines: Counter[str] = Counter()
    for folder in ("bootstrap", *PACKAGES):
        for path in (ROOT / folder).rglob("*.py"):
            if path.name != "__init__.py":
                lines[room_of(str(path.relative_to(ROOT)))] += path.read_bytes().count(b"\n")
    return lines


def test_no_room_is_larger_than_its_budget() -> None:
    """What is added to a full room is paid for in it, or asks for a larger budget first."""
    budgets = tomllib.loads(BUDGETS.read_text(encoding="utf-8"))
    over = {
        room: (lines, budgets[room]) for room, lines in _lines().items() if lines > budgets.get(room, lines)
    }
    assert not over, (
        "lines and budget; a commit that changes nothing but tests/budgets.toml raises one and says why"
    )


def test_every_room_has_a_budget() -> None:
    """A new room brings its budget, and one that is gone takes it along."""
    assert set(tomllib.loads(BUDGETS.read_text(encoding="utf-8"))) == set(_lines())
