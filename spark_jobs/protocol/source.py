"""What Kafka says about a topic, and whether it is still the topic that was drained. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from spark_jobs.protocol import mends
from spark_jobs.protocol.batch import Batch
from spark_jobs.protocol.errors import SourceChanged
from spark_jobs.protocol.progress import Progress


@dataclass(frozen=True, slots=True)
class SourceState:
    """One look at a topic.

    ``low`` is the first offset Kafka still holds and ``end`` the last stable offset (exclusive: every
    transaction below it is decided), both by partition and over the same partitions. ``topic_id`` is None
    where the broker has none (before 2.8). ``leader_epochs`` are those of the leaders that gave the ends,
    where brokers count them (KIP-101): below its end a partition has no record of a later one.
    """

    topic: str
    topic_id: str | None
    cluster_id: str | None
    low: dict[int, int] = field(default_factory=dict)
    end: dict[int, int] = field(default_factory=dict)
    leader_epochs: dict[int, int] = field(default_factory=dict)

    def lag(self, next_offsets: Mapping[int, int]) -> int:
        """Count the offsets up to the last stable ones; a partition not named counts from its earliest."""
        return sum(max(0, end - next_offsets.get(p, self.low[p])) for p, end in self.end.items())


def check_identity(progress: Progress, source: SourceState, *, table: str | None = None) -> None:
    """Raise ``SourceChanged`` when the topic is another one than the table was filled from.

    An id that either side lacks is not compared. Offsets mean nothing across such a change, so nothing may
    be read or committed until a person opens the next generation.
    """
    if _differ(progress.cluster_id, source.cluster_id):
        raise SourceChanged(
            f"topic {source.topic} was drained from another Kafka cluster, {progress.cluster_id}",
            code="cluster-moved",
            hint="Point kafka.bootstrap.servers back at that cluster, or let the table follow:"
            f" {mends.command('source', 'PIPELINE')} shows whether its offsets continue,"
            " and with --accept goes on from there.",
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


def has_other_ids(progress: Progress, source: SourceState | Batch) -> bool:
    """True if the topic or its cluster is another one than the table was filled from, by their ids."""
    return _differ(progress.cluster_id, source.cluster_id) or _differ(progress.topic_id, source.topic_id)


def _differ(before: str | None, now: str | None) -> bool:
    return bool(before and now and before != now)


def _recreated(source: SourceState, evidence: str, table: str | None) -> SourceChanged:
    return SourceChanged(
        f"topic {source.topic} was deleted and created again: {evidence}",
        code="topic-recreated",
        hint="Its offsets start again from 0, so nothing was read."
        f" {mends.command('source', 'PIPELINE')} shows what changed;"
        " with --accept the table takes the new topic in as its next generation and keeps its rows.",
        table=table,
        topic=source.topic,
    )
