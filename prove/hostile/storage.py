"""Hostile storage: a slow, broken or refusing object store, a full disk; then healthy again.

The catalog server reaches the store undisturbed: it is the job's own way to it that is harmed. What a full
disk does to the embedded catalog's own file is in the crash matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from prove.hostile.case import judge, scenarios
from prove.hostile.moments import BEFORE, COMMITTING, LANDED, WRITING, Meeting, Moment, cases_at, harmed
from prove.lab.harm_proxy import Harm
from prove.lab.pipeline_lab import configure
from prove.lab.small_disk import fill, small_disk
from prove.scenario import Findings, scenario_on
from prove.workload import BATCH, REST, SQLITE, VENDED, Testbed, Workload

REFUSED = ("log-store-refused", "storage-refused")
WRITTEN = Moment(
    "written",
    "between the files and the log's word of them",
    "a named error; then the range is read again",
    "drain.after-tasks",
    (BATCH,),
)


@contextmanager
def _ended(workload: Workload) -> Iterator[Callable[[], None]]:
    """End every session of the vended credentials; who loads the table then has another one."""
    assert workload.vended is not None
    yield workload.vended.end_sessions


@contextmanager
def _full(disk: Path, _workload: Workload) -> Iterator[Callable[[], None]]:
    filler = disk / "filler"
    yield partial(fill, filler)
    filler.unlink()


def _fill_up(whose: str, code: str, moment: Moment, testbed: Testbed) -> Findings:
    """Fill the disk of the lake or the log at the moment, free it, continue, check.

    The drain that meets it ends with ``code``.
    """
    with testbed.workload(SQLITE) as workload, small_disk(workload.folder / "small") as disk:
        if whose == "lake":
            configure(workload.lab, "catalog", {"warehouse": disk.as_uri()})
        else:
            configure(workload.lab, "", {"state": str(disk)})
        meeting = Meeting(moment, partial(_full, disk), codes=(code,))
        return judge(workload, meeting(workload), moment.may_read_again)


_ENDS = ("ended", "the vended credentials end", _ended)
OF_STORES = (
    case
    for harm in Harm
    for case in cases_at(
        (BEFORE, WRITING, COMMITTING, LANDED),
        harm.slug,
        harm.value,
        partial(harmed, "s3.endpoint", harm),
        catalog=REST,
        is_sat_out=harm is Harm.SLOW or harm.is_of_some,
        codes=REFUSED if harm is Harm.DENIED else (),
    )
)
OF_VENDED = (
    *cases_at((WRITING,), *_ENDS, catalog=VENDED, codes=("credentials-expired",)),
    *cases_at((COMMITTING, LANDED), *_ENDS, catalog=VENDED, is_sat_out=True),
)
OF_DISKS = (
    ("lake", "storage-failed", (WRITING, COMMITTING, LANDED)),
    ("log", "disk-full", (BEFORE, WRITTEN, LANDED)),
)
SCENARIOS = (
    *scenarios("a hostile object store", (*OF_STORES, *OF_VENDED), prefix="store/"),
    *(
        scenario_on(
            f"disk/{whose}/{moment.name}",
            f"no room for the {whose}, {moment.title}",
            moment.promise,
            partial(_fill_up, whose, code, moment),
            group="a full disk",
        )
        for whose, code, moments in OF_DISKS
        for moment in moments
    ),
)
