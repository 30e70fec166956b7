"""What the runs of the protocol's model share: table, storage, log, requests on their way.

What a commit does to the table's progress is done by the functions of ``spark_jobs.protocol``.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from spark_jobs.acts.changes import Rewind, follow_source, rewind_progress
from spark_jobs.protocol.batch import Balance
from spark_jobs.protocol.offsets import OffsetRanges
from spark_jobs.protocol.progress import PendingDeadLetters
from spark_jobs.protocol.progress_parts import with_skipped
from spark_jobs.protocol.source import SourceState
from spark_jobs.protocol.work import WORKS, Work
from spark_jobs.protocol.works import changes, drain, replay
from spark_jobs.txlog.entries import (
    Attempt,
    Entry,
    FlushStart,
    IcebergSnapshotCreated,
    ParquetWritten,
    Phase,
    Published,
    has_mark,
    object_name,
    reached_phase,
)
from tests.support.log_entries import (
    TABLE_UUID,
    held_written,
    make_batch,
    make_progress,
    offset_commit,
    parquet_written,
    written_file,
)

if TYPE_CHECKING:
    from spark_jobs.protocol.batch import Batch, WrittenFile
    from spark_jobs.protocol.progress import Progress

SKIPPED = "skipped"
TOPIC_IDS = ("i", "j")  # of the topic that the table was filled from, and of the one made anew in its place


class Commit(NamedTuple):
    """One commit of the table: the attempt, which says what it is for, and the files it named."""

    attempt: str
    files: frozenset[str] = frozenset()


History = tuple[Commit, ...]


class Request(NamedTuple):
    """A swap that was sent: it lands if the table still has ``expected`` commits."""

    expected: int
    commit: Commit


class DeadCommit(NamedTuple):
    """A commit of the dead-letter table: the data table as its run had loaded it, and the files it named."""

    owing: History
    files: tuple[str, ...] = ()


class DeadTable(NamedTuple):
    """The dead-letter table: how many of its name were dropped before, who made it, what came in."""

    dropped: int = 0
    birth: History = ()
    commits: tuple[DeadCommit, ...] = ()


class Run(NamedTuple):
    """A run of one ``kind``: what it does next and what it remembers. ``begun`` counts its attempts."""

    step: str
    kind: Work = drain.DRAIN
    begun: int = 0
    commit: Commit | None = None
    todo: tuple[str, ...] = ()
    logs: tuple[frozenset[str], ...] = ()
    seen: Any = None
    is_adopting: bool = False
    is_held: bool = False
    owing: History = ()
    after: str = ""
    dead_seen: tuple[DeadTable, DeadCommit] | None = None
    loaded: int = 0
    marking: History = ()

    @property
    def is_recovering(self) -> bool:
        """Whether it is still settling what others left."""
        return self.after != "complete" and self.commit is None


class World(NamedTuple):
    """All that is shared, and the runs. ``log`` holds ``(attempt, object name)``.

    ``dead`` are the commits of the dead-letter table, each the history that owed them; ``dead_requests``
    those on their way, with the table they compare with. ``topic`` says which one Kafka has now.
    """

    history: History
    storage: frozenset[str]
    log: frozenset[tuple[str, str]]
    requests: frozenset[Request]
    runs: tuple[Run, ...]
    dead: DeadTable | None = DeadTable()
    dead_requests: frozenset[tuple[DeadTable, DeadCommit]] = frozenset()
    forgone: frozenset[int] = frozenset()
    abandoned: frozenset[str] = frozenset()
    topic: int = 0


def attempt_name(
    kind: Work, start: int, end: int, epoch: int, who: str, *, generation: int = 0, topic: int = 0
) -> str:
    """An attempt's name, which is all of its batch: no world has to hold batches."""
    return f"{kind}:{start}:{end}:{epoch}:{generation}:{topic}:{who}"


@cache
def batch_of(attempt: str) -> Batch:
    """The batch of an attempt."""
    kind, start, end, epoch, generation, topic, _who = attempt.split(":")
    batch = make_batch(attempt, start=int(start), end=int(end), generation=int(generation))
    topic_id = TOPIC_IDS[int(topic)]
    return replace(batch, kind=WORKS[kind], epoch=int(epoch), cluster_id="c", topic_id=topic_id)


def bounds_of(attempt: str) -> tuple[int, int]:
    """First offset of the attempt's range, and the one after its last."""
    batch = batch_of(attempt)
    return batch.ranges.starts.get(0, 0), batch.ranges.ends.get(0, 0)


def kind_of(attempt: str) -> Work:
    """What the attempt is for."""
    return batch_of(attempt).kind


@cache
def progress_of(history: History) -> Progress:
    """The progress after these commits, made by the real code."""
    if not history:
        return make_progress()
    before, attempt = progress_of(history[:-1]), history[-1].attempt
    batch = batch_of(attempt)
    if batch.kind is drain.DRAIN:
        owed = PendingDeadLetters(attempt, batch.ranges, _described(dead_files_of(attempt)))
        return before.after_batch(batch, owed if owed.files else None)
    if batch.kind is replay.REPLAY:
        owed = PendingDeadLetters(attempt, batch.ranges, _described(dead_files_of(attempt)), replaces=True)
        return before.after_replay(batch, owed)
    return _after_act(before, batch).with_attempt(attempt, batch.ranges)


def dead_files_of(attempt: str) -> frozenset[str]:
    """The dead-letter file of an attempt whose name says that it has one."""
    return frozenset({f"/lake/{attempt}.dead.parquet"}) if attempt.endswith("!") else frozenset()


def _described(files: frozenset[str]) -> tuple[WrittenFile, ...]:
    return tuple(map(written_file, sorted(files)))


