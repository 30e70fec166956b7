"""A small world in which runs drain one partition: table, storage, log, requests on their way, and the runs.

Every step of every run is separate, so that between any two of them another run, or a request that was
thought lost, may come first. A killed run and one that is never continued are the same thing here: from
every world that can be reached, ``settle`` lets all runs be dead and checks what a fresh run makes of it.
What runs decide is decided by the functions of ``spark_jobs.core``; ``Rules`` swaps one of them to show that
the model notices.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from spark_jobs.core.log_names import is_settled, object_name, reached_phase
from spark_jobs.core.recovery import Decision, decide, stands_at_starts, unnamed_files
from spark_jobs.core.txlog import (
    Attempt,
    Closed,
    Entry,
    FlushComplete,
    FlushStart,
    IcebergSnapshotCreated,
    ParquetWritten,
    Swept,
)
from tests.support.log_entries import TABLE_UUID, make_batch, make_progress, offset_commit, parquet_written

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from spark_jobs.core.batch import Batch
    from spark_jobs.core.progress import Progress

CLOSING_AFTER_US = 100
UPKEEP = "upkeep"


class Commit(NamedTuple):
    """One commit of the table: the attempt, its offsets, the files it named."""

    attempt: str
    start: int
    end: int
    files: frozenset[str]


History = tuple[Commit, ...]


class Request(NamedTuple):
    """A swap that was sent: it lands if the table still has ``expected`` commits."""

    expected: int
    commit: Commit


class Run(NamedTuple):
    """A run: what it does next and what it remembers. ``begun`` counts its attempts."""

    step: str
    begun: int = 0
    commit: Commit | None = None
    todo: tuple[str, ...] = ()
    logs: tuple[frozenset[str], ...] = ()
    seen: Any = None
    is_adopting: bool = False


class Turn(NamedTuple):
    """Whose step it is, and when; only the fresh runs of ``settle`` come so late that attempts are closed."""

    name: str
    now_us: int = 0


class World(NamedTuple):
    """All that is shared, and the runs. ``log`` holds ``(attempt, object name)``."""

    history: History
    storage: frozenset[str]
    log: frozenset[tuple[str, str]]
    requests: frozenset[Request]
    runs: tuple[Run, ...]


@dataclass(frozen=True)
class Rules:
    """What the protocol leaves to judgement; the defaults are the real thing, tests break one at a time."""

    decide: Callable[..., Any] = decide
    may_commit: Callable[[Progress, Batch], bool] = stands_at_starts
    unnamed_files: Callable[..., tuple[str, ...]] = unnamed_files
    is_settled: Callable[..., bool] = is_settled
    deletes_on_conflict: bool = False
    deletes_when_unknown: bool = False


@dataclass(frozen=True)
class Model:
    """``last_offset`` records, one a batch; those at ``fileless`` offsets give no file (tombstones).

    With ``has_upkeep`` a compaction moves main once, at any time, and leaves the offsets where they are.
    """

    rules: Rules
    runs: int
    last_offset: int
    fileless: frozenset[int] = frozenset()
    has_upkeep: bool = False

    def explore(self) -> int:
        """Visit every world that can be reached, checking each; returns how many there are."""
        first = World((), frozenset(), frozenset(), frozenset(), (Run("start"),) * self.runs)
        waiting, known, settled = deque([first]), {first}, set()
        while waiting:
            world = waiting.popleft()
            check_table(world)
            shared = world._replace(runs=())
            if shared not in settled:
                settled.add(shared)
                self.settle(shared)
            for following in self.moves(world):
                if following not in known:
                    known.add(following)
                    waiting.append(following)
        return len(known)

    def moves(self, world: World) -> Iterator[World]:
        """Every world one step away; runs begin in order, since their names change nothing."""
        for request in world.requests:
            yield _arrive(world, request)
        if self.has_upkeep and all(commit.attempt != UPKEEP for commit in world.history):
            position = _next_offset(world.history)
            upkeep = Commit(UPKEEP, position, position, frozenset())
            yield _forget_hopeless(world._replace(history=(*world.history, upkeep)))
        for number, run in enumerate(world.runs):
            if run.step == "start" and number and world.runs[number - 1].step == "start":
                continue
            for step_world, step_run in self.step(world, run, Turn(str(number))):
                runs = (*world.runs[:number], step_run, *world.runs[number + 1 :])
                yield _forget_hopeless(step_world._replace(runs=runs))

    def settle(self, world: World) -> None:
        """All runs are dead: whichever request still arrives, a fresh run must put everything right."""
        check = [world, *(_arrive(world, request) for request in world.requests)]
        for start in check:
            ended = self.run_alone(start._replace(requests=frozenset()), Turn("x", CLOSING_AFTER_US))
            ended = self.run_alone(ended, Turn("y", CLOSING_AFTER_US))
            check_table(ended)
            named = named_files(ended.history)
            assert _next_offset(ended.history) == self.last_offset, "the drain stands still"
            assert ended.storage == named, f"stray files {set(ended.storage - named)}"
            assert not self._due(ended, now_us=CLOSING_AFTER_US), "an attempt stays unfinished"

    def run_alone(self, world: World, turn: Turn) -> World:
        """One run from start to end without interference or failures."""
        run = Run("start")
        while run.step != "stopped":
            world, run = next(self.step(world, run, turn))
            world = _forget_hopeless(world)
        return world

    def step(self, world: World, run: Run, turn: Turn) -> Iterator[tuple[World, Run]]:
        """The outcomes of a run's next step, the undisturbed one first; none when it has stopped."""
        if run.step != "stopped":
            yield from getattr(self, f"_{run.step}")(world, run, turn)

    def _due(self, world: World, *, now_us: int) -> tuple[str, ...]:
        attempts = sorted({attempt for attempt, _ in world.log})
        return tuple(
            attempt
            for attempt in attempts
            if not self.rules.is_settled(
                dict.fromkeys(_objects(world, attempt), 0), now_us=now_us, closing_after_us=CLOSING_AFTER_US
            )
        )

    def _start(self, world: World, run: Run, turn: Turn) -> Iterator[tuple[World, Run]]:
        todo = self._due(world, now_us=turn.now_us)
        yield world, run._replace(step="look", todo=todo, logs=tuple(_objects(world, a) for a in todo))

    def _look(self, world: World, run: Run, _turn: Turn) -> Iterator[tuple[World, Run]]:
        step = "judge" if run.todo else "plan"
        yield world, run._replace(step=step, seen=world.history if run.todo else None)

    def _judge(self, world: World, run: Run, _turn: Turn) -> Iterator[tuple[World, Run]]:
        attempt, log = run.todo[0], run.logs[0]
        batch = make_batch(attempt, start=_start_of(attempt), end=_start_of(attempt) + 1)
        files = self._files_of(attempt)
        verdict = self.rules.decide(
            _attempt(attempt, log),
            progress_of(run.seen),
            has_all_files=lambda: files <= world.storage,
            names_its_files=lambda: bool(files & named_files(run.seen)),
        )
        match verdict.decision:
            case Decision.LEAVE:
                yield world, _next_attempt(run)
            case Decision.MARK:
                yield world, run._replace(step="mark", seen=None)
            case Decision.ADOPT:
                commit = Commit(attempt, *_bounds(batch), files)
                yield world, run._replace(step="load", commit=commit, is_adopting=True, seen=None)
            case Decision.SWEEP:
                found = sorted(f for f in world.storage if f.startswith(attempt))
                named = named_files(run.seen)
                doomed = self.rules.unnamed_files(found, named=named, owed=frozenset())
                yield world, run._replace(step="delete", seen=tuple(doomed))

    def _mark(self, world: World, run: Run, turn: Turn) -> Iterator[tuple[World, Run]]:
        marked = _log(world, run.todo[0], IcebergSnapshotCreated(None, turn.name, 0))
        yield marked, run._replace(step="mark_complete")

    def _mark_complete(self, world: World, run: Run, turn: Turn) -> Iterator[tuple[World, Run]]:
        yield _log(world, run.todo[0], FlushComplete({}, None, turn.name, 0)), _next_attempt(run)

    def _delete(self, world: World, run: Run, turn: Turn) -> Iterator[tuple[World, Run]]:
        if run.seen:
            yield world._replace(storage=world.storage - {run.seen[0]}), run._replace(seen=run.seen[1:])
            return
        mark = Closed(0, turn.name, 0) if turn.now_us >= CLOSING_AFTER_US else Swept(0, turn.name, 0)
        yield _log(world, run.todo[0], mark, reached_phase(run.logs[0])), _next_attempt(run)

    def _plan(self, world: World, run: Run, turn: Turn) -> Iterator[tuple[World, Run]]:
        start = _next_offset(world.history)
        if start == self.last_offset:
            yield world, _stopped(run)
            return
        attempt = f"{start}-{turn.name}-{run.begun}"
        commit = Commit(attempt, start, start + 1, self._files_of(attempt))
        begun = _log(world, attempt, offset_commit(make_batch(attempt)))
        yield begun, Run("flush", run.begun + 1, commit)

    def _flush(self, world: World, run: Run, _turn: Turn) -> Iterator[tuple[World, Run]]:
        yield _log(world, run.commit.attempt, FlushStart("", "", None)), run._replace(step="write")

    def _write(self, world: World, run: Run, _turn: Turn) -> Iterator[tuple[World, Run]]:
        written = world._replace(storage=world.storage | run.commit.files)
        yield written, run._replace(step="log_written")

    def _log_written(self, world: World, run: Run, _turn: Turn) -> Iterator[tuple[World, Run]]:
        yield _log(world, run.commit.attempt, _written(run.commit.attempt)), run._replace(step="load")

    def _load(self, world: World, run: Run, _turn: Turn) -> Iterator[tuple[World, Run]]:
        progress, commit = progress_of(world.history), run.commit
        if progress.has_landed(commit.attempt):
            yield world, run._replace(step="landed", seen=None)
        elif self.rules.may_commit(progress, _batch(commit)):
            yield world, run._replace(step="send", seen=len(world.history))
        else:
            gone = commit.files if self.rules.deletes_on_conflict else frozenset()
            world = world._replace(storage=world.storage - gone)
            yield world, (_next_attempt(run) if run.is_adopting else _stopped(run))

    def _send(self, world: World, run: Run, _turn: Turn) -> Iterator[tuple[World, Run]]:
        request = Request(run.seen, run.commit)
        if request.expected == len(world.history):
            landed = _arrive(world, request)
            yield landed, run._replace(step="landed", seen=None)
            yield landed, run._replace(step="read_back", seen=None)
            on_its_way = world._replace(requests=world.requests | {request})
            yield on_its_way, run._replace(step="read_back", seen=None)
        else:
            yield world, run._replace(step="read_back", seen=None)

    def _read_back(self, world: World, run: Run, _turn: Turn) -> Iterator[tuple[World, Run]]:
        if progress_of(world.history).has_landed(run.commit.attempt):
            yield world, run._replace(step="landed")
            return
        if self.rules.deletes_when_unknown:
            world = world._replace(storage=world.storage - run.commit.files)
        yield world, run._replace(step="load")  # refused: try the same files while the offsets stand
        yield world, _stopped(run)  # unknown: the next recovery settles it

    def _landed(self, world: World, run: Run, turn: Turn) -> Iterator[tuple[World, Run]]:
        created = IcebergSnapshotCreated(1, turn.name, 0)
        yield _log(world, run.commit.attempt, created), run._replace(step="complete")

    def _complete(self, world: World, run: Run, turn: Turn) -> Iterator[tuple[World, Run]]:
        done = _log(world, run.commit.attempt, FlushComplete({}, None, turn.name, 0))
        yield done, (_next_attempt(run) if run.is_adopting else Run("plan", run.begun))

    def _files_of(self, attempt: str) -> frozenset[str]:
        return frozenset() if _start_of(attempt) in self.fileless else frozenset({f"{attempt}.parquet"})


