"""The dead-letter table of the protocol's model: what a data commit owes comes in by a swap of its own.

Each of its commits is the data table's history as its run had loaded it, which says what is owed.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from spark_jobs.protocol.fences import with_dead_letters
from tests.support.log_entries import make_progress
from tests.support.protocol_world import progress_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_jobs.protocol.progress import PendingDeadLetters, Progress
    from tests.support.protocol_model import Model
    from tests.support.protocol_world import History, Run, World


def pending_of(history: History) -> PendingDeadLetters | None:
    """What the table owes after these commits."""
    return progress_of(history).pending_dead_letters


@cache
def dead_progress_of(dead: tuple[History, ...]) -> Progress:
    """The dead-letter table's progress, made by the real code."""
    if not dead:
        return make_progress()
    pending = pending_of(dead[-1])
    assert pending is not None
    return with_dead_letters(dead_progress_of(dead[:-1]), progress_of(dead[-1]), pending)


def owes_nothing(dead: tuple[History, ...], history: History) -> bool:
    """Whether all that these commits owe is in."""
    pending = pending_of(history)
    return pending is None or dead_progress_of(dead).has_landed(pending.attempt)


@cache
def dead_rows_of(dead: tuple[History, ...]) -> dict[int, str]:
    """By offset the attempt whose dead letter a reader sees."""
    rows: dict[int, str] = {}
    for history in dead:
        pending = pending_of(history)
        assert pending is not None
        start, end = pending.ranges.starts.get(0, 0), pending.ranges.ends.get(0, 0)
        if pending.replaces:
            rows = {offset: row for offset, row in rows.items() if not start <= offset < end}
        for _file in pending.files:
            assert start not in rows, f"the dead letter of offset {start} is doubled"
            rows[start] = pending.attempt
    return rows


@cache
def dead_files(dead: tuple[History, ...]) -> frozenset[str]:
    """Every file that a snapshot of the dead-letter table names."""
    found = (pending_of(history) for history in dead)
    return frozenset(file.path for pending in found if pending for file in pending.files)


def check_dead_letters(world: World) -> None:
    """Each dead letter once, every named file there."""
    dead_rows_of(world.dead)
    missing = dead_files(world.dead) - world.storage
    assert not missing, f"the dead-letter table names files that are gone: {set(missing)}"


def finishing(run: Run, history: History, after: str) -> Run:
    """The run as it brings in what ``history`` owes, to go on with the step ``after``."""
    return run._replace(step="finish", owing=history, after=after)


class DeadLetterSteps:
    """The steps of bringing them in: load and compare, then swap."""

    model: Model

    def _finish(self, world: World, run: Run, _turn: object) -> Iterator[tuple[World, Run]]:
        pending = pending_of(run.owing)
        if pending is None:
            yield world, went_on(run)
            return
        there = dead_progress_of(world.dead)
        if there.has_landed(pending.attempt):
            yield world, went_on(run)
        elif self.model.rules.is_stale(there, progress_of(run.owing), pending):
            yield world, overtaken(run)
        else:
            yield world, run._replace(step="finish_send", dead_seen=len(world.dead))

    def _finish_send(self, world: World, run: Run, _turn: object) -> Iterator[tuple[World, Run]]:
        if run.dead_seen != len(world.dead):
            yield world, run._replace(step="finish")
            return
        yield dead_letters_in(world, run.owing), went_on(run)
        late = world._replace(dead_requests=world.dead_requests | {(run.dead_seen, run.owing)})
        yield late, run._replace(step="stopped")  # unknown: the next recovery finishes them


def dead_letters_in(world: World, owing: History) -> World:
    """The world once the swap has landed; late ones that compare with before never will."""
    dead = (*world.dead, owing)
    alive = frozenset(request for request in world.dead_requests if request[0] == len(dead))
    return world._replace(dead=dead, dead_requests=alive)


def went_on(run: Run) -> Run:
    """The run once nothing is owed any more."""
    return run._replace(step=run.after, after="", owing=(), dead_seen=0)


def overtaken(run: Run) -> Run:
    """A recovery goes on: another run finished them. A drain ends: what it knows of the table is old."""
    if run.is_recovering:
        return went_on(run)
    return run._replace(step="stopped", after="", owing=(), dead_seen=0)
