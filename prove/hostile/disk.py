"""Hostile disks: the one of the lake or of the log has no room left while a run is at work, and then has.

What a full disk does to the embedded catalog's own file is in the crash matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from prove.hostile.case import judge
from prove.hostile.moments import BEFORE, COMMITTING, LANDED, WRITING, Meeting, Moment
from prove.lab.pipeline_lab import configure
from prove.lab.small_disk import fill, small_disk
from prove.scenario import Findings, Scenario, scenario_on
from prove.workload import BATCH, SQLITE, Testbed, Workload

WRITTEN = Moment(
    "written",
    "between the files and the log's word of them",
    "a named error; then the range is read again",
    "drain.after-tasks",
    (BATCH,),
)


def _fill_up(whose: str, code: str, moment: Moment, testbed: Testbed) -> Findings:
    """Fill the disk of the lake or of the log at the moment, make room, go on, check.

    The drain that meets it ends with ``code``.
    """
    with testbed.workload(SQLITE) as workload, small_disk(workload.folder / "small") as disk:
        if whose == "lake":
            configure(workload.lab, "catalog", {"warehouse": disk.as_uri()})
        else:
            configure(workload.lab, "", {"state": str(disk)})
        meeting = Meeting(moment, partial(_full, disk), codes=(code,))
        return judge(workload, meeting(workload), moment.may_read_again)


def hostile_disks() -> Iterator[Scenario]:
    """Yield every case, in the report's order."""
    for whose, code, moments in (
        ("lake", "storage-failed", (WRITING, COMMITTING, LANDED)),
        ("log", "disk-full", (BEFORE, WRITTEN, LANDED)),
    ):
        for moment in moments:
            yield scenario_on(
                f"disk/{whose}/{moment.name}",
                "a full disk",
                f"no room for the {whose}, {moment.title}",
                moment.promise,
                partial(_fill_up, whose, code, moment),
            )


@contextmanager
def _full(disk: Path, _workload: Workload) -> Iterator[Callable[[], None]]:
    filler = disk / "filler"
    yield partial(fill, filler)
    filler.unlink()
