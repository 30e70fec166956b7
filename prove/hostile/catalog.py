"""Hostile catalogs: down, slow, refusing or locked during a run, then healthy again.

What becomes of the commit's own request is in the crash matrix; here it is whatever the catalog is asked.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

from prove.crash.nemeses import SOON
from prove.hostile.case import scenarios
from prove.hostile.moments import BEFORE, COMMITTING, LANDED, WRITING_ON, SetUp, cases_at, harmed
from prove.lab.harm_proxy import Harm
from prove.lab.patience import Patience
from prove.lab.pipeline_lab import configure
from prove.workload import REST, SQLITE, Workload

MOMENTS = (BEFORE, WRITING_ON, COMMITTING, LANDED)
SHORT = Patience(SOON, answer=2.0, lock=1)
HARMS = (Harm.SLOW, Harm.ALL_503, Harm.ALL_CUT, Harm.SILENT, Harm.DENIED)


@contextmanager
def _shut_down(workload: Workload) -> Iterator[Callable[[], None]]:
    assert workload.proxy is not None
    yield workload.proxy.stop
    configure(workload.lab, "catalog", {"uri": workload.proxy.upstream})


@contextmanager
def _lock(workload: Workload) -> Iterator[Callable[[], None]]:
    with closing(sqlite3.connect(_file_of(workload), isolation_level=None)) as holder:

        def begin() -> None:
            # In a write-ahead log nothing less keeps readers out as well.
            holder.execute("PRAGMA locking_mode = EXCLUSIVE")
            holder.execute("BEGIN EXCLUSIVE")

        yield begin


@contextmanager
def _put_aside(put_there: Callable[[Path], object], workload: Workload) -> Iterator[Callable[[], None]]:
    """Move the file away, and back at the end of the block."""
    file = _file_of(workload)
    aside = file.with_suffix(".aside")

    def begin() -> None:
        assert not file.with_name(f"{file.name}-wal").exists(), "a connection is open"
        file.rename(aside)
        put_there(file)

    yield begin
    if file.is_dir():
        file.rmdir()
    aside.replace(file)


def _file_of(workload: Workload) -> Path:
    return Path(workload.lab.config.catalog.properties["uri"].removeprefix("sqlite:///"))


def _damage(file: Path) -> None:
    file.write_bytes(b"no database at all" * 1000)


ON_SQLITE: tuple[tuple[str, str, SetUp], ...] = (
    ("locked", "locked by somebody for long", _lock),
    # A folder stands in its place: root could open a file of any mode.
    ("unreadable", "its file cannot be opened", partial(_put_aside, Path.mkdir)),
    ("damaged", "its file is none of SQLite's", partial(_put_aside, _damage)),
    ("missing", "its file is gone", partial(_put_aside, lambda _file: None)),
)
_cases = partial(cases_at, MOMENTS, patience=SHORT)
CASES = (
    *(case for row in ON_SQLITE for case in _cases(*row, catalog=SQLITE)),
    *_cases("down", "every connection refused", _shut_down, catalog=REST),
    *(
        case
        for harm in HARMS
        for case in _cases(
            harm.slug, harm.value, partial(harmed, "uri", harm), catalog=REST, is_sat_out=harm is Harm.SLOW
        )
    ),
)
SCENARIOS = scenarios("a hostile catalog", CASES, prefix="catalog/")
