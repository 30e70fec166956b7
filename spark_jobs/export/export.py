"""An archive's records produced to a topic as they came: key, value, headers, timestamp and order.

The end of each of the topic's partitions says how far an export is, and nothing else: killed anywhere, the
same command goes on behind the last record that arrived. The producer is idempotent: none arrives twice, or
after a later one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from spark_jobs.export.archived import ArchivedRecord, archived_records
from spark_jobs.export.plan import ExportPlan, plan_export
from spark_jobs.export.target import Left, find_left, make_topic, refuse_taken
from spark_jobs.kafka.client_properties import new_client, producer_properties
from spark_jobs.kafka.errors import ClientTroubles, translate
from spark_jobs.protocol.errors import RetryableError
from spark_jobs.protocol.offsets import OffsetRange

if TYPE_CHECKING:
    from spark_jobs.config.settings import PipelineConfig
    from spark_jobs.connections.connect import Connections

_FLUSH_SECONDS = 60.0
_ROOM_SECONDS = 0.1
_RECORDS_A_LOOK = 100


@dataclass(frozen=True, slots=True)
class Exported:
    """What an export did: records that were there, and that it brought, by partition."""

    target: str
    ranges: tuple[OffsetRange, ...]
    there: dict[int, int]
    produced: dict[int, int]
    notes: tuple[str, ...] = ()


def export(
    pipeline: PipelineConfig,
    connections: Connections,
    target: str,
    ranges: Sequence[OffsetRange] = (),
    *,
    drained_by: Callable[[str], str | None] = lambda _topic: None,
    dry_run: bool = False,
    on_progress: Callable[[int, int], None] = lambda _done, _whole: None,
) -> Exported:
    """Bring the records of these ranges, all by default, that the topic ``target`` does not have yet.

    ``drained_by`` gives the pipeline that drains a topic. With ``dry_run`` nothing is produced, and
    ``Exported.produced`` is what would be. Safe to repeat. Raises as ``plan_export``, ``find_left`` and
    ``refuse_taken``, and ``RetryableError`` when the broker does not take a record.
    """
    refuse_taken(target, drained_by)
    plan = plan_export(pipeline, connections, ranges)
    left = find_left(plan, connections, target)
    there = {each.offsets.partition: each.there for each in left}
    lacking = {p: plan.records[p] - count for p, count in there.items()}
    if not dry_run:
        make_topic(connections, target, plan.partitions)
        _produce(plan, connections, target, left, on_progress)
    return Exported(target, plan.ranges, there, lacking, plan.notes)


def _produce(
    plan: ExportPlan,
    connections: Connections,
    target: str,
    left: Sequence[Left],
    on_progress: Callable[[int, int], None],
) -> None:
    producer = _OrderedProducer(connections.kafka, target)
    done, whole = 0, sum(plan.records[each.offsets.partition] - each.there for each in left)
    for each in left:
        for window, records in archived_records(plan.table, each.offsets, plan.generation):
            done += producer.send(window.partition, records)
            on_progress(done, whole)
            connections.fail_points.reach("export.after-window")
    producer.finish()


class _OrderedProducer:
    """Sends records one after the other; the first that is refused ends it."""

    def __init__(self, properties: dict[str, str], topic: str) -> None:
        self._topic = topic
        self._failure: KafkaError | None = None
        self._on_delivery = self._told  # one object, whatever is under way
        self._producer = new_client(Producer, producer_properties(properties), ClientTroubles())

    def send(self, partition: int, records: Iterable[ArchivedRecord]) -> int:
        """Hand records over, waiting for room, and return how many; raises what an earlier one met."""
        number, produce = 0, self._producer.produce
        for number, record in enumerate(records, 1):
            if number % _RECORDS_A_LOOK == 0:
                self._raise_failure()
            while True:
                try:
                    produce(
                        self._topic,
                        record.value,
                        record.key,
                        partition,
                        on_delivery=self._on_delivery,
                        timestamp=record.timestamp_ms,
                        headers=record.headers or None,
                    )
                    break
                except BufferError:
                    self._producer.poll(_ROOM_SECONDS)
                    self._raise_failure()
                except KafkaException as error:
                    raise translate(error.args[0], "producing a record", topic=self._topic) from error
        return number

    def finish(self) -> None:
        """Wait until all have arrived."""
        while waiting := self._producer.flush(_FLUSH_SECONDS):
            self._raise_failure()
            raise RetryableError(
                f"{waiting:,} records have not arrived within {_FLUSH_SECONDS:.0f} s",
                code="export-slow",
                hint="Run it again when the broker answers: it goes on behind the last that did.",
                topic=self._topic,
            )
        self._raise_failure()

    def _told(self, error: KafkaError | None, _message: Message) -> None:
        self._failure = self._failure or error

    def _raise_failure(self) -> None:
        self._producer.poll(0)
        if self._failure is not None:
            self._producer.purge()
            raise translate(self._failure, "producing a record", topic=self._topic)
