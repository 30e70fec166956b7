"""State of a Kafka topic, and whether it and a batch still match the table. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from spark_jobs.protocol.batch import Batch
from spark_jobs.protocol.errors import OffsetsUnavailable, SluiceError, fault
from spark_jobs.protocol.progress import PendingDeadLetters, Progress
from spark_jobs.protocol.texts import count


@dataclass(frozen=True, slots=True)
class SourceState:
    """State of a topic at one moment.

    ``low`` is the first offset Kafka still holds and ``end`` the last stable offset (exclusive: every
    transaction below it is decided), both by partition and over the same partitions. ``topic_id`` is None
    where the broker has none (before 2.8). ``leader_epochs`` are those of the leaders that gave the ends,
    where brokers count them (KIP-101): below its end a partition has no record of a later one. ``high`` are
    the high watermarks: from an end up to there an open transaction holds records back, its own and others'.
    """

    topic: str
    topic_id: str | None
    cluster_id: str | None
    low: dict[int, int] = field(default_factory=dict)
    end: dict[int, int] = field(default_factory=dict)
    leader_epochs: dict[int, int] = field(default_factory=dict)
    high: dict[int, int] = field(default_factory=dict)

    @property
    def undecided(self) -> dict[int, int]:
        """Number of offsets in an open transaction, by partition; only partitions that have one."""
        return {p: high - self.end[p] for p, high in self.high.items() if high > self.end[p]}

    def positions(self, next_offsets: Mapping[int, int]) -> dict[int, int]:
        """Return the offset from which each partition is read for a table with these next offsets.

        A partition it does not know was added since and begins at 0, also when Kafka does not hold that any
        more: what retention took before it was first read is missed like any other record. A table that is
        not made yet begins at the earliest offsets.
        """
        unknown = dict.fromkeys(self.end, 0) if next_offsets else self.low
        return {p: next_offsets.get(p, unknown[p]) for p in self.end}

    def lag(self, next_offsets: Mapping[int, int]) -> int:
        """Count the offsets from the positions up to the last stable ones."""
        return sum(max(0, self.end[p] - start) for p, start in self.positions(next_offsets).items())


def held_back(records: int) -> str:
    """Return a line about records in an open transaction."""
    return f"waiting for an open transaction: {count(records, 'record')}"


def check_identity(progress: Progress, source: SourceState, *, table: str | None = None) -> None:
    """Raise ``SourceChanged`` if the table was filled from another topic or cluster.

    Its name comes first; an id that either side lacks is not compared. Offsets mean nothing across such a
    change, so nothing may be read or committed until a person opens the next generation.
    """
    check_name(progress, source, table=table)
    if _differ(progress.cluster_id, source.cluster_id):
        raise fault(
            "cluster-moved",
            earlier=progress.cluster_id,
            table=table,
            topic=source.topic,
            cluster=source.cluster_id,
        )
    if _differ(progress.topic_id, source.topic_id):
        raise _recreated(source, f"its id was {progress.topic_id} and is {source.topic_id}", table)
    gone = sorted(set(progress.next_offsets) - set(source.end))
    if gone:
        # Kafka never takes partitions away from a topic, so even without ids this one is new.
        raise _recreated(source, f"its partitions {gone} no longer exist", table)


def check_name(progress: Progress, source: SourceState, *, table: str | None = None) -> None:
    """Raise ``SourceChanged`` if the table was filled from a topic of another name."""
    if progress.topic != source.topic:
        raise fault("another-topic", drained=progress.topic, table=table, topic=source.topic)


def has_other_ids(progress: Progress, source: SourceState | Batch) -> bool:
    """True if topic id or cluster id differ from those of the table."""
    return _differ(progress.cluster_id, source.cluster_id) or _differ(progress.topic_id, source.topic_id)


def _differ(before: str | None, now: str | None) -> bool:
    return bool(before and now and before != now)


def _recreated(source: SourceState, evidence: str, table: str | None) -> SluiceError:
    return fault("topic-recreated", evidence=evidence, table=table, topic=source.topic)


def drain_refusal(
    progress: Progress,
    source: SourceState,
    *,
    table: str,
    ask_leader: Callable[[int], OffsetsUnavailable | None] | None,
) -> SluiceError | None:
    """Return the error that planning a drain of the table would raise, or None.

    In this order: the source is another one (``SourceChanged``), Kafka does not hold a next offset, or its
    log was cut below one (``OffsetsUnavailable``). Only a partition's leader knows the last: ``ask_leader``
    gives its answer for one partition and may raise what asking raises; with None no leader is asked, and a
    log that was cut and grew again goes unnoticed here. What the table alone shows is for ``check_anchor``.
    """
    try:
        check_identity(progress, source, table=table)
        check_starts(source.positions(progress.next_offsets), source)
        if ask_leader is None:
            return None
        answers = map(ask_leader, sorted(progress.next_offsets))
        return next((cut for cut in answers if cut is not None), None)
    except SluiceError as error:
        return error


def has_new_leader(progress: Progress, source: SourceState, partition: int) -> bool:
    """True if a partition with records to read has another leader than at the last batch.

    False where either leader is not known: tables and brokers from before epochs were counted have none.
    """
    if partition not in progress.leader_epochs or partition not in source.leader_epochs:
        return False
    _, epoch = progress.leader_epochs[partition]
    waits = progress.next_offsets[partition] < source.end[partition]
    return waits and source.leader_epochs[partition] != epoch


def check_starts(starts: Mapping[int, int], source: SourceState) -> None:
    """Raise ``OffsetsUnavailable`` if a partition cannot be read from its offset in ``starts``."""
    for partition, start in sorted(starts.items()):
        low, end = source.low[partition], source.end[partition]
        where = {"topic": source.topic, "partition": partition}
        if start < low:
            raise fault("retention-passed", start=start, last=low - 1, low=low, **where)
        if start > end:
            raise fault("log-truncated", end=end, start=start, **where)


# What still fences a batch that has not landed: offsets, source, replay epoch, rollbacks.
#
# The dead-letter table, and each that rows are routed to, has a progress of its own: what a data table owes
# comes in once, and never late. What is said of dead letters here holds for routed rows.


def has_passed(progress: Progress, batch: Batch) -> bool:
    """True if the batch can never be committed: a new generation, or the fence of its work."""
    if progress.generation != batch.generation:
        return progress.generation > batch.generation
    return batch.kind.fence.has_closed(progress, batch.epoch, batch.ranges.starts)


def stands_at_starts(progress: Progress, batch: Batch) -> bool:
    """True if the table's next offsets are the batch's starts, and its source is the batch's.

    Never for a replay, which is behind them.
    """
    is_next = batch.kind.fence.is_next(progress, batch.epoch, batch.ranges.starts)
    return is_next and _is_same_source(progress, batch)


def is_in_epoch(progress: Progress, batch: Batch) -> bool:
    """True if the table has the batch's source and the replay epoch in which it was planned."""
    return _is_same_source(progress, batch) and progress.replay_epoch == batch.epoch


