"""The dead-letter table of the protocol's model: what a data commit owes comes in by a swap of its own.

Each of its commits has the data table's history as its run had loaded it, which says what is owed. Somebody
may drop it; whoever owes something then makes another, of which the real code says what it knows.
"""

from __future__ import annotations

from contextlib import nullcontext
from functools import cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from spark_jobs.commit import pending_commit
from spark_jobs.commit import table_creation as birth
from spark_jobs.protocol.errors import CommitConflict
from spark_jobs.protocol.source import still_pending, with_dead_letters
from tests.support.protocol_world import (
    SKIPPED,
    DeadCommit,
    DeadTable,
    batch_of,
    generations_of,
    progress_of,
    written,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_jobs.protocol.progress import PendingDeadLetters, Progress
    from tests.support.protocol_model import Model, Rules
    from tests.support.protocol_world import History, Run, World


def pending_of(history: History) -> PendingDeadLetters | None:
    """What the table owes after these commits."""
    return progress_of(history).pending_dead_letters


@cache
def born_knowing(owing: History, now: History) -> Progress | None:
    """The progress of a dead-letter table made by who had loaded ``owing`` while ``now`` is true.

    None when the real code makes none.
    """
    made: list[Progress] = []

    def create_with_snapshot(*_: object, progress: Progress, **_facts: object) -> Progress:
        made.append(progress)
        return progress

    data = {"demo.t": progress_of(now)}
    connections: Any = SimpleNamespace(open_catalog=lambda: data)
    same = {"load_table": lambda catalog, name: catalog.get(name), "progress_of": lambda table: table}
    with (
        patch.multiple(birth, create_with_snapshot=create_with_snapshot, **same),
        patch.multiple(pending_commit, released=nullcontext, **same),
    ):
        try:
            pending_commit._ensure_dead_letter_table(connections, "demo.t", progress_of(owing))
        except CommitConflict:
            return None
    return made[0]


@cache
def dead_progress_of(dead: DeadTable) -> Progress:
    """The dead-letter table's progress, made by the real code."""
    if not dead.commits:
        born = born_knowing(dead.birth, dead.birth)
        assert born is not None
        return born
    *before, last = dead.commits
    pending = pending_of(last.owing)
    assert pending is not None
    return with_dead_letters(
        dead_progress_of(dead._replace(commits=tuple(before))), progress_of(last.owing), pending
    )


Place = tuple[int, int]


@cache
def dead_rows_of(dead: DeadTable | None) -> dict[Place, str]:
    """By generation and offset the attempt whose dead letter a reader sees."""
    rows: dict[Place, str] = {}
    for owing, files in dead.commits if dead else ():
        pending, generation = pending_of(owing), progress_of(owing).generation
        assert pending is not None
        start, end = pending.ranges.starts.get(0, 0), pending.ranges.ends.get(0, 0)
        if pending.replaces:
            rows = {at: row for at, row in rows.items() if at[0] != generation or not start <= at[1] < end}
        for _file in files:
            assert (generation, start) not in rows, f"the dead letter of offset {start} is doubled"
            rows[generation, start] = pending.attempt
    return rows


@cache
def dead_files(dead: DeadTable | None) -> frozenset[str]:
    """Every file that a snapshot of the dead-letter table names."""
    return frozenset(file for commit in (dead.commits if dead else ()) for file in commit.files)


def check_dead_letters(world: World) -> None:
    """Each dead letter once, every named file there."""
    dead_rows_of(world.dead)
    missing = dead_files(world.dead) - world.storage
    assert not missing, f"the dead-letter table names files that are gone: {set(missing)}"


def check_none_lost(world: World) -> None:
    """What balances of batches in the table count as dead letters is there, but for what was dropped."""
    counted = {
        (generation, batch_of(row).ranges.starts[0]): row
        for generation, rows in enumerate(generations_of(world.history))
        for row in set(rows)
        if row != SKIPPED and written(row, is_gated=False).balances[0].dead_letters
    }
    there = dead_rows_of(world.dead)
    assert there.items() <= counted.items(), f"{there} are not the dead letters of {counted}"
    lost = set(counted) - set(there) - world.forgone
    assert not lost, f"a dead letter is lost: {lost}"


def dropped(world: World) -> Iterator[World]:
    """The dead-letter table dropped once, with the files it names or without."""
    if world.dead is None or world.dead.dropped:
        return
    files = dead_files(world.dead)
    gone = world._replace(dead=None, dead_requests=frozenset(), forgone=frozenset(dead_rows_of(world.dead)))
    yield gone._replace(abandoned=files)
    if files:
        yield gone._replace(storage=world.storage - files)


def finishing(run: Run, history: History, after: str) -> Run:
    """The run as it brings in what ``history`` owes, to go on with the step ``after``."""
    return run._replace(step="finish", owing=history, after=after)


def pending_files(pending: PendingDeadLetters, dead: DeadTable, storage: frozenset[str]) -> tuple[str, ...]:
    """The files that the real code names: those written for a table that was dropped may be gone."""
    folder = "/elsewhere" if dead.dropped else "/lake"
    table: Any = SimpleNamespace(
        location=lambda: folder,
        metadata=SimpleNamespace(properties={"write.data.path": folder}, default_spec_id=0),
        io=SimpleNamespace(new_input=lambda path: SimpleNamespace(exists=lambda: path in storage)),
    )
    rewriter: Any = SimpleNamespace(copy=lambda _table, file, **_: (file,))
    intent = pending_commit._PendingCommit("demo.t", None, pending, {}, rewriter)  # type: ignore[arg-type]
    with patch.object(pending_commit, "_log"):
        return tuple(file.path for file in intent._pending(table))


class DeadLetterSteps:
    """The steps of bringing them in: make the table where there is none, load and compare, then swap."""

    model: Model

    def _finish(self, world: World, run: Run, _turn: object) -> Iterator[tuple[World, Run]]:
        pending = pending_of(run.owing)
        if pending is None:
            yield world, went_on(run)
            return
        if world.dead is None:
            is_stale = born_knowing(run.owing, world.history) is None
            made = world if is_stale else world._replace(dead=DeadTable(1, run.owing))
            yield made, (overtaken(run) if is_stale else run)
            return
        there = dead_progress_of(world.dead)
        if there.has_landed(pending.attempt):
            yield world, went_on(run)
        elif self.model.rules.is_stale(there, progress_of(run.owing), pending):
            yield world, overtaken(run)
        else:
            files = self.model.rules.pending_files(pending, world.dead, world.storage)
            seen = (world.dead, DeadCommit(run.owing, files))
            yield world, run._replace(step="finish_send", dead_seen=seen)

    def _finish_send(self, world: World, run: Run, _turn: object) -> Iterator[tuple[World, Run]]:
        loaded, commit = run.dead_seen
        if world.dead is None:
            yield world, run._replace(step="stopped")  # "the table is gone"
        elif loaded != world.dead:
            yield world, run._replace(step="finish", dead_seen=None)
        else:
            yield dead_letters_in(world, commit), went_on(run)
            late = world._replace(dead_requests=world.dead_requests | {(loaded, commit)})
            yield late, run._replace(step="stopped")  # unknown: the next recovery finishes them


def dead_letters_in(world: World, commit: DeadCommit) -> World:
    """The world once the swap has landed; late ones that compare with before never will."""
    dead = world.dead._replace(commits=(*world.dead.commits, commit))
    return world._replace(dead=dead, dead_requests=frozenset())


def owed_paid(world: World, rules: Rules) -> World:
    """The world once an act that has just loaded the table has brought in what it owes."""
    dead, owing = world.dead, world.history
    if (pending := still_pending(progress_of(owing), dead and dead_progress_of(dead))) is None:
        return world
    dead = dead or DeadTable(1, owing)
    is_refused = rules.is_stale(dead_progress_of(dead), progress_of(owing), pending)
    assert not is_refused, "what the table owes is refused for ever"
    files = rules.pending_files(pending, dead, world.storage)
    return dead_letters_in(world._replace(dead=dead), DeadCommit(owing, files))


def went_on(run: Run) -> Run:
    """The run once nothing is owed any more."""
    return run._replace(step=run.after, after="", owing=(), dead_seen=None)


def overtaken(run: Run) -> Run:
    """A recovery goes on: another run finished them. A drain ends: what it knows of the table is old."""
    if run.is_recovering:
        return went_on(run)
    return run._replace(step="stopped", after="", owing=(), dead_seen=None)
