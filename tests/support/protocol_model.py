"""A small world in which runs drain one partition, replay it, and are overtaken: every interleaving of them.

Every step of every run is separate, so that between any two of them another run, an operator, or a request
that was thought lost, may come first. A killed run and one that is never continued are the same thing here:
from every world that can be reached, ``settle`` lets all runs be dead and checks what fresh runs make of it.
What runs decide is decided by the functions of ``spark_jobs``; ``Rules`` swaps one of them to show that
the model notices.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spark_jobs.lake.named_files import unnamed_files
from spark_jobs.protocol.source import is_stale, may_come_late, may_replay, stands_at_starts
from spark_jobs.protocol.work import Work
from spark_jobs.protocol.works.changes import ACCEPT, DISCARD, REANCHOR, ROLLBACK
from spark_jobs.protocol.works.drain import DRAIN
from spark_jobs.protocol.works.replay import REPLAY
from spark_jobs.recovery.decide import decide
from spark_jobs.txlog.entries import Published, is_held, is_settled, is_waiting
from tests.support.protocol_dead_letters import (
    check_dead_letters,
    check_none_lost,
    dead_files,
    dead_letters_in,
    dropped,
    owed_paid,
    pending_files,
)
from tests.support.protocol_sources import check_sources, is_another, whole_attempts
from tests.support.protocol_steps import Steps, Turn
from tests.support.protocol_world import (
    Commit,
    Run,
    World,
    arrived,
    attempt_name,
    attempt_of,
    bounds_of,
    check_table,
    committed,
    forget_hopeless,
    generations_of,
    kind_of,
    logged,
    named_files,
    next_offset,
    objects_of,
    progress_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from spark_jobs.protocol.batch import Batch
    from spark_jobs.protocol.progress import PendingDeadLetters, Progress
    from spark_jobs.txlog.entries import Attempt

CLOSING_AFTER_US = 100


@dataclass(frozen=True)
class Rules:
    """What the protocol leaves to judgement; the defaults are the real thing, tests break one at a time."""

    decide: Callable[..., Any] = decide
    may_commit: Callable[[Progress, Batch], bool] = stands_at_starts
    may_replay: Callable[[Progress, Batch], bool] = may_replay
    is_stale: Callable[[Progress, Progress, PendingDeadLetters], bool] = is_stale
    may_come_late: Callable[..., bool] = may_come_late
    is_another: Callable[..., bool] = is_another
    unnamed_files: Callable[..., tuple[str, ...]] = unnamed_files
    pending_files: Callable[..., tuple[str, ...]] = pending_files
    settles_before_accept: bool = True
    is_settled: Callable[..., bool] = is_settled
    deletes_on_conflict: bool = False
    deletes_when_unknown: bool = False


@dataclass(frozen=True)
class Model:
    """``last_offset`` records, one a batch; those at ``fileless`` offsets give no file (tombstones).

    Records at ``broken`` offsets are dead letters. Batches at ``gated`` offsets fail their gate: an operator
    publishes or discards them at any time. With ``has_upkeep`` a compaction moves main once, at any time, and
    leaves the offsets where they are; with ``has_rollback`` the table goes back to where it began, once, at
    any time. With ``has_drop`` somebody drops the dead-letter table once, at any time, with or without its
    files. With ``fork`` Kafka's topic is made anew once, at any time: the records from that offset on are
    others up to ``second_end``, and an operator accepts it as the source at any time.
    """

    rules: Rules
    runs: int
    last_offset: int
    fileless: frozenset[int] = frozenset()
    replays: int = 0
    gated: frozenset[int] = frozenset()
    broken: frozenset[int] = frozenset()
    has_upkeep: bool = False
    has_rollback: bool = False
    has_drop: bool = False
    fork: int | None = None
    second_end: int | None = None

    def explore(self) -> int:
        """Visit every world that can be reached, checking each; returns how many there are."""
        accepts = (ACCEPT,) if self.fork is not None else ()
        kinds = (DRAIN,) * self.runs + (REPLAY,) * self.replays + accepts
        runs = tuple(Run("start", kind) for kind in kinds)
        first = World((), frozenset(), frozenset(), frozenset(), runs)
        waiting, known, settled = deque([first]), {first}, set()
        while waiting:
            world = waiting.popleft()
            self.check(world)
            shared = world._replace(runs=())
            if shared not in settled:
                settled.add(shared)
                self.settle(shared)
            for following in self.moves(world):
                if following not in known:
                    known.add(following)
                    waiting.append(following)
        return len(known)

    def check(self, world: World) -> None:
        """What holds in every world."""
        check_table(world, self.gated)
        check_dead_letters(world)
        check_sources(world, self.fork)

    def end_of(self, topic: int) -> int:
        """How many records the topic has."""
        is_shorter = topic and self.second_end is not None
        return (self.second_end or 0) if is_shorter else self.last_offset

    def moves(self, world: World) -> Iterator[World]:
        """Every world one step away; runs of a kind begin in order, since their names change nothing."""
        for request in world.requests:
            yield arrived(world, request)
        for _table, commit in world.dead_requests:
            yield dead_letters_in(world, commit)
        if self.fork is not None and not world.topic:
            yield world._replace(topic=1)
        if self.has_drop:
            yield from dropped(world)
        yield from self._upkeep_and_rollback(world)
        yield from self._decisions(world)
        steps = Steps(self)
        for number, run in enumerate(world.runs):
            before = world.runs[number - 1] if number else None
            if run.step == "start" and before and (before.step, before.kind) == ("start", run.kind):
                continue
            for step_world, step_run in steps.of(world, run, Turn(str(number))):
                runs = (*world.runs[:number], step_run, *world.runs[number + 1 :])
                yield forget_hopeless(step_world._replace(runs=runs))

    def _upkeep_and_rollback(self, world: World) -> Iterator[World]:
        kinds = {kind_of(commit.attempt) for commit in world.history}
        if self.has_upkeep and REANCHOR not in kinds:
            yield committed(world, Commit(attempt_name(REANCHOR, 0, 0, 0, "upkeep")))
        if self.has_rollback and world.history and ROLLBACK not in kinds:
            # It brings in what is owed before its own swap.
            ready = owed_paid(world, self.rules) if self.broken else world
            yield committed(ready, Commit(attempt_name(ROLLBACK, 0, 0, 0, "operator")))

    def _decisions(self, world: World) -> Iterator[World]:
        """An operator looked at what is held, at any time before."""
        progress = progress_of(world.history)
        for name in {owner for owner, _ in world.log} if self.gated else ():
            attempt = self.read(world, name)
            if is_held(attempt):
                yield logged(world, name, Published("", "", "", 0), attempt.reached)
            if is_waiting(attempt, progress):
                discard = attempt_name(DISCARD, *bounds_of(name), 0, name.rpartition(":")[2])
                yield committed(world, Commit(discard))

    def settle(self, world: World) -> None:
        """All runs are dead: whichever request still arrives, fresh runs must put everything right."""
        late = (dead_letters_in(world, commit) for _table, commit in world.dead_requests)
        for start in (world, *(arrived(world, request) for request in world.requests), *late):
            ended = start._replace(requests=frozenset(), dead_requests=frozenset())
            if world.topic:
                whole = whole_attempts(self, ended)
                ended = self.run_alone(ended, ACCEPT, "w")
                self.check(ended)
                assert not is_another(progress_of(ended.history), ended.topic), "the source is not accepted"
                kept = {row for rows in generations_of(ended.history) for row in rows}
                assert not whole or whole & kept, f"a batch that was read whole is thrown away: {set(whole)}"
            # Who publishes what a drain holds looks after each; two drains more sweep what became hopeless.
            for number in range(self.last_offset + 2 if self.gated else 2):
                ended = self._published(self.run_alone(ended, DRAIN, f"x{number}"))
                if self.replays:
                    ended = self.run_alone(ended, REPLAY, f"y{number}")
            ended = self.run_alone(ended, DRAIN, "z")
            self.check(ended)
            named = named_files(ended.history) | dead_files(ended.dead)
            assert next_offset(ended.history) == self.end_of(ended.topic), "the drain stands still"
            check_none_lost(ended)
            stray = ended.storage - named - ended.abandoned
            assert not stray, f"stray files {set(stray)}"
            assert not self.due(ended, now_us=CLOSING_AFTER_US), "an attempt stays unfinished"

    def _published(self, world: World) -> World:
        for name in sorted({owner for owner, _ in world.log}) if self.gated else ():
            attempt = self.read(world, name)
            if is_waiting(attempt, progress_of(world.history)):
                return logged(world, name, Published("", "", "", 0), attempt.reached)
        return world

    def run_alone(self, world: World, kind: Work, name: str) -> World:
        """One run from start to end without interference or failures."""
        run, steps = Run("start", kind), Steps(self)
        while run.step != "stopped":
            world, run = next(steps.of(world, run, Turn(name, CLOSING_AFTER_US)))
            world = forget_hopeless(world)
        return world

    def due(self, world: World, *, now_us: int, kind: Work | None = None) -> tuple[str, ...]:
        """The attempts that a recovery looks at."""
        attempts = sorted({attempt for attempt, _ in world.log})
        return tuple(
            attempt
            for attempt in attempts
            if kind in {None, kind_of(attempt)}
            and not self.rules.is_settled(
                dict.fromkeys(objects_of(world, attempt), 0), now_us=now_us, closing_after_us=CLOSING_AFTER_US
            )
        )

    def read(self, world: World, name: str) -> Attempt:
        """An attempt as the log shows it now."""
        return self.read_objects(name, objects_of(world, name))

    def read_objects(self, name: str, objects: frozenset[str]) -> Attempt:
        """An attempt of which the log had these objects."""
        return attempt_of(name, objects, is_gated=self.is_gated(name))

    def is_gated(self, name: str) -> bool:
        """Whether the attempt's batch fails its gate."""
        return kind_of(name) is DRAIN and bounds_of(name)[0] in self.gated

    def files_of(self, name: str) -> frozenset[str]:
        """What the attempt writes."""
        is_fileless = set(range(*bounds_of(name))) <= self.fileless
        return frozenset() if is_fileless else frozenset({f"{name}.parquet"})