def _after_act(before: Progress, batch: Batch) -> Progress:
    match batch.kind:
        case changes.ROLLBACK:
            rewind = Rewind({0: 0}, OffsetRanges.between({0: 0}, before.next_offsets), OffsetRanges(()))
            return rewind_progress(before, rewind, None, None, attempt=batch.attempt, reason="")
        case changes.DISCARD:
            passed = with_skipped(before.skipped, 0, batch.ranges, "")
            return replace(before, next_offsets={**before.next_offsets, **batch.ranges.ends}, skipped=passed)
        case changes.CANCEL:
            return replace(before, replay_epoch=before.replay_epoch + 1)
        case changes.ACCEPT:
            starts = {0: 0} if batch.generation > before.generation else None
            return follow_source(before, source_of(TOPIC_IDS.index(batch.topic_id or "")), starts)
        case _:
            return before


@cache
def source_of(topic: int) -> SourceState:
    """What Kafka says of a topic."""
    return SourceState("t", TOPIC_IDS[topic], "c", low={0: 0}, end={0: 1 << 20})


@cache
def generations_of(history: History) -> tuple[tuple[str, ...], ...]:
    """The rows of every generation, as ``rows_of``."""
    if not history:
        return ((),)
    before, batch = generations_of(history[:-1]), batch_of(history[-1].attempt)
    if batch.kind is changes.ACCEPT:
        return before if batch.generation < len(before) else (*before, ())
    is_late = batch.kind.writes_files and batch.generation != len(before) - 1
    assert not is_late, f"{batch.attempt} lands in a generation that is not its own"
    return (*before[:-1], rows_of(history))


@cache
def rows_of(history: History) -> tuple[str, ...]:
    """By offset the attempt whose row a reader sees, of the generation that goes on.

    A rollback goes back to the empty table.
    """
    if not history:
        return ()
    before, attempt = generations_of(history[:-1])[-1], history[-1].attempt
    start, end = bounds_of(attempt)
    match kind_of(attempt):
        case drain.DRAIN | changes.DISCARD:
            assert start == len(before), f"offset {min(start, len(before))} doubled or lost"
            return (
                *before,
                *((attempt if kind_of(attempt) is drain.DRAIN else SKIPPED),) * (end - start),
            )
        case replay.REPLAY:
            assert end <= len(before), f"offset {end - 1} is replayed before it is drained"
            return (*before[:start], *(attempt,) * (end - start), *before[end:])
        case changes.ROLLBACK:
            return ()
        case changes.ACCEPT:
            return generations_of(history)[-1]
        case _:
            return before


@cache
def named_files(history: History) -> frozenset[str]:
    """Every file that a snapshot names: all of them are kept."""
    return frozenset(file for commit in history for file in commit.files)


def check_table(world: World, gated: frozenset[int] = frozenset()) -> None:
    """Every offset once and in order, every named file there, nothing of ``gated`` that nobody published."""
    rows = rows_of(world.history)
    assert len(rows) == next_offset(world.history), "the offsets do not say what the table holds"
    missing = named_files(world.history) - world.storage
    assert not missing, f"the table names files that are gone: {set(missing)}"
    for offset, attempt in enumerate(rows):
        if offset in gated and attempt != SKIPPED:
            assert has_mark(objects_of(world, attempt), Phase.PUBLISHED), f"{attempt} was held and is there"


def next_offset(history: History) -> int:
    """Where the next drain begins."""
    return progress_of(history).next_offsets[0]


def objects_of(world: World, attempt: str) -> frozenset[str]:
    """Names of an attempt's log objects."""
    return frozenset(name for owner, name in world.log if owner == attempt)


def logged(world: World, attempt: str, entry: Entry, reached: int = 0) -> World:
    """The world with one more log object."""
    return world._replace(log=world.log | {(attempt, object_name(entry.phase, reached))})


def committed(world: World, commit: Commit) -> World:
    """The world with one more commit; requests whose comparison fails from now on change nothing any more."""
    return forget_hopeless(world._replace(history=(*world.history, commit)))


def arrived(world: World, request: Request) -> World:
    """The world once the catalog has seen the request."""
    landed = world.history
    if request.expected == len(landed):
        landed = (*landed, request.commit)
    return world._replace(history=landed, requests=world.requests - {request})


def forget_hopeless(world: World) -> World:
    """A request whose comparison fails for ever changes nothing any more."""
    alive = frozenset(r for r in world.requests if r.expected == len(world.history))
    return world if alive == world.requests else world._replace(requests=alive)


@cache
def attempt_of(attempt: str, names: frozenset[str], *, is_gated: bool) -> Attempt:
    """What the real log would give for these objects."""
    batch = batch_of(attempt)
    known: list[Entry] = [
        offset_commit(batch),
        FlushStart("", "", None),
        written(attempt, is_gated=is_gated),
        IcebergSnapshotCreated(1, "", 0),
    ]
    entries = [entry for entry in known if object_name(entry.phase, 0) in names]
    if has_mark(names, Phase.PUBLISHED):
        entries.append(Published("", "", "", 0))
    return Attempt(TABLE_UUID, attempt, batch, tuple(entries), (), reached_phase(names))


@cache
def written(attempt: str, *, is_gated: bool) -> ParquetWritten:
    """The fourth phase; a batch at a gated offset is held."""
    make = held_written if is_gated else parquet_written
    made = make(batch_of(attempt), {"path": f"{attempt}.parquet"})
    dead, balance = dead_files_of(attempt), made.balances[0]
    balances = {0: Balance(rows=balance.rows - len(dead), dead_letters=len(dead))}
    return replace(made, dead_letter_files=_described(dead), balances=balances)
