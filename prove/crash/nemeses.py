"""Nemeses inject a fault into a job: a kill at a place, or an unexpected outcome of its commit.

Each returns how the process ended, and raises when the fault did not meet it: a case that proves
nothing must not pass.
"""

from __future__ import annotations

import signal
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from prove.crash.jobs import Job
from prove.crash.promises import Promise
from prove.lab.drain_process import Answer
from prove.lab.fault_proxy import Fault
from prove.lab.patience import Patience
from prove.lab.pipeline_lab import configure
from prove.lab.small_disk import small_disk
from prove.lab.sql_faults import SqlFault, SqlFaultAt
from prove.workload import Workload
from spark_jobs.books.entries import books_of
from spark_jobs.protocol.work import NoFailPoints

# Looks for a commit that will not come are cut short; the restart has the product's own patience.
SOON = (0.0, 0.1, 0.3)
UNTIL_IT_LANDS = (0.0, 0.5, 1.5, 1.5)


@dataclass(frozen=True, slots=True)
class Ending:
    """Ending of the process that met the fault; ``is_over`` if it still did its work."""

    text: str
    is_over: bool = False


class Nemesis(ABC):
    """An injector of one fault."""

    __slots__ = ()

    @property
    @abstractmethod
    def name(self) -> str:
        """Short name, for the case's name."""

    @property
    @abstractmethod
    def title(self) -> str:
        """Description."""

    def set_up(self, workload: Workload) -> AbstractContextManager[None]:  # noqa: ARG002
        """Set up what must exist before the table."""
        return nullcontext()

    @abstractmethod
    def inject(self, workload: Workload, job: Job) -> Ending:
        """Start the job's work, inject the fault and return the ending."""

    @abstractmethod
    def promise_after(self, workload: Workload, job: Job, ending: Ending) -> Promise:
        """Return the promise after this fault, once a delayed commit has arrived."""


@dataclass(frozen=True, slots=True)
class Kill(Nemesis):
    """kill -9 at a place."""

    point: str

    @property
    def name(self) -> str:
        return f"kill-{self.point}"

    @property
    def title(self) -> str:
        return f"killed at {self.point}"

    def inject(self, workload: Workload, job: Job) -> Ending:
        workload.lab.kill_at(self.point, work=job.work)
        return Ending("died")

    def promise_after(self, workload: Workload, job: Job, ending: Ending) -> Promise:  # noqa: ARG002
        return job.points[self.point]


@dataclass(frozen=True, slots=True)
class KillAndChange(Nemesis):
    """kill -9 at a place, then ``change`` before the next run."""

    point: str
    change: Callable[[Workload], None]
    promise: Promise
    is_of_rows: bool = False  # what was drained before is made of its records no more

    @property
    def name(self) -> str:
        return f"{self.change.__name__.replace('_', '-')}-after-{self.point}"

    @property
    def title(self) -> str:
        then = (self.change.__doc__ or "").rstrip(".")
        return f"killed at {self.point}. {then}"

    def inject(self, workload: Workload, job: Job) -> Ending:
        workload.lab.kill_at(self.point, work=job.work)
        self.change(workload)
        return Ending("died")

    def promise_after(self, workload: Workload, job: Job, ending: Ending) -> Promise:  # noqa: ARG002
        return self.promise


@dataclass(frozen=True, slots=True)
class SqlCommitFault(Nemesis):
    """An outcome of a database catalog's commit."""

    fault: SqlFault

    @property
    def name(self) -> str:
        return self.fault.name.lower().replace("_", "-")

    @property
    def title(self) -> str:
        return self.fault.value

    @contextmanager
    def set_up(self, workload: Workload) -> Iterator[None]:
        if self.fault is not SqlFault.DISK_FULL:
            yield
            return
        with small_disk(workload.folder / "small") as disk:
            configure(workload.lab, "catalog", {"uri": f"sqlite:///{disk / 'catalog.db'}"})
            yield

    def inject(self, workload: Workload, job: Job) -> Ending:
        database = Path(workload.lab.config.catalog.properties["uri"].removeprefix("sqlite:///"))
        armed = SqlFaultAt(f"{job.swap}.before-swap", self.fault, database, workload.folder / "evidence")
        lock = 1 if self.fault is SqlFault.LOCKED_AT_UPDATE else None
        process = workload.lab.start_with(armed, work=job.work, patience=Patience(SOON, lock=lock))
        if self.fault is SqlFault.KILLED_AFTER_COMMIT:
            assert process.died_of() == signal.SIGKILL, "the commit was not reached"
            ending = Ending("died")
        else:
            ending = _ended(process.answer())
        armed.filler.unlink(missing_ok=True)
        assert armed.evidence.exists(), f"{armed.name} was not reached"
        assert armed.evidence.read_text(), "the database answered as if nothing was wrong"
        return ending

    def promise_after(self, workload: Workload, job: Job, ending: Ending) -> Promise:  # noqa: ARG002
        return job.promise_after(is_over=ending.is_over, has_landed=self.fault.has_landed)