def check_table(world: World) -> None:
    """Every offset once and in order, and every file that the table names exists."""
    position = 0
    for commit in world.history:
        assert commit.start == position, f"offset {min(commit.start, position)} doubled or lost"
        position = commit.end
    missing = named_files(world.history) - world.storage
    assert not missing, f"the table names files that are gone: {set(missing)}"


@cache
def progress_of(history: History) -> Progress:
    """The progress after these commits, made by the real code."""
    progress = make_progress()
    for commit in history:
        progress = progress.advanced(_batch(commit), None)
    return progress


@cache
def named_files(history: History) -> frozenset[str]:
    """Every file the table names."""
    return frozenset(file for commit in history for file in commit.files)


@cache
def _attempt(attempt: str, names: frozenset[str]) -> Attempt:
    batch = make_batch(attempt, start=_start_of(attempt), end=_start_of(attempt) + 1)
    known: list[Entry] = [
        offset_commit(batch),
        FlushStart("", "", None),
        _written(attempt),
        IcebergSnapshotCreated(1, "", 0),
    ]
    entries = tuple(entry for entry in known if object_name(entry, 0) in names)
    return Attempt(TABLE_UUID, attempt, batch, entries, (), reached_phase(names))


@cache
def _written(attempt: str) -> ParquetWritten:
    batch = make_batch(attempt, start=_start_of(attempt), end=_start_of(attempt) + 1)
    return parquet_written(batch, {"path": f"{attempt}.parquet"})


