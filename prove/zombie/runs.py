"""Zombies: a run that is stopped for longer than its replacement needs, and then goes on as if nothing was.

Whatever it then believes, the table stays as its replacement left it: each record once, no file too many.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from prove.checker import check
from prove.crash.conflicts import CONFLICTS
from prove.crash.jobs import drain_and_produce, produce_first
from prove.crash.promises import REPLAYED, REPLAYED_RECORDS
from prove.hostile.case import drain_one_batch
from prove.lab.pipeline_lab import orders
from prove.scenario import Findings, Scenario, scenario_on
from prove.workload import BATCH, CATALOG_NAMES, REST, SQLITE, Testbed, Workload

MANY = 20
CHANGES_NOTHING = "it commits nothing that is there, deletes nothing that is named"
QUICK = frozenset({"sqlite/zombie/first-batch", "sqlite/zombie/swept", "rest/zombie/rolled-back"})


@dataclass(frozen=True, slots=True)
class Zombie:
    """``work`` stops at ``point`` after ``before``; its replacement does the same work, then ``afterwards``.

    ``may_read_again`` are records of the stopped run's range that the replacement reads, ``orphans`` files of
    the books that are left to orphan removal.
    """

    name: str
    title: str
    point: str
    before: Callable[[Workload], None]
    catalogs: tuple[str, ...]
    may_read_again: tuple[int, ...] = (0,)
    orphans: int = 0
    work: str = "drain"
    afterwards: Callable[[Workload], None] = lambda _workload: None

    def scenario(self, catalog: str) -> Scenario:
        """Return the case as the runner knows it."""
        return scenario_on(
            f"zombie/{self.name}",
            "a run that sleeps and goes on",
            self.title,
            CHANGES_NOTHING,
            lambda testbed: self.run(testbed, catalog),
            catalog=catalog,
            is_quick=f"{catalog}/zombie/{self.name}" in QUICK,
        )

    def run(self, testbed: Testbed, catalog: str) -> Findings:
        """Stop it, replace it, let it go on, look."""
        with testbed.workload(catalog) as workload:
            self.before(workload)
            slept = str(workload.folder / "slept")
            zombie = workload.lab.start(self.point, signal.SIGSTOP, once=slept, work=self.work)
            try:
                zombie.wait_until_stopped()
                began = time.monotonic()
                replacement = workload.lab.start(work=self.work).answer()
                seconds = time.monotonic() - began
                assert replacement.error is None, replacement.message
                self.afterwards(workload)
                zombie.go_on()
                error = zombie.answer().error
            finally:
                zombie.kill()
            assert error in CONFLICTS, f"it ended with {error}"
            workload.produce_batch()
            workload.run()
            counts = check(workload)
        history = f"it ended with {error}" if error else "it found its batch landed, or nothing to do"
        return Findings(
            happened="; ".join((history, *counts.examples)),
            lost=counts.lost,
            doubled=counts.doubled,
            unreadable=counts.unreadable,
            stray=counts.stray + max(0, counts.orphans - self.orphans),
            read_again=replacement.records_read,
            may_read_again=self.may_read_again,
            recovery_seconds=seconds,
        )


def zombies() -> Iterator[Scenario]:
    """Yield every case, in the report's order."""
    for catalog in CATALOG_NAMES:
        yield from (zombie.scenario(catalog) for zombie in ZOMBIES if catalog in zombie.catalogs)


def _produce_tombstones(workload: Workload) -> None:
    drain_one_batch(workload)
    workload.produce((), [None] * BATCH)


def _roll_back(workload: Workload) -> None:
    workload.run("rollback")


def _commit_often(workload: Workload) -> None:
    for n in range(MANY):
        workload.produce(orders(n, 2))
        workload.run()


_ALL = tuple(CATALOG_NAMES)
_MOST = (SQLITE, REST)
ZOMBIES = (
    Zombie("first-batch", "a table's first batch, adopted", "commit.before-swap", produce_first, _ALL),
    Zombie(
        "first-batch-swept",
        "a table's first batch, done again and swept",
        "drain.after-tasks",
        produce_first,
        _ALL,
        (BATCH,),
    ),
    Zombie("adopted", "a later batch, adopted", "commit.before-swap", drain_and_produce, _ALL),
    Zombie(
        "swept",
        "between two chunks, what it wrote swept",
        "split.after-chunk",
        drain_and_produce,
        _MOST,
        (BATCH,),
    ),
    Zombie(
        "landed",
        "after its commit, before its dead letters",
        "dead-letters.before-swap",
        drain_and_produce,
        _MOST,
    ),
    Zombie(
        "rolled-back",
        "its batch adopted and rolled back: the offsets are its own again",
        "commit.before-swap",
        drain_and_produce,
        _MOST,
        afterwards=_roll_back,
    ),
    Zombie(
        "many-commits",
        f"{MANY} commits later",
        "commit.before-swap",
        drain_and_produce,
        _MOST,
        afterwards=_commit_often,
    ),
    Zombie(
        "many-commits-swept",
        f"{MANY} commits after its sweep",
        "drain.after-tasks",
        drain_and_produce,
        _MOST,
        (BATCH,),
        afterwards=_commit_often,
    ),
    Zombie("no-files", "a batch without files", "commit.before-swap", _produce_tombstones, _ALL),
    Zombie(
        "replay",
        "a replay that another one overtook",
        "replay.before-swap",
        drain_one_batch,
        _MOST,
        (REPLAYED_RECORDS,),
        work=f"replay {REPLAYED}",
    ),
    Zombie(
        "checkpoint",
        "a fold that another one overtook",
        "checkpoint.before-swap",
        drain_one_batch,
        _MOST,
        orphans=1,
        work="checkpoint",
    ),
)
