"""The order of a run: files that take long begin first, by what an earlier run took; recorded on demand.

A file is what pytest-xdist gives to a worker. Within one the order is pytest-randomly's.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pytest

DURATIONS = Path(__file__).with_name("durations.json")


def file_of(nodeid: str) -> str:
    """Return the file of a test."""
    return nodeid.partition("::")[0]


def longest_first(items: list[pytest.Item], seconds: Mapping[str, float]) -> None:
    """Sort the tests by how long their whole file takes.

    Files that were never timed come first, those with many tests before the others.
    """
    tests = Counter(file_of(item.nodeid) for item in items)

    def rank(item: pytest.Item) -> tuple[float, int]:
        file = file_of(item.nodeid)
        return -seconds.get(file, float("inf")), -tests[file]

    # Of files that are equal in both, none may come between another's tests.
    items.sort(key=lambda item: (*rank(item), file_of(item.nodeid)))


def files_from(part: float, root: Path) -> list[str]:
    """Return all files of tests, beginning with this part of them.

    In a new clone each worker so compiles other files first, and finds compiled what the others began with.
    """
    files = sorted(str(path) for path in root.glob("tests/**/test_*.py"))
    begin = int(part * len(files))
    return files[begin:] + files[:begin]


def read_durations(path: Path = DURATIONS) -> dict[str, float]:
    """Return how many seconds each file took, setting up included; empty before the first record."""
    return dict(json.loads(path.read_text())) if path.exists() else {}


class Recorder:
    """Adds up what the files of a run take, and writes it down in the end, over what is known of others."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seconds: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count one phase of one test."""
        self._seconds[file_of(report.nodeid)] += report.duration  # type: ignore[assignment]

    def pytest_sessionfinish(self) -> None:
        """Write all durations, the longest first, without files that are gone."""
        known = read_durations(self._path) | {name: round(took, 1) for name, took in self._seconds.items()}
        present = {name: took for name, took in known.items() if Path(name).exists()}
        longest = sorted(present.items(), key=lambda pair: (-pair[1], pair[0]))
        self._path.write_text(f"{json.dumps(dict(longest), indent=1)}\n")
