"""What a broker of one's own can show: compaction, refused rights, silence, and being away."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import replace
from threading import Event
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import OFFSET_INVALID, Consumer, TopicPartition
from confluent_kafka.admin import AclOperation, AclPermissionType, ResourceType

from prove.lab.brokers import Brokers, own_broker
from prove.lab.kafka_server import KafkaBroker, Record
from prove.lab.pipeline_lab import by_offset, make_lab
from prove.lab.rights import rule
from spark_jobs.kafka.admin import KafkaAdmin
from spark_jobs.kafka.reader import RangeReader
from spark_jobs.protocol.errors import ConfigError, OffsetsUnavailable, RetryableError
from spark_jobs.protocol.offsets import OffsetRange
from spark_jobs.replay.diff import diff_replay
from spark_jobs.replay.plan import is_compacted, plan_replay
from tests.support.new_lab import DEAD_LETTERS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import Any


pytestmark = pytest.mark.kafka

MIB = 1024 * 1024
# A segment that has ended is compacted at once; the one that is written to never is.
EAGERLY: dict[str, Any] = {
    "cleanup_policy": "compact",
    "segment_ms": 100,
    "min_cleanable_dirty_ratio": 0.01,
    "max_compaction_lag_ms": 100,
}


@pytest.fixture(scope="module")
def own_server(servers_folder: Path) -> Iterator[Brokers]:
    """A broker that compacts eagerly, knows rights, and may be stopped."""
    rights = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
    }
    with own_broker(servers_folder / "kafka-of-outages", **rights) as broker:
        yield broker


@pytest.fixture
def own_kafka(own_server: Brokers) -> KafkaBroker:
    """The same, as tests speak to it."""
    return KafkaBroker(own_server.bootstrap_servers)


def test_lag_tools_are_told_by_a_cluster_that_never_had_a_group(own_kafka: KafkaBroker) -> None:
    """Kafka refuses by partition while it makes the topic that keeps groups' offsets; it is asked again."""
    topic = own_kafka.new_topic(partitions=2)
    admin = KafkaAdmin({"bootstrap.servers": own_kafka})
    admin.publish_group_offsets("first", topic, {0: 0, 1: 3})
    assert _group_offsets(own_kafka, "first", topic) == [0, 3]
    admin.close()


def test_a_group_one_may_not_write_is_told(own_kafka: KafkaBroker) -> None:
    """The refusal names the right; what lag tools show stays as it was."""
    topic = own_kafka.new_topic(partitions=2)
    rule(own_kafka, "sluice-refused", AclOperation.READ, AclPermissionType.DENY, ResourceType.GROUP)
    rule(own_kafka, "sluice-refused", AclOperation.DESCRIBE, AclPermissionType.ALLOW, ResourceType.GROUP)
    admin = KafkaAdmin({"bootstrap.servers": own_kafka})
    with pytest.raises(ConfigError, match="sluice-refused") as raised:
        admin.publish_group_offsets("sluice-refused", topic, {0: 1, 1: 3})
    assert raised.value.code == "not-authorised"
    assert _group_offsets(own_kafka, "sluice-refused", topic) == [OFFSET_INVALID] * 2
    admin.close()


def test_a_kept_client_sees_the_next_leader(own_server: Brokers, own_kafka: KafkaBroker) -> None:
    """A sensor keeps its client for days; a broker refuses who still asks as if the old one led."""
    topic = own_kafka.new_topic()
    own_kafka.produce(topic, [b"0"])
    admin = KafkaAdmin({"bootstrap.servers": own_kafka})
    before = admin.source_state(topic)
    own_server.kill()
    own_server.start()
    own_kafka.produce(topic, [b"1"])
    after = admin.source_state(topic)
    assert (before.end, after.end) == ({0: 1}, {0: 2})
    assert after.leader_epochs[0] > before.leader_epochs[0]
    admin.close()


def test_a_log_that_was_cut_and_grew_on_is_not_taken_for_the_same(
    own_server: Brokers, own_kafka: KafkaBroker
) -> None:
    """A range says which leader wrote what is below it; where the log still has that, it is read."""
    topic = own_kafka.new_topic()
    own_kafka.produce(topic, [b"0", b"1", b"2"])
    size = own_server.log_of(topic, 0).stat().st_size
    own_kafka.produce(topic, [b"3", b"4"])
    epoch = _leader_epoch(own_kafka, topic)
    own_server.cut(topic, 0, size)
    own_kafka.produce(topic, [b"other"] * 6)

    def read(start: int, **known: int) -> list[bytes | None]:
        with closing(_reader(own_kafka, topic, 30)) as reader:
            chunks = list(reader.read(OffsetRange(0, start, 8), **known))
        return [value for chunk in chunks for value in chunk.values]

    with pytest.raises(OffsetsUnavailable, match="lost records below offset 5,") as caught:
        read(5, leader_epoch=epoch)
    assert caught.value.code == "log-truncated"
    assert read(3, leader_epoch=epoch) == [b"other"] * 5
    assert read(5, leader_epoch=_leader_epoch(own_kafka, topic)) == read(5) == [b"other"] * 3


