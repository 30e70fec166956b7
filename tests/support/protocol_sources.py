"""A topic made anew, in the protocol's model: from an offset on it holds other records, under another id.

The steps of an operator's accept come after those of a recovery, which settles what is in flight first.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from spark_jobs.acts.accept_source import SourceComparison, refuse_moved
from spark_jobs.protocol.errors import CommitConflict, SourceChanged
from spark_jobs.protocol.source import check_identity
from spark_jobs.protocol.works.changes import ACCEPT
from spark_jobs.protocol.works.drain import DRAIN
from spark_jobs.txlog.entries import ParquetWritten
from tests.support.log_entries import make_progress
from tests.support.protocol_dead_letters import finishing
from tests.support.protocol_world import (
    SKIPPED,
    TOPIC_IDS,
    Commit,
    Request,
    arrived,
    attempt_name,
    batch_of,
    generations_of,
    kind_of,
    progress_of,
    rows_of,
    source_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_jobs.protocol.progress import Progress
    from tests.support.protocol_model import Model
    from tests.support.protocol_world import History, Run, World


def is_another(progress: Progress, topic: int) -> bool:
    """Whether Kafka's topic is another one than the table was filled from."""
    try:
        check_identity(progress, source_of(topic))
    except SourceChanged:
        return True
    return False


@cache
def planned_under(attempt: str) -> Progress:
    """The table's progress when the attempt was planned, as far as its source goes."""
    return replace(make_progress(), topic_id=batch_of(attempt).topic_id)


def topic_of(attempt: str) -> int:
    """The topic that the attempt's batch was planned to be read from."""
    return TOPIC_IDS.index(batch_of(attempt).topic_id or "")


def mixed_files(attempt: str, topic: int) -> frozenset[str]:
    """What shows that the attempt has read another topic than it was planned for."""
    is_mixed = topic_of(attempt) != topic
    return frozenset({f"{attempt}.mixed.parquet"}) if is_mixed else frozenset()


def is_same_record(offset: int, topics: set[int], fork: int) -> bool:
    """Whether all these topics hold the same record at the offset."""
    return offset < fork or len(topics) == 1


@cache
def topics_of(history: History) -> tuple[int, ...]:
    """The topic of every generation, the one that it was given last."""
    topics = [0]
    for commit in history:
        if kind_of(commit.attempt) is ACCEPT:
            topics[batch_of(commit.attempt).generation :] = [topic_of(commit.attempt)]
    return tuple(topics)


def check_sources(world: World, fork: int | None) -> None:
    """Every row is the record that its generation's topic has at its offset."""
    if fork is None:
        return
    for commit in world.history:
        is_mixed = f"{commit.attempt}.mixed.parquet" in world.storage
        assert not is_mixed, f"{commit.attempt} has records of two topics"
    for topic, rows in zip(topics_of(world.history), generations_of(world.history), strict=True):
        for offset, row in enumerate(rows):
            is_right = row == SKIPPED or is_same_record(offset, {topic, topic_of(row)}, fork)
            assert is_right, f"offset {offset} has the record of another topic, by {row}"


def whole_attempts(model: Model, world: World) -> frozenset[str]:
    """Drains that are written, verified and next: nobody but they may have their records any more."""
    progress = progress_of(world.history)
    where = (progress.generation, progress.topic_id, progress.rollbacks, progress.next_offsets)
    drains = {name for name, _ in world.log if kind_of(name) is DRAIN}
    whole = (batch_of(name) for name in drains if model.read(world, name).entry(ParquetWritten))
    return frozenset(
        batch.attempt
        for batch in whole
        if (batch.generation, batch.topic_id, batch.epoch, batch.ranges.starts) == where
    )


def comparison(history: History, topic: int, fork: int) -> SourceComparison:
    """The table's last rows against the topic's records."""
    rows, filled_from = rows_of(history), topics_of(history)[-1]
    same = sum(is_same_record(offset, {topic, filled_from}, fork) for offset in range(len(rows)))
    objections = () if same == len(rows) else ("not in the topic so",)
    return SourceComparison(progress_of(history), source_of(topic), len(rows), same, objections)


class SourceSteps:
    """The steps of an accept, once all else is settled: compare, load, swap."""

    model: Model

    def _compare(self, world: World, run: Run, turn: tuple[str, int]) -> Iterator[tuple[World, Run]]:
        seen = comparison(world.history, world.topic, self.model.fork or 0)
        if not seen.has_changed:
            yield world, over(run)
            return
        generation = seen.progress.generation + (not seen.continues)
        source = {"generation": generation, "topic": world.topic}
        commit = Commit(attempt_name(ACCEPT, 0, 0, 0, turn[0], **source))
        yield world, run._replace(step="accept", commit=commit, seen=world.history)

    def _accept(self, world: World, run: Run, _turn: object) -> Iterator[tuple[World, Run]]:
        compared = comparison(run.seen, world.topic, self.model.fork or 0)
        try:
            refuse_moved(progress_of(world.history), compared.progress, pipeline="p", table="t")
        except CommitConflict:
            yield world, over(run)
            return
        ready, then = run._replace(loaded=len(world.history)), "accept_send"
        owes = self.model.broken
        yield world, (finishing(ready, world.history, then) if owes else ready._replace(step=then))

    def _accept_send(self, world: World, run: Run, _turn: object) -> Iterator[tuple[World, Run]]:
        if run.loaded != len(world.history):
            yield world, run._replace(step="accept")
            return
        request = Request(run.loaded, run.commit)
        yield arrived(world, request), over(run)
        yield world._replace(requests=world.requests | {request}), over(run)


def over(run: Run) -> Run:
    """The run once it has ended."""
    return run._replace(step="stopped", commit=None, seen=None, loaded=0)
