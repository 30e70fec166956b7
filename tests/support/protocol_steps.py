"""What runs of the protocol's model do, one step at a time: settle what is left, then drain or replay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from spark_jobs.protocol.source import has_passed
from spark_jobs.protocol.works.changes import ACCEPT, CANCEL
from spark_jobs.protocol.works.drain import DRAIN
from spark_jobs.protocol.works.replay import REPLAY
from spark_jobs.recovery.decide import Decision
from spark_jobs.txlog.entries import (
    Closed,
    FlushComplete,
    FlushStart,
    IcebergSnapshotCreated,
    Swept,
    reached_phase,
)
from tests.support.log_entries import offset_commit
from tests.support.protocol_dead_letters import (
    DeadLetterSteps,
    dead_files,
    dead_progress_of,
    finishing,
    pending_of,
)
from tests.support.protocol_sources import SourceSteps, is_another, mixed_files, planned_under
from tests.support.protocol_world import (
    Commit,
    Request,
    Run,
    World,
    arrived,
    attempt_name,
    batch_of,
    committed,
    dead_files_of,
    logged,
    named_files,
    next_offset,
    objects_of,
    progress_of,
    written,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.protocol_model import Model
    from tests.support.protocol_world import History


class Turn(NamedTuple):
    """Whose step it is, and when; only the fresh runs of ``settle`` come so late that attempts are closed."""

    name: str
    now_us: int = 0


@dataclass(frozen=True)
class Steps(DeadLetterSteps, SourceSteps):
    """The steps, under a model's rules."""

    model: Model

    def of(self, world: World, run: Run, turn: Turn) -> Iterator[tuple[World, Run]]:
        """The outcomes of a run's next step, the undisturbed one first; none when it has stopped."""
        if run.step != "stopped":
            yield from getattr(self, f"_{run.step}")(world, run, turn)

    def _start(self, world: World, run: Run, turn: Turn) -> Iterator[tuple[World, Run]]:
        if run.kind is ACCEPT and not self.model.rules.settles_before_accept:
            yield from self._compare(world, run, turn)
        elif self.model.broken:
            yield world, finishing(run, world.history, "list")
        else:
            yield from self._list(world, run, turn)

    def _finishing(self, run: Run, history: History, after: str) -> Run:
        """Bring in what is owed first, in a model that has dead letters."""
        return finishing(run, history, after) if self.model.broken else run._replace(step=after)

    def _list(self, world: World, run: Run, turn: Turn) -> Iterator[tuple[World, Run]]:
        kind = DRAIN if run.kind is ACCEPT else run.kind
        todo = self.model.due(world, now_us=turn.now_us, kind=kind)
        logs = tuple(objects_of(world, attempt) for attempt in todo)
        is_replay = run.kind is REPLAY
        yield world, run._replace(step="give_up" if is_replay else "look", todo=todo, logs=logs)

    def _give_up(self, world: World, run: Run, _turn: Turn) -> Iterator[tuple[World, Run]]:
        """Which replays may still land, and in which epoch the table is."""
        progress = progress_of(world.history)
        alive = [a for a in run.todo if not has_passed(progress, batch_of(a)) and not progress.has_landed(a)]
        step = "cancel" if alive else "look"
        yield world, run._replace(step=step, seen=progress.replay_epoch if alive else None)

    def _cancel(self, world: World, run: Run, turn: Turn) -> Iterator[tuple[World, Run]]:
        looking = run._replace(step="look", seen=None)
        if progress_of(world.history).replay_epoch > run.seen:
            yield world, looking
            return
        cancel = attempt_name(CANCEL, 0, 0, run.seen, f"{turn.name}.{run.begun}")
        yield committed(world, Commit(cancel)), looking

    def _look(self, world: World, run: Run, _turn: Turn) -> Iterator[tuple[World, Run]]:
        if run.todo:
            yield world, run._replace(step="judge", seen=world.history)
        else:
            then = "compare" if run.kind is ACCEPT else "plan"
            yield world, (stopped(run) if run.is_held else run._replace(step=then, seen=None))

    def _judge(self, world: World, run: Run, _turn: Turn) -> Iterator[tuple[World, Run]]:
        attempt, log = run.todo[0], run.logs[0]
        files = self.model.files_of(attempt)
        verdict = self.model.rules.decide(
            self.model.read_objects(attempt, log),
            progress_of(run.seen),
            has_all_files=lambda: files | dead_files_of(attempt) <= world.storage,
            names_its_files=lambda: bool(files & named_files(run.seen)),
        )
        match verdict.decision:
            case Decision.LEAVE:
                yield world, next_attempt(run)
            case Decision.HOLD:
                yield world, next_attempt(run)._replace(is_held=True)
            case Decision.MARK:
                yield world, self._finishing(run._replace(seen=None, marking=run.seen), run.seen, "mark")
            case Decision.ADOPT:
                commit = Commit(attempt, files)
                yield world, run._replace(step="load", commit=commit, is_adopting=True, seen=None)
            case Decision.SWEEP:
                yield world, run._replace(step="delete", seen=self._doomed(world, run.seen, attempt))

    def _doomed(self, world: World, loaded: History, attempt: str) -> tuple[str, ...]:
        """Files of the attempt that a sweep deletes."""
        found = sorted(f for f in world.storage if f"{attempt}." in f)
        pending = pending_of(loaded)
        owed = frozenset(file.path for file in pending.files) if pending else frozenset()
        named = named_files(loaded) | dead_files(world.dead)
        return self.model.rules.unnamed_files(found, named | owed)

    def _strays(self, world: World, loaded: History, attempt: str) -> tuple[str, ...]:
        """Files of an attempt that landed that its mark deletes."""
        letters = world.dead and dead_progress_of(world.dead)
        may_come = self.model.rules.may_come_late(letters, attempt)
        spared = dead_files_of(attempt) if may_come else frozenset()
        return tuple(file for file in self._doomed(world, loaded, attempt) if file not in spared)

    def _mark(self, world: World, run: Run, turn: Turn) -> Iterator[tuple[World, Run]]:
        if run.seen is None:
            yield world, run._replace(seen=self._strays(world, run.marking, run.todo[0]))
            return
        if run.seen:
            yield world._replace(storage=world.storage - {run.seen[0]}), run._replace(seen=run.seen[1:])
            return
        marked = logged(world, run.todo[0], IcebergSnapshotCreated(None, turn.name, 0))
        yield marked, run._replace(step="mark_complete", seen=None, marking=())

    def _mark_complete(self, world: World, run: Run, turn: Turn) -> Iterator[tuple[World, Run]]:
        yield logged(world, run.todo[0], FlushComplete({}, None, turn.name, 0)), next_attempt(run)

    def _delete(self, world: World, run: Run, turn: Turn) -> Iterator[tuple[World, Run]]:
        if run.seen:
            yield world._replace(storage=world.storage - {run.seen[0]}), run._replace(seen=run.seen[1:])
            return
        mark = Closed(0, turn.name, 0) if turn.now_us else Swept(0, turn.name, 0)
        yield logged(world, run.todo[0], mark, reached_phase(run.logs[0])), next_attempt(run)

    def _plan(self, world: World, run: Run, turn: Turn) -> Iterator[tuple[World, Run]]:
        progress = progress_of(world.history)
        reached = next_offset(world.history)
        is_done = reached == (0 if run.kind is REPLAY else self.model.end_of(world.topic))
        if is_done or is_another(progress, world.topic):
            yield world, stopped(run)
            return
        start, end, epoch = reached, reached + 1, progress.rollbacks
        if run.kind is REPLAY:
            start, end, epoch = 0, reached, progress.replay_epoch
        mark = "!" if self.model.broken & set(range(start, end)) else ""
        who, generation = f"{turn.name}.{run.begun}{mark}", progress.generation
        attempt = attempt_name(run.kind, start, end, epoch, who, generation=generation, topic=world.topic)
        commit = Commit(attempt, self.model.files_of(attempt))
        begun = logged(world, attempt, offset_commit(batch_of(attempt)))
        yield begun, Run("flush", run.kind, run.begun + 1, commit)

    def _flush(self, world: World, run: Run, _turn: Turn) -> Iterator[tuple[World, Run]]:
        yield logged(world, run.commit.attempt, FlushStart("", "", None)), run._replace(step="write")

    def _write(self, world: World, run: Run, _turn: Turn) -> Iterator[tuple[World, Run]]:
        attempt = run.commit.attempt
        files = run.commit.files | dead_files_of(attempt) | mixed_files(attempt, world.topic)
        there = world._replace(storage=world.storage | files)
        yield there, run._replace(step="log_written")

    def _log_written(self, world: World, run: Run, _turn: Turn) -> Iterator[tuple[World, Run]]:
        attempt = run.commit.attempt
        if self.model.rules.is_another(planned_under(attempt), world.topic):
            yield world, stopped(run)
            return
        is_gated = self.model.is_gated(attempt)
        known = logged(world, attempt, written(attempt, is_gated=is_gated))
        yield known, (stopped(run) if is_gated else run._replace(step="load"))

    def _load(self, world: World, run: Run, _turn: Turn) -> Iterator[tuple[World, Run]]:
        progress, commit, rules = progress_of(world.history), run.commit, self.model.rules
        may = rules.may_replay if run.kind is REPLAY else rules.may_commit
        if progress.has_landed(commit.attempt):
            yield world, run._replace(step="landed", seen=world.history)
        elif may(progress, batch_of(commit.attempt)):
            yield world, self._finishing(run._replace(seen=len(world.history)), world.history, "send")
        else:
            gone = commit.files if rules.deletes_on_conflict else frozenset()
            world = world._replace(storage=world.storage - gone)
            yield world, (next_attempt(run) if run.is_adopting else stopped(run))

    def _send(self, world: World, run: Run, _turn: Turn) -> Iterator[tuple[World, Run]]:
        request = Request(run.seen, run.commit)
        if request.expected == len(world.history):
            landed = arrived(world, request)
            yield landed, run._replace(step="landed", seen=landed.history)
            yield landed, run._replace(step="read_back", seen=None)
            on_its_way = world._replace(requests=world.requests | {request})
            yield on_its_way, run._replace(step="read_back", seen=None)
        else:
            yield world, run._replace(step="read_back", seen=None)

    def _read_back(self, world: World, run: Run, _turn: Turn) -> Iterator[tuple[World, Run]]:
        if progress_of(world.history).has_landed(run.commit.attempt):
            yield world, run._replace(step="landed", seen=world.history)
            return
        if self.model.rules.deletes_when_unknown:
            world = world._replace(storage=world.storage - run.commit.files)
        yield world, run._replace(step="load")  # refused: try the same files while the offsets stand
        yield world, stopped(run)  # unknown: the next recovery settles it

    def _landed(self, world: World, run: Run, turn: Turn) -> Iterator[tuple[World, Run]]:
        created = IcebergSnapshotCreated(1, turn.name, 0)
        known = logged(world, run.commit.attempt, created)
        yield known, self._finishing(run._replace(seen=None), run.seen, "complete")

    def _complete(self, world: World, run: Run, turn: Turn) -> Iterator[tuple[World, Run]]:
        done = logged(world, run.commit.attempt, FlushComplete({}, None, turn.name, 0))
        if run.is_adopting:
            yield done, next_attempt(run)
        elif run.kind is REPLAY:
            yield done, stopped(run)
        else:
            yield done, Run("plan", run.kind, run.begun)


def next_attempt(run: Run) -> Run:
    """The run once it is done with the first attempt of its list."""
    return Run("look", run.kind, run.begun, None, run.todo[1:], run.logs[1:], is_held=run.is_held)


def stopped(run: Run) -> Run:
    """The run once it has ended."""
    return Run("stopped", run.kind, run.begun)