@dataclass(frozen=True, slots=True)
class ServerCommitFault(Nemesis):
    """An outcome of a catalog server's commit, injected by a proxy."""

    fault: Fault
    read_back: tuple[float, ...] = SOON

    @property
    def name(self) -> str:
        name = self.fault.name.lower().replace("_", "-")
        return f"{name}-noticed" if self.read_back == UNTIL_IT_LANDS else name

    @property
    def title(self) -> str:
        is_noticed = self.read_back == UNTIL_IT_LANDS
        return f"{self.fault.value}, while it looks" if is_noticed else self.fault.value

    def inject(self, workload: Workload, job: Job) -> Ending:
        proxy = workload.proxy
        assert proxy is not None
        namespace, _, table = _target_table(workload, job).rpartition(".")
        before = count()
        proxy.arm(
            self.fault,
            lambda method, path: (
                _is_commit(method, path, namespace, table) and next(before) >= job.commits_before
            ),
        )
        is_silent = self.fault in {Fault.NO_ANSWER, Fault.LANDED_NO_ANSWER}
        patience = Patience(self.read_back, answer=2.0 if is_silent else None)
        answer = workload.lab.start_with(NoFailPoints(), work=job.work, patience=patience).answer()
        seen = [each for each in proxy.seen if each.fault is self.fault]
        assert len(seen) == 1, "the proxy did not see the commit"
        if self.fault.is_passed_on and self.fault is not Fault.LANDED_TWICE:
            assert seen[0].status == 200, f"the server refused the commit itself: {seen[0].status}"
        return _ended(answer)

    def promise_after(self, workload: Workload, job: Job, ending: Ending) -> Promise:
        assert job.outcome is not None
        if self.fault is Fault.LATE_504 and not (ending.is_over and job.outcome.over):
            return job.outcome.late(has_landed=self._arrives(workload))
        return job.promise_after(is_over=ending.is_over, has_landed=self.fault.is_passed_on)

    def _arrives(self, workload: Workload) -> bool:
        assert workload.proxy is not None
        status = workload.proxy.late_status()
        assert status in {200, 409}, f"the late commit was answered {status}"
        return status == 200


SQLITE_COMMIT_FAULTS = tuple(
    SqlCommitFault(fault) for fault in SqlFault if fault is not SqlFault.ENDED_AT_COMMIT
)
POSTGRES_COMMIT_FAULTS = tuple(
    SqlCommitFault(fault)
    for fault in (SqlFault.ENDED_AT_COMMIT, SqlFault.FAILED_AFTER_COMMIT, SqlFault.KILLED_AFTER_COMMIT)
)
SERVER_COMMIT_FAULTS = (
    *(ServerCommitFault(fault) for fault in Fault),
    ServerCommitFault(Fault.LATE_504, UNTIL_IT_LANDS),
)


def _ended(answer: Answer) -> Ending:
    code = answer.named_error
    return Ending(f"ended with {code}") if code else Ending("went on by itself", is_over=True)


def _target_table(workload: Workload, job: Job) -> str:
    table, dead_letters = workload.lab.tables
    routed = workload.lab.pipeline.routed_tables
    others = {"dead-letters": dead_letters, "books": books_of(table), "routes": next(iter(routed), "")}
    return others.get(job.target, table)


def _is_commit(method: str, path: str, namespace: str, table: str) -> bool:
    return method == "POST" and path.endswith(f"/namespaces/{namespace}/tables/{table}")