def test_damage_behind_a_range_does_not_touch_it(own_kafka: KafkaBroker, own_server: Brokers) -> None:
    """What lies before a damaged batch can be read, and audited when the batch was skipped; it cannot."""
    topic = own_kafka.new_topic()
    for values in ([b"0", b"1", b"2"], [b"spoiled", b"4"]):
        own_kafka.produce(topic, values)
    log = own_server.log_of(topic, 0)
    log.write_bytes(log.read_bytes().replace(b"spoiled", b"SPOILED"))
    reader = _reader(own_kafka, topic, 30)
    read = [value for chunk in reader.read(OffsetRange(0, 0, 3)) for value in chunk.values]
    assert read == [b"0", b"1", b"2"]
    with pytest.raises(RetryableError) as caught:
        list(reader.read(OffsetRange(0, 0, 5)))
    assert caught.value.code == "records-damaged"
    reader.close()


def test_damage_behind_a_range_is_found_in_many_ways(own_kafka: KafkaBroker, own_server: Brokers) -> None:
    """Librdkafka goes on behind it wherever its parser stands; what it meets there is not the range's."""
    for records in (3, 22, 60, 200):
        topic = own_kafka.new_topic()
        for word in (b"whole", b"spoiled"):
            own_kafka.produce(topic, [b'{"n": %d, "word": "%s"}' % (n, word) for n in range(records)])
        log = own_server.log_of(topic, 0)
        log.write_bytes(log.read_bytes().replace(b"spoiled", b"SPOILED", 1))
        for _ in range(10):
            with closing(_reader(own_kafka, topic, 30)) as reader:
                read = reader.read(OffsetRange(0, 0, records))
                assert sum(len(chunk.offsets) for chunk in read) == records
            with closing(_reader(own_kafka, topic, 30)) as reader, pytest.raises(RetryableError) as caught:
                list(reader.read(OffsetRange(0, records, 2 * records)))
            assert caught.value.code == "records-damaged"


