"""Hostile disks: the one of the lake or of the log has no room left while a run is at work, and then has.

What a full disk does to the embedded catalog's own file is in the crash matrix.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from prove.hostile.case import judge
from prove.hostile.moments import BEFORE, COMMITTING, LANDED, WRITING, Meeting, Moment
from prove.lab.new_lab import configure
from prove.lab.small_disk import fill, small_disk
from prove.scenario import Scenario
from prove.stage import BATCH, CATALOG_NAMES, SQLITE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from prove.scenario import Findings
    from prove.stage import Play, Stage

WRITTEN = Moment(
    "written",
    "between the files and the log's word of them",
    "a named error; then the range is read again",
    "drain.after-tasks",
    (BATCH,),
)


@dataclass(frozen=True, slots=True)
class DiskCase:
    """``whose`` disk is full from the moment on: the drain ends with ``code``. With room the next goes on."""

    whose: str
    code: str
    moment: Moment

    def scenario(self) -> Scenario:
        """The case as the runner knows it."""
        return Scenario(
            name=f"{SQLITE}/disk/{self.whose}/{self.moment.name}",
            group=f"a full disk, on {CATALOG_NAMES[SQLITE]}",
            title=f"no room for the {self.whose}, {self.moment.title}",
            promise=self.moment.promise,
            needs=frozenset(),
            is_quick=False,
            run=self.run,
        )

    def run(self, stage: Stage) -> Findings:
        """Fill it, make room, go on, look."""
        with stage.play(SQLITE) as play, small_disk(play.folder / "small") as disk:
            if self.whose == "lake":
                configure(play.lab, "catalog", {"warehouse": disk.as_uri()})
            else:
                configure(play.lab, "", {"state": str(disk)})
            meeting = Meeting(self.moment, partial(_full, disk), codes=(self.code,))
            return judge(play, meeting(play), self.moment.may_read_again)


def hostile_disks() -> Iterator[Scenario]:
    """Every case, in the report's order."""
    for whose, code, moments in (
        ("lake", "storage-failed", (WRITING, COMMITTING, LANDED)),
        ("log", "disk-full", (BEFORE, WRITTEN, LANDED)),
    ):
        yield from (DiskCase(whose, code, moment).scenario() for moment in moments)


@contextmanager
def _full(disk: Path, _play: Play) -> Iterator[Callable[[], None]]:
    filler = disk / "filler"
    yield partial(fill, filler)
    filler.unlink()
