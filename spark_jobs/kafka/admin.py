"""Requests to a broker about many topics at once: offsets, ids, settings. Reads no records."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # public names that it does not list
    AdminClient,
    ConfigResource,
    NewTopic,
    OffsetSpec,
)

from spark_jobs.kafka.client_properties import admin_properties, new_client
from spark_jobs.kafka.errors import ClientTroubles, is_no_answer, is_no_topic, is_settling, translate
from spark_jobs.protocol.errors import SluiceError, fault
from spark_jobs.protocol.source import SourceState

if TYPE_CHECKING:
    from confluent_kafka.admin import (  # type: ignore[attr-defined]
        ClusterMetadata,
        ListOffsetsResultInfo,
        TopicDescription,
    )

_Key = TypeVar("_Key")
_Answer = TypeVar("_Answer")

_EARLIEST: OffsetSpec = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
_LATEST: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]
_UNCOMMITTED = IsolationLevel.READ_UNCOMMITTED

TIMEOUT_SECONDS = 10.0
# With every broker refusing connections for this long, waiting for the timeout tells nothing more.
ALL_DOWN_SECONDS = 3.0
SETTLING_SECONDS = 2.0
_POLL_SECONDS = 0.05
_ANY_TOPIC = "__consumer_offsets"
_NO_TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAA"  # sixteen zero bytes: a broker before 2.8


@dataclass(frozen=True, slots=True)
class _Position:
    topic: str
    partition: int
    spec: OffsetSpec
    isolation: IsolationLevel = IsolationLevel.READ_COMMITTED


class KafkaAdmin:
    """Admin client that keeps its connections; thread-safe like librdkafka's client."""

    def __init__(self, properties: Mapping[str, str], *, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        """Create the client without connecting. Raises ``ConfigError`` for wrong properties."""
        self._timeout_seconds = timeout_seconds
        self._properties = properties
        self._servers = properties.get("bootstrap.servers") or properties.get("metadata.broker.list")
        self._troubles = ClientTroubles()
        self._connected: AdminClient | None = self._connect()

    def source_state(self, topic: str) -> SourceState:
        """Return the state of one topic. Raises the errors that ``source_states`` returns."""
        state = self.source_states([topic])[topic]
        if isinstance(state, SluiceError):
            raise state
        return state

    def source_states(self, topics: Iterable[str]) -> dict[str, SourceState | SluiceError]:
        """Return the states of many topics in four rounds of requests; an error concerns its topic only.

        Raises ``RetryableError`` when the broker is away and ``ConfigError`` when it refuses the client.
        """
        names = sorted(set(topics))
        if not names:
            return {}
        limit = self._timeout_seconds
        described = self._ask(
            self._client.describe_topics(TopicCollection(names), request_timeout=limit), "looking up topics"
        )
        found = {name: d for name, d in described.items() if not isinstance(d, KafkaError)}
        states: dict[str, SourceState | SluiceError] = {
            name: self._topic_error(name, d) for name, d in described.items() if isinstance(d, KafkaError)
        }
        cluster_id = self._cluster_id(next(iter(found))) if found else None
        partitions = [(name, info.id) for name, d in found.items() for info in d.partitions]
        # First, on its own: what is written meanwhile would look like held back by a transaction.
        offsets = self._offsets(_Position(*each, _LATEST, _UNCOMMITTED) for each in partitions)
        offsets |= self._offsets(
            _Position(*each, spec) for each in partitions for spec in (_EARLIEST, _LATEST)
        )
        for name, description in found.items():
            try:
                low = self._of_topic(offsets, description, _EARLIEST)
                end = self._of_topic(offsets, description, _LATEST)
                high = self._of_topic(offsets, description, _LATEST, _UNCOMMITTED)
            except SluiceError as error:
                states[name] = error
            else:
                states[name] = SourceState(
                    name,
                    _topic_id(description),
                    cluster_id,
                    {partition: found.offset for partition, found in low.items()},
                    {partition: found.offset for partition, found in end.items()},
                    _leader_epochs(end),
                    {
                        partition: max(found.offset, end[partition].offset)
                        for partition, found in high.items()
                    },
                )
        return states

    def identity(self, topic: str) -> SourceState:
        """Return cluster and topic ids without offsets, in two rounds. Raises like ``source_state``."""
        described, cluster_id = self._described(topic, "looking up a topic"), self._cluster_id(topic)
        there = dict.fromkeys((info.id for info in described.partitions), 0)
        return SourceState(topic, _topic_id(described), cluster_id, low=there, end=there)

    def offsets_for_times(self, topic: str, timestamp_ms: int) -> dict[int, int]:
        """Return the first offset at or after a time by partition; partitions without one are left out."""
        spec = OffsetSpec.for_timestamp(timestamp_ms)
        description = self._described(topic, "looking up a topic")
        offsets = self._offsets(_Position(topic, info.id, spec) for info in description.partitions)
        found = self._of_topic(offsets, description, spec)
        return {partition: first.offset for partition, first in found.items() if first.offset >= 0}

    def log_end(self, topic: str, partition: int) -> int:
        """Return a partition's end offset, including open transactions."""
        position = _Position(topic, partition, _LATEST, _UNCOMMITTED)
        found = self._offsets([position])[position]
        if isinstance(found, KafkaError):
            raise self._topic_error(topic, found, partition=partition)
        return int(found.offset)

    def _described(self, topic: str, doing: str, **asked: bool) -> TopicDescription:
        limit = self._timeout_seconds
        answers = self._client.describe_topics(TopicCollection([topic]), request_timeout=limit, **asked)
        described: TopicDescription | KafkaError = self._ask(answers, doing)[topic]
        if isinstance(described, KafkaError):
            raise self._topic_error(topic, described)
        return described

    def rights(self, topic: str) -> frozenset[str]:
        """Return the operations that the broker allows this user on a topic, by its names (READ)."""
        described = self._described(topic, "asking for rights", include_authorized_operations=True)
        return frozenset(operation.name for operation in described.authorized_operations or ())

    def topics(self) -> frozenset[str]:
        """Return the names of all visible topics without Kafka's internal ones."""
        # A refusal is heard here, at once: what follows waits out its time and says nothing. Any topic does.
        asked = self._client.describe_topics(
            TopicCollection([_ANY_TOPIC]), request_timeout=self._timeout_seconds
        )
        self._ask(asked, "listing topics")
        names = self._metadata("listing topics").topics
        return frozenset(name for name in names if not name.startswith("__"))

    def make_topic(self, topic: str, partitions: int, settings: Mapping[str, str]) -> None:
        """Create a topic with the broker's default replication; an existing topic is kept.

        Raises ``ConfigError`` where the broker refuses it, and as ``source_states``.
        """
        new = NewTopic(topic, num_partitions=partitions, config=dict(settings))
        answer = self._ask(self._client.create_topics([new]), "making a topic")[topic]
        if isinstance(answer, KafkaError) and answer.code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise self._error(answer, "making a topic", right="Create", topic=topic)

    def topic_config(self, topic: str) -> dict[str, str]:
        """Return the topic's settings with the broker's defaults (``retention.ms``, ``cleanup.policy``)."""
        settings = self.topic_configs([topic])[topic]
        if isinstance(settings, SluiceError):
            raise settings
        return settings

    def topic_configs(self, topics: Iterable[str]) -> dict[str, dict[str, str] | SluiceError]:
        """Return the settings of many topics in one round of requests; an error concerns its topic only."""
        resources = [ConfigResource(ConfigResource.Type.TOPIC, topic) for topic in sorted(set(topics))]
        if not resources:
            return {}
        answers = self._client.describe_configs(resources, request_timeout=self._timeout_seconds)
        return {
            resource.name: self._topic_error(resource.name, entries, right="DescribeConfigs")
            if isinstance(entries, KafkaError)
            else {name: entry.value for name, entry in entries.items() if entry.value is not None}
            for resource, entries in self._ask(answers, "reading topics' settings").items()
        }

    def publish_group_offsets(self, group: str, topic: str, next_offsets: Mapping[int, int]) -> None:
        """Set a consumer group's offsets, for lag tools only: nothing in Sluice reads them back."""
        partitions = [TopicPartition(topic, p, offset) for p, offset in sorted(next_offsets.items())]
        doing = f"publishing offsets of group {group}"
        deadline = time.monotonic() + SETTLING_SECONDS
        while True:
            answers = self._client.alter_consumer_group_offsets(
                [ConsumerGroupTopicPartitions(group, partitions)], request_timeout=self._timeout_seconds
            )
            # Kafka refuses by partition. A cluster's first group waits for the topic that keeps its offsets.
            translated = self._one(answers[group], doing).topic_partitions or ()
            refused = next((partition.error for partition in translated if partition.error), None)
            if refused is None:
                return
            if not is_settling(refused) or time.monotonic() > deadline:
                raise self._error(refused, doing, right="Read", topic=topic)
            time.sleep(_POLL_SECONDS)

    def close(self) -> None:
        """Drop the connections; the object cannot be used afterwards."""
        del self._connected

    @property
    def _client(self) -> AdminClient:
        """Return the client, a new one after a refusal or when no broker answered.

        The old client may retry for long and report stale errors after a certificate or password is fixed.
        And librdkafka drops every broker that a fenced one does not name: left with none, a client never asks
        any broker again (its issue 5301).
        """
        if self._connected is None:
            self._troubles = ClientTroubles()
            self._connected = self._connect()
        return self._connected

    def _connect(self) -> AdminClient:
        return new_client(AdminClient, admin_properties(self._properties), self._troubles)

    def _cluster_id(self, topic: str) -> str | None:
        """Return the cluster id, from a request about an existing topic.

        Never by ``describe_cluster``: a broker that stood still for longer than its session is fenced for
        some heartbeats and names no broker, not even itself. Librdkafka 2.16 then ends the whole process.
        """
        cluster_id: str | None = self._metadata("asking which cluster it is", topic).cluster_id
        return cluster_id

    def _metadata(self, doing: str, topic: str | None = None) -> ClusterMetadata:
        try:
            return self._client.list_topics(topic, timeout=self._timeout_seconds)
        except KafkaException as error:
            raise self._error(error.args[0], doing) from error

    def _offsets(self, positions: Iterable[_Position]) -> dict[_Position, ListOffsetsResultInfo | KafkaError]:
        """Request all offsets; repeat for partitions whose leader is moving or new."""
        found: dict[_Position, ListOffsetsResultInfo | KafkaError] = {}
        missing: Collection[_Position] = list(positions)
        deadline = time.monotonic() + SETTLING_SECONDS
        while missing:
            found |= self._offsets_once(missing)
            missing = [p for p in missing if isinstance(e := found[p], KafkaError) and is_settling(e)]
            if time.monotonic() > deadline:
                break
            if missing:
                time.sleep(_POLL_SECONDS)
        return found

    def _offsets_once(
        self, positions: Collection[_Position]
    ) -> dict[_Position, ListOffsetsResultInfo | KafkaError]:
        futures: dict[_Position, Future[ListOffsetsResultInfo]] = {}
        for spec, isolation in {(position.spec, position.isolation) for position in positions}:
            asked = [p for p in positions if (p.spec, p.isolation) == (spec, isolation)]
            wanted = {TopicPartition(p.topic, p.partition): spec for p in asked}
            limit = self._timeout_seconds
            answers = self._client.list_offsets(wanted, isolation_level=isolation, request_timeout=limit)
            futures |= {_Position(t.topic, t.partition, spec, isolation): f for t, f in answers.items()}
        return self._ask(futures, "asking for offsets")

    def _of_topic(
        self,
        offsets: Mapping[_Position, ListOffsetsResultInfo | KafkaError],
        description: TopicDescription,
        spec: OffsetSpec,
        isolation: IsolationLevel = IsolationLevel.READ_COMMITTED,
    ) -> dict[int, ListOffsetsResultInfo]:
        result = {}
        for info in description.partitions:
            found = offsets[_Position(description.name, info.id, spec, isolation)]
            if isinstance(found, KafkaError):
                raise self._topic_error(description.name, found, partition=info.id)
            result[info.id] = found
        return result

    def _one(self, future: Future[_Answer], doing: str) -> _Answer:
        answer = self._ask({None: future}, doing)[None]
        if isinstance(answer, KafkaError):
            raise self._error(answer, doing)
        return answer

    def _ask(self, futures: Mapping[_Key, Future[_Answer]], doing: str) -> dict[_Key, _Answer | KafkaError]:
        """Wait for all answers; raise permanent errors at once, and if no broker answers."""
        self._client.poll(0)
        started = time.monotonic()
        while wait(futures.values(), timeout=_POLL_SECONDS).not_done:
            self._client.poll(0)
            waited = time.monotonic() - started
            if self._troubles.refused is not None:
                self._connected = None
                raise self._error(self._troubles.refused, doing)
            if self._troubles.are_all_down and waited > ALL_DOWN_SECONDS:
                raise self._error(KafkaError(KafkaError._ALL_BROKERS_DOWN), doing)  # noqa: SLF001
        answers: dict[_Key, _Answer | KafkaError] = {}
        for key, future in futures.items():
            try:
                answers[key] = future.result()
            except KafkaException as error:
                answers[key] = error.args[0]
        silent = [a for a in answers.values() if isinstance(a, KafkaError) and is_no_answer(a)]
        if len(silent) == len(answers):
            raise self._error(silent[0], doing)
        self._troubles.forget()
        return answers

    def _topic_error(
        self, topic: str, error: KafkaError, partition: int | None = None, *, right: str = "Describe"
    ) -> SluiceError:
        if not is_no_topic(error):
            return self._error(error, "asking about a topic", right=right, topic=topic, partition=partition)
        return fault("no-such-topic", name=topic, servers=self._servers)

    def _error(
        self, error: KafkaError, doing: str, *, right: str = "Describe", **where: object
    ) -> SluiceError:
        met = None
        if is_no_answer(error):
            self._connected = None
            # "Timed out" says less than what the connection attempts met meanwhile.
            met = self._troubles.refused or self._troubles.unreachable
        translated = translate(met or error, doing, right=right, servers=self._servers, **where)
        if translated.code != "tls-failed":
            return translated
        # librdkafka says of a certificate that has ended no more than that it is not to be verified.
        from spark_jobs.kafka.client_properties import ended_certificate  # noqa: PLC0415  (rarely, and slow to import)

        return ended_certificate(self._properties) or translated


def _leader_epochs(ends: Mapping[int, ListOffsetsResultInfo]) -> dict[int, int]:
    """Return leader epochs by partition; brokers without them answer nothing, or -1."""
    epochs = {partition: found.leader_epoch for partition, found in ends.items()}
    return {partition: epoch for partition, epoch in epochs.items() if epoch is not None and epoch >= 0}


def _topic_id(description: TopicDescription) -> str | None:
    topic_id = str(description.topic_id)
    return None if topic_id == _NO_TOPIC_ID else topic_id
