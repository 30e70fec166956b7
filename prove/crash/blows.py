"""What strikes a job: a kill at a place, or an outcome of its commit that its client does not hope for.

Each says afterwards how the struck process ended, and raises when it was not struck: a case that proves
nothing must not pass.
"""

from __future__ import annotations

import signal
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from prove.lab.fault_proxy import Fault
from prove.lab.new_lab import configure
from prove.lab.patience import Patience
from prove.lab.small_disk import small_disk
from prove.lab.sql_faults import SqlFault, SqlFaultAt
from spark_jobs.books.entries import books_of
from spark_jobs.protocol.fail_points import NoFailPoints

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from prove.crash.jobs import Job
    from prove.crash.promises import Promise
    from prove.lab.drain_process import Answer
    from prove.stage import Play

# Looks for a commit that will not come are cut short; the restart has the product's own patience.
SOON = (0.0, 0.1, 0.3)
UNTIL_IT_LANDS = (0.0, 0.5, 1.5, 1.5)


@dataclass(frozen=True, slots=True)
class Struck:
    """How the struck process ended; ``is_over`` when it did what it was there for all the same."""

    told: str
    is_over: bool = False


class Blow(Protocol):
    """Something that strikes."""

    @property
    def name(self) -> str:
        """Short, for the case's name."""
        ...

    @property
    def title(self) -> str:
        """In words."""
        ...

    def arranged(self, play: Play) -> AbstractContextManager[None]:
        """What must be there before the table is."""
        ...

    def strike(self, play: Play, job: Job) -> Struck:
        """Start the job's work, strike it and tell how it ended."""
        ...

    def promised(self, play: Play, job: Job, struck: Struck) -> Promise:
        """What holds after this blow, once a commit that is still on its way has arrived."""
        ...


@dataclass(frozen=True, slots=True)
class Kill:
    """kill -9 at a place."""

    point: str

    @property
    def name(self) -> str:
        return f"kill-{self.point}"

    @property
    def title(self) -> str:
        return f"killed at {self.point}"

    def arranged(self, play: Play) -> AbstractContextManager[None]:  # noqa: ARG002
        return nullcontext()

    def strike(self, play: Play, job: Job) -> Struck:
        play.lab.kill_at(self.point, work=job.work)
        return Struck("died")

    def promised(self, play: Play, job: Job, struck: Struck) -> Promise:  # noqa: ARG002
        return job.points[self.point]


@dataclass(frozen=True, slots=True)
class OfSqlite:
    """An outcome of the embedded catalog's commit."""

    fault: SqlFault

    @property
    def name(self) -> str:
        return self.fault.name.lower().replace("_", "-")

    @property
    def title(self) -> str:
        return self.fault.value

    @contextmanager
    def arranged(self, play: Play) -> Iterator[None]:
        if self.fault is not SqlFault.DISK_FULL:
            yield
            return
        with small_disk(play.folder / "small") as disk:
            configure(play.lab, "catalog", {"uri": f"sqlite:///{disk / 'catalog.db'}"})
            yield

    def strike(self, play: Play, job: Job) -> Struck:
        database = Path(play.lab.config.catalog.properties["uri"].removeprefix("sqlite:///"))
        armed = SqlFaultAt(f"{job.swap}.before-swap", self.fault, database, play.folder / "evidence")
        lock = 1 if self.fault is SqlFault.LOCKED_AT_UPDATE else None
        process = play.lab.start_struck(armed, work=job.work, patience=Patience(SOON, lock=lock))
        if self.fault is SqlFault.KILLED_AFTER_COMMIT:
            assert process.died_of() == signal.SIGKILL, "the commit was not reached"
            struck = Struck("died")
        else:
            struck = _ended(process.answer())
        armed.filler.unlink(missing_ok=True)
        assert armed.evidence.exists(), f"{armed.name} was not reached"
        assert armed.evidence.read_text(), "the database answered as if nothing was wrong"
        return struck

    def promised(self, play: Play, job: Job, struck: Struck) -> Promise:  # noqa: ARG002
        assert job.outcome is not None
        if struck.is_over:
            return job.outcome.over
        return job.outcome.landed if self.fault.has_landed else job.outcome.not_landed


@dataclass(frozen=True, slots=True)
class OfServer:
    """An outcome of a catalog server's commit, made by the proxy before it."""

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

    def arranged(self, play: Play) -> AbstractContextManager[None]:  # noqa: ARG002
        return nullcontext()

    def strike(self, play: Play, job: Job) -> Struck:
        proxy = play.proxy
        assert proxy is not None
        namespace, _, table = _struck_table(play, job).rpartition(".")
        proxy.arm(self.fault, lambda method, path: _is_commit(method, path, namespace, table))
        is_silent = self.fault in {Fault.NO_ANSWER, Fault.LANDED_NO_ANSWER}
        patience = Patience(self.read_back, answer=2.0 if is_silent else None)
        answer = play.lab.start_struck(NoFailPoints(), work=job.work, patience=patience).answer()
        seen = [each for each in proxy.seen if each.fault is self.fault]
        assert len(seen) == 1, "the proxy did not see the commit"
        if self.fault.is_passed_on and self.fault is not Fault.LANDED_TWICE:
            assert seen[0].status == 200, f"the server refused the commit itself: {seen[0].status}"
        return _ended(answer)

    def promised(self, play: Play, job: Job, struck: Struck) -> Promise:
        outcome = job.outcome
        assert outcome is not None
        if self.fault is Fault.LATE_504:
            return outcome.over if struck.is_over else outcome.late(has_landed=self._arrives(play))
        if struck.is_over:
            return outcome.over
        return outcome.landed if self.fault.is_passed_on else outcome.not_landed

    def _arrives(self, play: Play) -> bool:
        assert play.proxy is not None
        status = play.proxy.late_status()
        assert status in {200, 409}, f"the late commit was answered {status}"
        return status == 200


OF_SQLITE = tuple(OfSqlite(fault) for fault in SqlFault)
OF_SERVERS = (
    *(OfServer(fault) for fault in Fault),
    OfServer(Fault.LATE_504, UNTIL_IT_LANDS),
)


def _ended(answer: Answer) -> Struck:
    code = answer.named_error
    return Struck(f"ended with {code}") if code else Struck("went on by itself", is_over=True)


def _struck_table(play: Play, job: Job) -> str:
    table, dead_letters = play.lab.tables
    return {"table": table, "dead-letters": dead_letters, "books": books_of(table)}[job.struck]


def _is_commit(method: str, path: str, namespace: str, table: str) -> bool:
    return method == "POST" and path.endswith(f"/namespaces/{namespace}/tables/{table}")
