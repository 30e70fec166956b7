"""What Kafka says about a topic, and whether it is still the topic that was drained. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from spark_jobs.protocol.batch import Batch
from spark_jobs.protocol.errors import OffsetsUnavailable, SluiceError, fault
from spark_jobs.protocol.progress import Progress


@dataclass(frozen=True, slots=True)
class SourceState:
    """One look at a topic.

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
        """Return by partition how many offsets an open transaction holds back, where there is one."""
        return {p: high - self.end[p] for p, high in self.high.items() if high > self.end[p]}

    def positions(self, next_offsets: Mapping[int, int]) -> dict[int, int]:
        """Return where each partition is read from by a table with these next offsets.

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
    """Return what is said of records that nobody may read yet."""
    return f"held back by an open transaction: {records:,} record{'s' if records != 1 else ''}"


def check_identity(progress: Progress, source: SourceState, *, table: str | None = None) -> None:
    """Raise ``SourceChanged`` when the topic is another one than the table was filled from.

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
        raise _recreated(source, f"its partitions {gone} are gone", table)


def check_name(progress: Progress, source: SourceState, *, table: str | None = None) -> None:
    """Raise ``SourceChanged`` when the configuration names another topic than the table was filled from."""
    if progress.topic != source.topic:
        raise fault("another-topic", drained=progress.topic, table=table, topic=source.topic)


def has_other_ids(progress: Progress, source: SourceState | Batch) -> bool:
    """True if the topic or its cluster is another one than the table was filled from, by their ids."""
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
    """Return the error with which planning a drain of the table would stop, or None.

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
    """True if a partition that has something to read is led by another leader than at the last batch.

    False where either leader is not known: tables and brokers from before epochs were counted have none.
    """
    if partition not in progress.leader_epochs or partition not in source.leader_epochs:
        return False
    _, epoch = progress.leader_epochs[partition]
    waits = progress.next_offsets[partition] < source.end[partition]
    return waits and source.leader_epochs[partition] != epoch


def check_starts(starts: Mapping[int, int], source: SourceState) -> None:
    """Raise ``OffsetsUnavailable`` when reading a partition cannot begin at its offset in ``starts``."""
    for partition, start in sorted(starts.items()):
        _check_start(source, partition, start)


def _check_start(source: SourceState, partition: int, start: int) -> None:
    """Raise ``OffsetsUnavailable`` when reading cannot begin at ``start``."""
    low, end = source.low[partition], source.end[partition]
    if start < low:
        raise fault(
            "retention-passed", start=start, last=low - 1, low=low, topic=source.topic, partition=partition
        )
    if start > end:
        raise fault("log-truncated", end=end, start=start, topic=source.topic, partition=partition)