def may_replay(progress: Progress, batch: Batch) -> bool:
    """True if the table has the replay's epoch, and its offsets were drained."""
    return is_in_epoch(progress, batch) and all(
        end <= progress.next_offsets.get(p, 0) for p, end in batch.ranges.ends.items()
    )


def _is_same_source(progress: Progress, batch: Batch) -> bool:
    """True if offsets mean the same records in both; unknown ids are not compared.

    The table may have been given another topic or cluster since the plan and kept its generation.
    """
    return (progress.topic, progress.generation) == (batch.topic, batch.generation) and not has_other_ids(
        progress, batch
    )


def is_of_another_table(letters: Progress, progress: Progress) -> bool:
    """True if the dead letters belong to an earlier data table of this name: they are ahead without a reason.

    ``progress`` is no older than ``letters``; a rollback or a new source sets it back before they follow.
    """
    if letters.topic != progress.topic or letters.generation > progress.generation:
        return True
    if letters.generation < progress.generation or letters.replay_epoch < progress.replay_epoch:
        return False
    if letters.replay_epoch > progress.replay_epoch:
        return True
    known = letters.next_offsets
    return any(offset > progress.next_offsets.get(partition, offset) for partition, offset in known.items())


def still_pending(progress: Progress, letters: Progress | None) -> PendingDeadLetters | None:
    """Return the data table's pending dead letters, or None if ``letters`` shows them as added.

    It stays named in the data table until the next commit to that.
    """
    pending = progress.pending_dead_letters
    return None if pending is None or (letters and letters.has_landed(pending.attempt)) else pending


def still_pending_to(progress: Progress, table: str, routed: Progress) -> PendingDeadLetters | None:
    """Return the data table's pending rows for a routed table with this progress, or None."""
    pending = progress.owed_routes.by_table.get(table) if progress.owed_routes else None
    return None if pending is None or routed.has_landed(pending.attempt) else pending


def is_stale(letters: Progress, progress: Progress, pending: PendingDeadLetters) -> bool:
    """True if the dead letters were added long ago and the data table's ``progress`` is older than that.

    No later batch is committed before them, so the dead-letter table shows it: in offsets it has reached, or,
    for those that replace others, in the epoch that their own commit would have brought.
    """
    if letters.generation != progress.generation:
        return letters.generation > progress.generation
    if pending.replaces:
        return letters.replay_epoch >= progress.replay_epoch
    known = letters.next_offsets
    is_past = any(known.get(r.partition, r.start) > r.start for r in pending.ranges)
    return is_past or letters.replay_epoch > progress.replay_epoch


def may_come_late(letters: Progress | None, attempt: str) -> bool:
    """True if a swap with the landed attempt's dead letters may still arrive: they must not be deleted.

    Of a debt that the data table no longer names, too: somebody dropped the table they had come into, a run
    that knew the table as it was owed them once more, and its swap compares with the table made anew.
    """
    return letters is None or not letters.has_landed(attempt)


def with_dead_letters(letters: Progress, progress: Progress, pending: PendingDeadLetters) -> Progress:
    """Return the dead-letter table's progress after they are added; batches without any are skipped."""
    is_same = letters.generation == progress.generation
    known = letters.next_offsets if is_same else {}
    ends = {} if pending.replaces else pending.ranges.ends
    # After a rollback the data table stands below: what is drained again must not look committed here.
    reached = {p: min(offset, progress.next_offsets.get(p, offset)) for p, offset in (known | ends).items()}
    advanced = replace(
        progress,
        next_offsets=reached,
        earlier=letters.earlier if is_same else {**letters.earlier, letters.generation: letters.next_offsets},
        last_commits=letters.last_commits,
        pending_dead_letters=None,
        routes=(),
        owed_routes=None,
        routed_from=letters.routed_from,
        last_drain_offsets=None,  # a drain without dead letters leaves none here
    )
    return advanced.with_attempt(pending.attempt, pending.ranges)
