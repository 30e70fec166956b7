"""The crash matrix: every job with a fault at every place and every outcome of its commit.

On SQLite that is all of it. Elsewhere a row is left out if two others show it together: the job's on SQLite,
and the catalog's of a job that commits in the same way. So on Postgres only drains are killed, and on REST
not what differs from a drain or a replay by its rows alone. All outcomes of a REST server's commit meet one
job of each way to commit (``WAYS_TO_COMMIT``), the other jobs meet ``USUAL_FAULTS``. Gates meet no REST
server, Spark's jobs no Postgres, and Spark's other jobs kills only; on Nessie there is a dozen of all, on
Glue, Azure and Google Cloud Storage half a dozen kills. First batches are killed once more where the broker
is asked over TLS, by a user who has rights on the topic alone.

After the fault a new process does what the operator or the next tick would do, more records come, and
an audit counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus
from shutil import rmtree

from prove.checker import check
from prove.crash.act_jobs import ACCEPT, DISCARD, GATED_DRAIN, HELD_DRAIN, PUBLISH, REJECTING_DRAIN, RETYPE
from prove.crash.change_jobs import CHANGES
from prove.crash.export_jobs import KEEPING_EXPORT, RENUMBERING_EXPORT
from prove.crash.jobs import DATA_JOBS, DEAD_LETTERS, DRAIN, FIRST, RECOVERY, REPLAY, REPLAY_DEAD_LETTERS, Job
from prove.crash.mirror_jobs import ACCEPT_RESTART, MIRROR, MIRROR_JOBS, RETYPING_REBUILD
from prove.crash.nemeses import (
    POSTGRES_COMMIT_FAULTS,
    SERVER_COMMIT_FAULTS,
    SQLITE_COMMIT_FAULTS,
    Kill,
    KillAndChange,
    Nemesis,
    ServerCommitFault,
)
from prove.crash.promises import Outcomes, Promise
from prove.crash.redrive_jobs import REDRIVE, REDRIVE_DEAD_LETTERS
from prove.crash.removal import Removal, remove_left
from prove.crash.replacement import arrival_times
from prove.crash.restart import Restart
from prove.crash.routed_jobs import ROUTED_CHANGES, ROUTED_JOBS, ROUTED_REPLAY, ROUTED_ROLLBACK
from prove.crash.schema_jobs import NEW_COLUMNS, NEW_SCHEMA
from prove.crash.upkeep_jobs import COMPACTION, EXPIRY, SPARK_JOBS, UNKNOWING_COMPACTION
from prove.lab.fault_proxy import Fault
from prove.scenario import Findings, Scenario, scenario_on
from prove.workload import (
    AZURE,
    GCS,
    GLUE,
    NESSIE,
    POSTGRES,
    REST,
    SECURED,
    SQLITE,
    VENDED,
    Testbed,
    Workload,
)

JOBS = (*DATA_JOBS, *ROUTED_JOBS, REDRIVE, PUBLISH, DISCARD, ACCEPT, RETYPE, NEW_SCHEMA, NEW_COLUMNS)
EXPORTS = (RENUMBERING_EXPORT, KEEPING_EXPORT)
GATES = (GATED_DRAIN, HELD_DRAIN, REJECTING_DRAIN)
# Of the commit that Iceberg's own code makes on the Spark server: it takes these for refusals, and deletes
# what it wrote. What a landed 401 makes of it is a case of the hostile lakes: it deletes what it committed.
REFUSALS = frozenset({Fault.REFUSED_401, Fault.REFUSED_409, Fault.REFUSED_429})
COMPACTION_FAULTS = frozenset(Fault) - {Fault.LANDED_401}
EXPIRY_FAULTS = (Fault.REFUSED_409, Fault.REFUSED_504, Fault.LANDED_504, Fault.CUT_AFTER)
CHANGES_FAULTS = (Fault.REFUSED_409, Fault.LANDED_409, Fault.CUT_AFTER, Fault.LATE_504)
# Refused, lost on the way, landed unseen, landed late.
USUAL_FAULTS = (
    Fault.REFUSED_409,
    Fault.REFUSED_504,
    Fault.CUT_BEFORE,
    Fault.LANDED_409,
    Fault.LANDED_504,
    Fault.CUT_AFTER,
    Fault.LATE_504,
)
# An append, a replacement of rows, an append of what is owed, a change of columns, a row delta.
WAYS_TO_COMMIT = (DRAIN, REPLAY, DEAD_LETTERS, NEW_COLUMNS, MIRROR)
KILLED_ON_POSTGRES = (FIRST, DRAIN)
# On Nessie, Glue, Azure and Google Cloud Storage, and with vended credentials.
KILLED_ON_FEW = (
    (FIRST, ("drain.after-table-made", "commit.after-swap")),
    (DRAIN, ("drain.after-tasks", "commit.before-swap", "dead-letters.before-swap")),
    (RECOVERY, ("commit.before-swap",)),
)
# Killed on SQLite alone: on REST a drain, a replay or an act shows the same.
NOT_KILLED_ON_REST = (ROUTED_REPLAY, ROUTED_ROLLBACK, NEW_SCHEMA, PUBLISH, DISCARD)


@dataclass(frozen=True, slots=True)
class Cell:
    """One job, one nemesis, one catalog."""

    job: Job
    nemesis: Nemesis
    catalog: str

    @property
    def name(self) -> str:
        """``catalog/job/fault``."""
        return f"{self.catalog}/{self.job.name}/{self.nemesis.name}"

    def scenario(self) -> Scenario:
        """Return the cell as a scenario."""
        return scenario_on(
            f"{self.job.name}/{self.nemesis.name}",
            self.nemesis.title,
            self._promise().text,
            self.run,
            group=self.job.title,
            catalog=self.catalog,
            needs={"spark"} if self.job in (*SPARK_JOBS, UNKNOWING_COMPACTION) else set(),
        )

    def run(self, testbed: Testbed) -> Findings:
        """Inject the fault, restart, continue, check."""
        job = self.job
        with (
            testbed.workload(self.catalog, on_spark=job.on_spark, **job.settings) as workload,
            self.nemesis.set_up(workload),
        ):
            job.set_up(workload)
            before = arrival_times(workload) if job.is_replay else None
            found = workload.lab.files() if job.may_leave else set()
            ending = self.nemesis.inject(workload, job)
            written = workload.lab.files() - found if job.may_leave else set()
            # As in a container of its own: the next run finds nothing of its state folder.
            rmtree(workload.lab.config.home, ignore_errors=True)
            restart = Restart()
            restart.repair(workload, job, before)
            promise = self.nemesis.promise_after(workload, job, ending)
            restart.go_on(workload)
            removal = remove_left(workload, written) if promise.strays else Removal()
            is_of_rows = isinstance(self.nemesis, KillAndChange) and self.nemesis.is_of_rows
            counts = check(workload, of_earlier=job.of_earlier, may_be_outdated=is_of_rows)
            wrong = tuple(job.look(workload))
        left = len(removal.left) + counts.orphans
        unkept = (*restart.unkept, *restart.find_deviations(promise), *removal.unkept, *wrong)
        return counts.findings(
            ending.text,
            *_late_arrivals(workload),
            *restart.events,
            *removal.events,
            left=left,
            may_be_left=tuple(orphans + promise.strays for orphans in promise.orphans),
            read_again=restart.read_again,
            may_read_again=promise.may_read_again,
            recovery_seconds=restart.seconds,
            unkept="; ".join(unkept),
        )

    def _promise(self) -> Promise | Outcomes:
        if isinstance(self.nemesis, Kill):
            return self.job.points[self.nemesis.point]
        if isinstance(self.nemesis, KillAndChange):
            return self.nemesis.promise
        assert self.job.outcome is not None
        return self.job.outcome


def _late_arrivals(workload: Workload) -> Iterator[str]:
    for status in workload.proxy.late_statuses if workload.proxy else ():
        yield "its commit landed late" if status == HTTPStatus.OK else "its late commit was refused"


def crash_cells() -> Iterator[Cell]:
    """Yield every cell."""
    yield from (
        *_in_database(SQLITE, (*JOBS, *GATES, *EXPORTS), SQLITE_COMMIT_FAULTS),
        *_in_database(POSTGRES, KILLED_ON_POSTGRES, POSTGRES_COMMIT_FAULTS),
        *_on_rest(),
        *_on_nessie(),
        *(
            Cell(job, Kill(point), catalog)
            for catalog in (GLUE, AZURE, GCS, VENDED)
            for job, points in KILLED_ON_FEW
            for point in points
        ),
        Cell(KEEPING_EXPORT, Kill("export.after-window"), GCS),
        *_on_spark(),
        *(Cell(FIRST, Kill(point), SECURED) for point in FIRST.points),
        *(Cell(job, change, catalog) for catalog in (SQLITE, REST) for job, change in ROUTED_CHANGES),
        *(Cell(CHANGES, nemesis, SQLITE) for nemesis in (*map(Kill, CHANGES.points), *SQLITE_COMMIT_FAULTS)),
        *(Cell(CHANGES, ServerCommitFault(fault), REST) for fault in CHANGES_FAULTS),
        *(
            Cell(job, nemesis, SQLITE)
            for job in MIRROR_JOBS
            for nemesis in (*map(Kill, job.points), *SQLITE_COMMIT_FAULTS)
        ),
        *(
            Cell(job, nemesis, REST)
            for job in MIRROR_JOBS
            for nemesis in (*map(Kill, job.points), *_server_faults(job))
        ),
        *(
            Cell(job, Kill(point), catalog)
            for job in (ACCEPT_RESTART, RETYPING_REBUILD)
            for catalog in (SQLITE, REST)
            for point in job.points
        ),
        *(Cell(RETYPING_REBUILD, ServerCommitFault(fault), REST) for fault in CHANGES_FAULTS),
        *(Cell(job, outcome, POSTGRES) for job in MIRROR_JOBS for outcome in POSTGRES_COMMIT_FAULTS),
    )


def _in_database(catalog: str, killed: tuple[Job, ...], outcomes: tuple[Nemesis, ...]) -> Iterator[Cell]:
    yield from (Cell(job, Kill(point), catalog) for job in killed for point in job.points)
    for job in (*JOBS, *GATES, *EXPORTS):
        if job.outcome:
            yield from (Cell(job, outcome, catalog) for outcome in outcomes)


def _on_rest() -> Iterator[Cell]:
    for job in (*JOBS, *EXPORTS):
        if job not in NOT_KILLED_ON_REST:
            yield from (Cell(job, Kill(point), REST) for point in job.points)
        if job.outcome:
            yield from (Cell(job, outcome, REST) for outcome in _server_faults(job))
    for job in (REPLAY_DEAD_LETTERS, REDRIVE_DEAD_LETTERS):
        yield from (Cell(job, ServerCommitFault(fault), REST) for fault in USUAL_FAULTS)


def _server_faults(job: Job) -> tuple[ServerCommitFault, ...]:
    return SERVER_COMMIT_FAULTS if job in WAYS_TO_COMMIT else tuple(map(ServerCommitFault, USUAL_FAULTS))


def _on_nessie() -> Iterator[Cell]:
    """Yield a dozen cells: Nessie keeps no history, and reads assertions differently."""
    for job, points in KILLED_ON_FEW:
        yield from (Cell(job, Kill(point), NESSIE) for point in points)
    for job, faults in (
        (FIRST, (Fault.LANDED_504,)),
        (DRAIN, (Fault.REFUSED_409, Fault.LANDED_409, Fault.LANDED_TWICE, Fault.LATE_504)),
        (DEAD_LETTERS, (Fault.CUT_AFTER,)),
        (RECOVERY, (Fault.HALF_ANSWER,)),
    ):
        yield from (Cell(job, ServerCommitFault(fault), NESSIE) for fault in faults)


def _on_spark() -> Iterator[Cell]:
    for job in SPARK_JOBS:
        yield from (Cell(job, Kill(point), SQLITE) for point in job.points)
    yield from (Cell(COMPACTION, outcome, SQLITE) for outcome in SQLITE_COMMIT_FAULTS)
    yield Cell(COMPACTION, Kill("act.before-swap"), REST)
    for fault in Fault:
        if fault in COMPACTION_FAULTS:
            is_known = fault.is_passed_on or fault in REFUSALS
            yield Cell(COMPACTION if is_known else UNKNOWING_COMPACTION, ServerCommitFault(fault), REST)
    yield Cell(EXPIRY, Kill("expire.after-procedure"), REST)
    yield from (Cell(EXPIRY, ServerCommitFault(fault), REST) for fault in EXPIRY_FAULTS)
