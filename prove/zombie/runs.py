"""Zombies: a run that is stopped for longer than its replacement needs, and then goes on as if nothing was.

Whatever it then believes, the table stays as its replacement left it: each record once, no file too many.
"""

from __future__ import annotations

import signal
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prove.crash.conflicts import CONFLICTS
from prove.crash.jobs import first, later
from prove.crash.promises import REPLAYED, REPLAYED_RECORDS
from prove.hostile.case import drained
from prove.lab.pipeline_lab import orders
from prove.scenario import Findings, Scenario
from prove.stage import BATCH, CATALOG_NAMES, REST, SQLITE
from prove.verdict import look

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from prove.stage import Play, Stage

MANY = 20
CHANGES_NOTHING = "it commits nothing that is there, deletes nothing that is named"
QUICK = frozenset({"sqlite/zombie/first-batch", "sqlite/zombie/swept", "rest/zombie/rolled-back"})


@dataclass(frozen=True, slots=True)
class Zombie:
    """``work`` stops at ``point`` after ``before``; its replacement does the same work, and then ``later``.

    ``may_read_again`` are records of the stopped run's range that the replacement reads, ``orphans`` files of
    the books that are left to orphan removal.
    """

    name: str
    title: str
    point: str
    before: Callable[[Play], None]
    catalogs: tuple[str, ...]
    may_read_again: tuple[int, ...] = (0,)
    orphans: int = 0
    work: str = "drain"
    later: Callable[[Play], None] = lambda _play: None

    def scenario(self, catalog: str) -> Scenario:
        """The case as the runner knows it."""
        name = f"{catalog}/zombie/{self.name}"
        return Scenario(
            name=name,
            group=f"a run that sleeps and goes on, on {CATALOG_NAMES[catalog]}",
            title=self.title,
            promise=CHANGES_NOTHING,
            needs=frozenset({catalog} - {SQLITE}),
            is_quick=name in QUICK,
            run=lambda stage: self.run(stage, catalog),
        )

    def run(self, stage: Stage, catalog: str) -> Findings:
        """Stop it, replace it, let it go on, look."""
        with stage.play(catalog) as play:
            self.before(play)
            slept = str(play.folder / "slept")
            zombie = play.lab.start(self.point, signal.SIGSTOP, once=slept, work=self.work)
            try:
                zombie.wait_until_stopped()
                began = time.monotonic()
                replacement = play.lab.start(work=self.work).answer()
                seconds = time.monotonic() - began
                assert replacement.error is None, replacement.message
                self.later(play)
                zombie.go_on()
                error = zombie.answer().error
            finally:
                zombie.kill()
            assert error in CONFLICTS, f"it ended with {error}"
            play.produce_batch()
            play.work()
            counts = look(play)
        told = f"it ended with {error}" if error else "it found its batch landed, or nothing to do"
        return Findings(
            happened="; ".join((told, *counts.examples)),
            lost=counts.lost,
            doubled=counts.doubled,
            unreadable=counts.unreadable,
            stray=counts.stray + max(0, counts.orphans - self.orphans),
            read_again=replacement.records_read,
            may_read_again=self.may_read_again,
            recovery_seconds=seconds,
        )


def zombies() -> Iterator[Scenario]:
    """Every case, in the report's order."""
    for catalog in CATALOG_NAMES:
        yield from (zombie.scenario(catalog) for zombie in ZOMBIES if catalog in zombie.catalogs)


def _only_tombstones(play: Play) -> None:
    drained(play)
    play.produce((), [None] * BATCH)


def _rolled_back(play: Play) -> None:
    play.work("rollback")


def _many_commits(play: Play) -> None:
    for n in range(MANY):
        play.produce(orders(n, 2))
        play.work()


_ALL = tuple(CATALOG_NAMES)
_MOST = (SQLITE, REST)
ZOMBIES = (
    Zombie("first-batch", "a table's first batch, adopted", "commit.before-swap", first, _ALL),
    Zombie(
        "first-batch-swept",
        "a table's first batch, done again and swept",
        "drain.after-tasks",
        first,
        _ALL,
        (BATCH,),
    ),
    Zombie("adopted", "a later batch, adopted", "commit.before-swap", later, _ALL),
    Zombie(
        "swept",
        "between two chunks, what it wrote swept",
        "split.after-chunk",
        later,
        _MOST,
        (BATCH,),
    ),
    Zombie(
        "landed",
        "after its commit, before its dead letters",
        "dead-letters.before-swap",
        later,
        _MOST,
    ),
    Zombie(
        "rolled-back",
        "its batch adopted and rolled back: the offsets are its own again",
        "commit.before-swap",
        later,
        _MOST,
        later=_rolled_back,
    ),
    Zombie(
        "many-commits",
        f"{MANY} commits later",
        "commit.before-swap",
        later,
        _MOST,
        later=_many_commits,
    ),
    Zombie(
        "many-commits-swept",
        f"{MANY} commits after its sweep",
        "drain.after-tasks",
        later,
        _MOST,
        (BATCH,),
        later=_many_commits,
    ),
    Zombie("no-files", "a batch without files", "commit.before-swap", _only_tombstones, _ALL),
    Zombie(
        "replay",
        "a replay that another one overtook",
        "replay.before-swap",
        drained,
        _MOST,
        (REPLAYED_RECORDS,),
        work=f"replay {REPLAYED}",
    ),
    Zombie(
        "checkpoint",
        "a fold that another one overtook",
        "checkpoint.before-swap",
        drained,
        _MOST,
        orphans=1,
        work="checkpoint",
    ),
)