@cache
def _batch(commit: Commit) -> Batch:
    return make_batch(commit.attempt, start=commit.start, end=commit.end)


def _bounds(batch: Batch) -> tuple[int, int]:
    return batch.ranges.starts[0], batch.ranges.ends[0]


def _start_of(attempt: str) -> int:
    return int(attempt.partition("-")[0])


def _next_offset(history: History) -> int:
    return progress_of(history).next_offsets[0]


def _objects(world: World, attempt: str) -> frozenset[str]:
    return frozenset(name for owner, name in world.log if owner == attempt)


def _log(world: World, attempt: str, entry: Entry, reached: int = 0) -> World:
    return world._replace(log=world.log | {(attempt, object_name(entry, reached))})


def _arrive(world: World, request: Request) -> World:
    landed = world.history
    if request.expected == len(landed):
        landed = (*landed, request.commit)
    return world._replace(history=landed, requests=world.requests - {request})


def _forget_hopeless(world: World) -> World:
    """A request whose comparison fails for ever changes nothing any more."""
    alive = frozenset(r for r in world.requests if r.expected == len(world.history))
    return world if alive == world.requests else world._replace(requests=alive)


def _next_attempt(run: Run) -> Run:
    return Run("look", run.begun, None, run.todo[1:], run.logs[1:])


def _stopped(run: Run) -> Run:
    return Run("stopped", run.begun)
