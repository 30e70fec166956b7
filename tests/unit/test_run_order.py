"""Which tests of a run begin first."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from tests.support.run_order import Recorder, files_from, longest_first, read_durations

HERE = "tests/unit/test_run_order.py"
THERE = "tests/conftest.py"


@dataclass
class Timed:
    """What the order looks at in an item, and a record in a report."""

    nodeid: str
    duration: float = 0.0


def test_files_that_take_long_come_first_and_stay_together() -> None:
    """Unknown files before all, of these the larger; tests of one file in the order they had."""
    names = ("short::b", "long::z", "new::n", "newer::b", "long::a", "newer::a", "short::a")
    tests = [Timed(name) for name in names]
    longest_first(tests, {"short": 1.0, "long": 60.0})  # type: ignore[arg-type]
    assert [test.nodeid for test in tests] == [
        *("newer::b", "newer::a", "new::n"),
        *("long::z", "long::a", "short::b", "short::a"),
    ]


def test_each_worker_begins_with_other_files_and_has_all(tmp_path: Path) -> None:
    """What stands beside the tests is none of them."""
    (tmp_path / "tests" / "unit").mkdir(parents=True)
    for name in ("test_a.py", "unit/test_b.py", "unit/test_c.py", "conftest.py", "unit/test_d.py"):
        (tmp_path / "tests" / name).touch()
    chosen = [files_from(worker / 2, tmp_path) for worker in range(2)]
    assert [[Path(each).name[5] for each in files] for files in chosen] == [[*"abcd"], [*"cdab"]]


def test_a_run_rewrites_what_it_timed_and_keeps_the_rest(tmp_path: Path) -> None:
    """Phases add up by file; files that are gone are forgotten."""
    path = tmp_path / "durations.json"
    path.write_text(json.dumps({"tests/gone.py": 9.0, THERE: 5.0, HERE: 1.0}))
    recorder = Recorder(path)
    for duration in (2.0, 4.0):
        recorder.pytest_runtest_logreport(Timed(f"{HERE}::test_a", duration))  # type: ignore[arg-type]
    recorder.pytest_sessionfinish()
    assert list(read_durations(path).items()) == [(HERE, 6.0), (THERE, 5.0)]
