"""Zombies: a run stopped for longer than its replacement needs, then continued.

Whatever it then believes, the table stays as its replacement left it: each record once, no file too many.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from prove.crash.promises import REPLAYED, REPLAYED_RECORDS
from prove.crash.restart import ENDINGS_OF_REPLACED
from prove.crash.schema_jobs import (
    BY_SCHEMA,
    EVOLVED,
    LATER_FIRST,
    OTHER_FIRST,
    drain_earlier_and_produce_later,
    drain_earlier_and_produce_other,
    find_other_columns,
    produce_later,
)
from prove.hostile.case import History, judge
from prove.lab.pipeline_lab import orders
from prove.scenario import Findings, Scenario, scenario_on
from prove.workload import BATCH, CATALOG_NAMES, REST, SQLITE, Testbed, Workload

MANY = 20
CHANGES_NOTHING = "it commits nothing that is there, deletes nothing that is named"


@dataclass(frozen=True, slots=True)
class Zombie:
    """``work`` stops at ``point`` after ``before``; its replacement does it, then ``afterwards``.

    ``meanwhile`` comes before the replacement. ``settings`` are the pipeline's, ``look`` says in words what
    else is wrong in the end. ``may_read_again`` are records of the stopped run's range that the replacement
    reads, ``orphans`` files of the books that are left to orphan removal.
    """

    name: str
    title: str
    point: str
    may_read_again: tuple[int, ...] = (0,)
    before: Callable[[Workload], None] = Workload.drain_and_produce
    catalogs: tuple[str, ...] = (SQLITE, REST)
    orphans: int = 0
    work: str = "drain"
    meanwhile: Callable[[Workload], None] = lambda _workload: None
    afterwards: Callable[[Workload], None] = lambda _workload: None
    settings: Mapping[str, Any] = field(default_factory=dict)
    look: Callable[[Workload], Iterable[str]] = lambda _workload: ()

    def scenario(self, catalog: str) -> Scenario:
        """Return the case as a scenario."""
        return scenario_on(
            f"zombie/{self.name}",
            self.title,
            CHANGES_NOTHING,
            lambda testbed: self.run(testbed, catalog),
            group="a run that sleeps and goes on",
            catalog=catalog,
        )

    def run(self, testbed: Testbed, catalog: str) -> Findings:
        """Stop it, replace it, continue it, check."""
        with testbed.workload(catalog, **self.settings) as workload:
            self.before(workload)
            slept = str(workload.folder / "slept")
            zombie = workload.lab.start(self.point, signal.SIGSTOP, once=slept, work=self.work)
            try:
                zombie.wait_until_stopped()
                self.meanwhile(workload)
                began = time.monotonic()
                replacement = workload.lab.start(work=self.work).answer()
                seconds = time.monotonic() - began
                assert replacement.error is None, replacement.message
                self.afterwards(workload)
                zombie.go_on()
                error = zombie.answer().error
            finally:
                zombie.kill()
            assert error in ENDINGS_OF_REPLACED, f"it ended with {error}"
            happened = f"it ended with {error}" if error else "it found its batch landed, or nothing to do"
            history = History(happened, replacement.records_read, seconds, orphans=self.orphans)
            findings = judge(workload, history, self.may_read_again)
            return replace(findings, unkept="; ".join(self.look(workload)))


def _produce_tombstones(workload: Workload) -> None:
    workload.drain_batches()
    workload.produce((), [None] * BATCH)


def _roll_back(workload: Workload) -> None:
    workload.run("rollback")


def _commit_often(workload: Workload) -> None:
    for n in range(MANY):
        workload.produce(orders(n, 2))
        workload.run()


def _new_schema(name: str, title: str, point: str) -> Zombie:
    return Zombie(
        f"new-schema/{name}",
        f"a new schema met by two runs, {title}",
        point,
        (BATCH,),
        before=drain_earlier_and_produce_later,
        settings=BY_SCHEMA,
        look=partial(find_other_columns, EVOLVED),
    )


def _two_schemas(name: str, title: str, point: str, wanted: dict[str, dict[str, str]]) -> Zombie:
    return Zombie(
        f"two-schemas/{name}",
        f"a new schema, and an older one that only its replacement meets, {title}",
        point,
        (2 * BATCH,),
        before=drain_earlier_and_produce_other,
        meanwhile=produce_later,
        settings=BY_SCHEMA,
        look=partial(find_other_columns, wanted),
    )


_ALL = tuple(CATALOG_NAMES)
ZOMBIES = (
    Zombie(
        "first-batch",
        "a table's first batch, adopted",
        "commit.before-swap",
        before=Workload.produce_batch,
        catalogs=_ALL,
    ),
    Zombie(
        "first-batch-swept",
        "a table's first batch, done again and swept",
        "drain.after-tasks",
        (BATCH,),
        before=Workload.produce_batch,
        catalogs=_ALL,
    ),
    Zombie("adopted", "a later batch, adopted", "commit.before-swap", catalogs=_ALL),
    Zombie("swept", "between two chunks, what it wrote swept", "split.after-chunk", (BATCH,)),
    Zombie("landed", "after its commit, before its dead letters", "dead-letters.before-swap"),
    Zombie(
        "rolled-back",
        "its batch adopted and rolled back: the offsets are its own again",
        "commit.before-swap",
        afterwards=_roll_back,
    ),
    Zombie("many-commits", f"{MANY} commits later", "commit.before-swap", afterwards=_commit_often),
    Zombie(
        "many-commits-swept",
        f"{MANY} commits after its sweep",
        "drain.after-tasks",
        (BATCH,),
        afterwards=_commit_often,
    ),
    Zombie(
        "no-files",
        "a batch without files",
        "commit.before-swap",
        before=_produce_tombstones,
        catalogs=_ALL,
    ),
    Zombie(
        "replay",
        "a replay that another one overtook",
        "replay.before-swap",
        (REPLAYED_RECORDS,),
        before=Workload.drain_batches,
        work=f"replay {REPLAYED}",
    ),
    Zombie(
        "checkpoint",
        "a fold that another one overtook",
        "checkpoint.before-swap",
        before=Workload.drain_batches,
        work="checkpoint",
        orphans=1,
    ),
    _new_schema("columns-sent", "before its columns' commit", "columns.before-swap"),
    _new_schema("columns-there", "after its columns' commit", "columns.after-swap"),
    _new_schema("written", "its files written and swept", "drain.after-tasks"),
    _two_schemas("columns-sent", "before its columns' commit", "columns.before-swap", LATER_FIRST),
    _two_schemas("columns-there", "after its columns' commit", "columns.after-swap", OTHER_FIRST),
)
SCENARIOS = [zombie.scenario(catalog) for catalog in _ALL for zombie in ZOMBIES if catalog in zombie.catalogs]