def test_a_client_that_does_not_close_is_not_waited_for(
    own_kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Librdkafka's thread may wait for itself; the task goes on, and says so."""
    monkeypatch.setattr("spark_jobs.kafka.client_properties.CLOSE_TIMEOUT_SECONDS", 0.1)
    reader = _reader(own_kafka, own_kafka.new_topic())
    never = Event()
    monkeypatch.setattr(reader, "_consumer", SimpleNamespace(close=never.wait))
    reader.close()
    assert "does not close" in caplog.text
    never.set()


def _leader_epoch(kafka: KafkaBroker, topic: str) -> int:
    admin = KafkaAdmin({"bootstrap.servers": kafka})
    (epoch,) = admin.source_state(topic).leader_epochs.values()
    admin.close()
    return epoch


def _reader(kafka: KafkaBroker, topic: str, read_timeout_seconds: float = 1) -> RangeReader:
    return RangeReader(
        {"bootstrap.servers": kafka},
        topic,
        max_chunk_bytes=MIB,
        queue_bytes=MIB,
        read_timeout_seconds=read_timeout_seconds,
    )


def _group_offsets(kafka: KafkaBroker, group: str, topic: str) -> list[int]:
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": group})
    committed = consumer.committed([TopicPartition(topic, 0), TopicPartition(topic, 1)], timeout=10)
    consumer.close()
    return [partition.offset for partition in committed]


def test_what_compaction_removed_is_a_gap(own_kafka: KafkaBroker) -> None:
    """Ranges over, before, inside and behind compacted offsets end by themselves with what is left."""
    topic = own_kafka.new_topic(**EAGERLY)
    own_kafka.produce(topic, [Record(b"%d" % i, key=b"%d" % (i % 3)) for i in range(200)])
    reader = _reader(own_kafka, topic)
    offsets = _compact(own_kafka, topic, reader)
    end = KafkaAdmin({"bootstrap.servers": own_kafka}).source_state(topic).end[0]
    assert offsets == sorted(set(offsets))
    assert offsets[-1] == end - 1
    assert len(offsets) < 50
    assert [o for chunk in reader.read(OffsetRange(0, 10, 20)) for o in chunk.offsets] == [
        o for o in offsets if 10 <= o < 20
    ]
    reader.close()


def _compact(kafka: KafkaBroker, topic: str, reader: RangeReader) -> list[int]:
    """Return the offsets that are left once the broker has compacted 200 records of three keys."""
    time.sleep(0.2)
    kafka.produce(topic, [Record(b"{}", key=b"last")])
    deadline = time.monotonic() + 60
    while True:
        offsets = [o for chunk in reader.read(OffsetRange(0, 0, 201)) for o in chunk.offsets]
        if len(offsets) < 50 or time.monotonic() > deadline:
            return offsets
        time.sleep(0.2)


def test_a_replay_of_compacted_offsets_loses_no_row_unasked(own_kafka: KafkaBroker, tmp_path: Path) -> None:
    """It is told up front and refused with counts; nothing is replaced, until somebody lets the rows go."""
    topic = own_kafka.new_topic(**EAGERLY)
    values = [b"no JSON" if i == 7 else b'{"id": %d}' % i for i in range(200)]
    own_kafka.produce(topic, [Record(value, key=b"%d" % (i % 3)) for i, value in enumerate(values)])
    lab = make_lab(tmp_path, bootstrap=own_kafka, topic=topic, spark_remote="sc://not.asked")
    lab = replace(lab, is_here=True)
    lab.drain()
    before = by_offset(lab), by_offset(lab, DEAD_LETTERS)
    reader = _reader(own_kafka, topic)
    left = [offset for offset in _compact(own_kafka, topic, reader) if offset < 200]
    reader.close()
    whole = OffsetRange(0, 0, 200)
    with lab.connections() as connections:
        assert is_compacted(lab.pipeline, connections)
        plan = plan_replay(lab.pipeline, connections, [whole])
        assert diff_replay(lab.pipeline, connections, plan).records_gone == 200 - len(left)
    with pytest.raises(OffsetsUnavailable) as refused:
        lab.replay(whole)
    assert refused.value.code == "replay-would-lose"
    assert f"{200 - len(left)} of 200 of 0:0-200 (first 0 1 2)" in refused.value.message
    assert (by_offset(lab), by_offset(lab, DEAD_LETTERS)) == before
    lab.replay(OffsetRange(0, left[-1], 200))
    assert by_offset(lab).keys() == before[0].keys()
    lab.replay(whole, force=True)
    assert sorted(offset for _, offset in by_offset(lab)) == left
    assert by_offset(lab, DEAD_LETTERS) == {}


@pytest.mark.parametrize("operation", [AclOperation.READ, AclOperation.DESCRIBE])
def test_a_topic_one_may_not_read_is_a_matter_for_a_person(
    own_kafka: KafkaBroker, operation: AclOperation
) -> None:
    """Without the right to read, or even to see, the error says which right is wanted."""
    topic = own_kafka.new_topic()
    own_kafka.produce(topic, [b"x"])
    rule(own_kafka, topic, operation, AclPermissionType.DENY)
    if operation is AclOperation.READ:
        rule(own_kafka, topic, AclOperation.DESCRIBE, AclPermissionType.ALLOW)
    reader = _reader(own_kafka, topic, read_timeout_seconds=20)
    with pytest.raises(ConfigError) as raised:
        list(reader.read(OffsetRange(0, 0, 1)))
    reader.close()
    assert raised.value.code == "not-authorised"
    assert f"the right {operation.name.capitalize()} " in raised.value.message
    if operation is AclOperation.DESCRIBE:
        with pytest.raises(ConfigError) as refused:
            KafkaAdmin({"bootstrap.servers": own_kafka}).source_state(topic)
        assert refused.value.code == "not-authorised"


def test_a_silent_broker_is_tried_again_later(own_kafka: KafkaBroker, own_server: Brokers) -> None:
    """A broker that accepts and does not answer ends a read by its timeout, and is no lost data."""
    topic = own_kafka.new_topic(partitions=2)
    own_kafka.produce(topic, [Record(b"x", partition=p) for p in range(2)])
    reader = _reader(own_kafka, topic)
    list(reader.read(OffsetRange(0, 0, 1)))
    with own_server.silent():
        with pytest.raises(RetryableError) as raised:
            list(reader.read(OffsetRange(1, 0, 1)))
        admin = KafkaAdmin({"bootstrap.servers": own_kafka}, timeout_seconds=1)
        with pytest.raises(RetryableError) as unanswered:
            admin.source_state(topic)
    assert raised.value.code == "broker-away"
    assert unanswered.value.code == "broker-away"
    assert [c.values for c in reader.read(OffsetRange(1, 0, 1))] == [[b"x"]]
    reader.close()


def test_a_broker_that_is_gone_is_tried_again_later(capfd: pytest.CaptureFixture[str]) -> None:
    """No connection at all is a fault that a later run may not meet; nothing is written to stderr."""
    reader = _reader(KafkaBroker("127.0.0.1:9"), "any")
    with pytest.raises(RetryableError) as raised:
        list(reader.read(OffsetRange(0, 0, 1)))
    reader.close()
    assert raised.value.code == "broker-away"
    assert "rdkafka" not in "".join(
        line for line in capfd.readouterr().err.splitlines() if "consumer" in line
    )
