"""Hostile catalogs: down, slow, refusing or locked while a run is at work, and then well again.

What becomes of the commit's own request is in the crash matrix; here it is whatever the catalog is asked.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from prove.crash.blows import SOON
from prove.hostile.case import Case
from prove.hostile.moments import BEFORE, COMMITTING, GOES_ON, LANDED, WRITING_ON, Meeting, harm_proxy
from prove.lab.harm_proxy import Harm
from prove.lab.new_lab import configure
from prove.lab.patience import Patience
from prove.stage import REST, SQLITE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from prove.scenario import Scenario
    from prove.stage import Play

    Arranged = Callable[[Play], AbstractContextManager[Callable[[], None]]]

GROUP = "a hostile catalog"
SHORT = Patience(SOON, answer=2.0, lock=1)
HARMS = (Harm.SLOW, Harm.ALL_503, Harm.ALL_CUT, Harm.SILENT, Harm.DENIED)


def hostile_catalogs() -> Iterator[Scenario]:
    """Every case, in the report's order."""
    for name, title, arranged in (
        ("locked", "locked by somebody for long", _locked),
        ("unreadable", "its file cannot be opened", _unreadable),
        ("damaged", "its file is none of SQLite's", _damaged),
        ("missing", "its file is gone", _missing),
    ):
        yield from _cases(SQLITE, name, title, arranged)
    yield from _cases(REST, "down", "every connection refused", _down)
    for harm in HARMS:
        yield from _cases(REST, harm.slug, harm.value, partial(_harmed, harm), is_sat_out=harm is Harm.SLOW)


def _cases(
    catalog: str, name: str, title: str, arranged: Arranged, *, is_sat_out: bool = False
) -> Iterator[Scenario]:
    for moment in (BEFORE, WRITING_ON, COMMITTING, LANDED):
        case = Case(
            name=f"catalog/{name}/{moment.name}",
            title=f"{title}, {moment.title}",
            promise=GOES_ON if is_sat_out else moment.promise,
            happen=Meeting(moment, arranged, is_sat_out, patience=SHORT),
            catalog=catalog,
            may_read_again=(0,) if is_sat_out else moment.may_read_again,
        )
        yield case.scenario(GROUP)


@contextmanager
def _harmed(harm: Harm, play: Play) -> Iterator[Callable[[], None]]:
    with harm_proxy(play, "uri") as proxy:
        yield partial(proxy.suffer, harm)


@contextmanager
def _down(play: Play) -> Iterator[Callable[[], None]]:
    assert play.proxy is not None
    yield play.proxy.stop
    configure(play.lab, "catalog", {"uri": play.proxy.upstream})


@contextmanager
def _locked(play: Play) -> Iterator[Callable[[], None]]:
    with closing(sqlite3.connect(_file_of(play), isolation_level=None)) as holder:

        def begin() -> None:
            # In a write-ahead log nothing less keeps readers out as well.
            holder.execute("PRAGMA locking_mode = EXCLUSIVE")
            holder.execute("BEGIN EXCLUSIVE")

        yield begin


@contextmanager
def _unreadable(play: Play) -> Iterator[Callable[[], None]]:
    """A folder stands in its place: root could open a file of any mode."""
    with _aside(play) as put_aside:

        def begin() -> None:
            put_aside().mkdir()

        yield begin
        _file_of(play).rmdir()


@contextmanager
def _damaged(play: Play) -> Iterator[Callable[[], None]]:
    with _aside(play) as put_aside:

        def begin() -> None:
            put_aside().write_bytes(b"no database at all" * 1000)

        yield begin


@contextmanager
def _missing(play: Play) -> Iterator[Callable[[], None]]:
    with _aside(play) as put_aside:

        def begin() -> None:
            put_aside()

        yield begin


@contextmanager
def _aside(play: Play) -> Iterator[Callable[[], Path]]:
    """Moves the file away until the block ends; gives its place."""
    file = _file_of(play)
    aside = file.with_suffix(".aside")

    def put_aside() -> Path:
        assert not file.with_name(f"{file.name}-wal").exists(), "a connection is open"
        file.rename(aside)
        return file

    yield put_aside
    aside.replace(file)


def _file_of(play: Play) -> Path:
    return Path(play.lab.config.catalog.properties["uri"].removeprefix("sqlite:///"))
