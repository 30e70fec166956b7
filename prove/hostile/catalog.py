"""Hostile catalogs: down, slow, refusing or locked while a run is at work, and then well again.

What becomes of the commit's own request is in the crash matrix; here it is whatever the catalog is asked.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from prove.crash.nemeses import SOON
from prove.hostile.case import Case
from prove.hostile.moments import BEFORE, COMMITTING, GOES_ON, LANDED, WRITING_ON, Meeting, harm_proxy
from prove.lab.harm_proxy import Harm
from prove.lab.patience import Patience
from prove.lab.pipeline_lab import configure
from prove.scenario import Scenario
from prove.workload import REST, SQLITE, Workload

if TYPE_CHECKING:
    Arranged = Callable[[Workload], AbstractContextManager[Callable[[], None]]]

GROUP = "a hostile catalog"
SHORT = Patience(SOON, answer=2.0, lock=1)
HARMS = (Harm.SLOW, Harm.ALL_503, Harm.ALL_CUT, Harm.SILENT, Harm.DENIED)


def hostile_catalogs() -> Iterator[Scenario]:
    """Yield every case, in the report's order."""
    for name, title, set_up in (
        ("locked", "locked by somebody for long", _lock),
        ("unreadable", "its file cannot be opened", _make_unreadable),
        ("damaged", "its file is none of SQLite's", _damage),
        ("missing", "its file is gone", _take_away),
    ):
        yield from _cases(SQLITE, name, title, set_up)
    yield from _cases(REST, "down", "every connection refused", _shut_down)
    for harm in HARMS:
        yield from _cases(REST, harm.slug, harm.value, partial(_harm, harm), is_sat_out=harm is Harm.SLOW)


def _cases(
    catalog: str, name: str, title: str, set_up: Arranged, *, is_sat_out: bool = False
) -> Iterator[Scenario]:
    for moment in (BEFORE, WRITING_ON, COMMITTING, LANDED):
        case = Case(
            name=f"catalog/{name}/{moment.name}",
            title=f"{title}, {moment.title}",
            promise=GOES_ON if is_sat_out else moment.promise,
            inject=Meeting(moment, set_up, is_sat_out, patience=SHORT),
            catalog=catalog,
            may_read_again=(0,) if is_sat_out else moment.may_read_again,
        )
        yield case.scenario(GROUP)


@contextmanager
def _harm(harm: Harm, workload: Workload) -> Iterator[Callable[[], None]]:
    with harm_proxy(workload, "uri") as proxy:
        yield partial(proxy.suffer, harm)


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
def _make_unreadable(workload: Workload) -> Iterator[Callable[[], None]]:
    """A folder stands in its place: root could open a file of any mode."""
    with _put_aside_while(workload) as put_aside:

        def begin() -> None:
            put_aside().mkdir()

        yield begin
        _file_of(workload).rmdir()


@contextmanager
def _damage(workload: Workload) -> Iterator[Callable[[], None]]:
    with _put_aside_while(workload) as put_aside:

        def begin() -> None:
            put_aside().write_bytes(b"no database at all" * 1000)

        yield begin


@contextmanager
def _take_away(workload: Workload) -> Iterator[Callable[[], None]]:
    with _put_aside_while(workload) as put_aside:

        def begin() -> None:
            put_aside()

        yield begin


@contextmanager
def _put_aside_while(workload: Workload) -> Iterator[Callable[[], Path]]:
    """Moves the file away until the block ends; gives its place."""
    file = _file_of(workload)
    aside = file.with_suffix(".aside")

    def put_aside() -> Path:
        assert not file.with_name(f"{file.name}-wal").exists(), "a connection is open"
        file.rename(aside)
        return file

    yield put_aside
    aside.replace(file)


def _file_of(workload: Workload) -> Path:
    return Path(workload.lab.config.catalog.properties["uri"].removeprefix("sqlite:///"))
