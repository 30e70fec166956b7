"""Reading offset ranges from a real broker: everything readable, once, or a named error."""

from __future__ import annotations

import random
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from prove.lab.kafka_server import KafkaBroker, Record, unique_name
from spark_jobs.kafka.admin import KafkaAdmin
from spark_jobs.kafka.reader import Chunk, RangeReader
from spark_jobs.protocol.errors import ConfigError, OffsetsUnavailable, SourceChanged
from spark_jobs.protocol.offsets import OffsetRange
from spark_jobs.protocol.progress import Progress
from spark_jobs.protocol.source import check_identity

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.kafka

MIB = 1024 * 1024


@contextmanager
def _reader(kafka: KafkaBroker, topic: str, **options: int) -> Iterator[RangeReader]:
    settings = {"max_chunk_bytes": 4 * MIB, "queue_bytes": 8 * MIB, "read_timeout_seconds": 1, **options}
    reader = RangeReader({"bootstrap.servers": kafka}, topic, **settings)
    try:
        yield reader
    finally:
        reader.close()


def _read(kafka: KafkaBroker, topic: str, start: int, end: int, **options: int) -> list[Chunk]:
    with _reader(kafka, topic, **options) as reader:
        return list(reader.read(OffsetRange(0, start, end)))


def _values(chunks: list[Chunk]) -> list[bytes | None]:
    return [value for chunk in chunks for value in chunk.values]


def _numbers(count: int) -> list[bytes]:
    return [b"%d" % i for i in range(count)]


def _stable_end(kafka: KafkaBroker, topic: str) -> int:
    return KafkaAdmin({"bootstrap.servers": kafka}).source_state(topic).end[0]


@contextmanager
def _transactions(kafka: KafkaBroker) -> Iterator[Producer]:
    producer = Producer({"bootstrap.servers": kafka, "transactional.id": unique_name("tx")})
    producer.init_transactions(30)
    yield producer


def _transaction(producer: Producer, topic: str, values: list[bytes], *, is_committed: bool) -> None:
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value)
    producer.flush(10)
    (producer.commit_transaction if is_committed else producer.abort_transaction)(10)


def test_any_range_gives_exactly_its_records(kafka: KafkaBroker) -> None:
    """One reader goes over random ranges of several partitions, again and again, and never mixes them."""
    topic = kafka.new_topic(partitions=3)
    kafka.produce(topic, [Record(b"%d/%d" % (p, i), partition=p) for i in range(300) for p in range(3)])
    dice = random.Random(7)
    with _reader(kafka, topic, max_chunk_records=70) as reader:
        for _ in range(60):
            partition, start = dice.randrange(3), dice.randrange(300)
            end = dice.randint(start, 300)
            chunks = list(reader.read(OffsetRange(partition, start, end)))
            assert _values(chunks) == [b"%d/%d" % (partition, i) for i in range(start, end)]
            assert [o for chunk in chunks for o in chunk.offsets] == list(range(start, end))
            assert all(len(chunk.offsets) <= 70 for chunk in chunks)


def test_a_range_left_half_read_does_not_disturb_the_next(kafka: KafkaBroker) -> None:
    """Beginning a range forgets the one before, also when it is the same partition's continuation."""
    topic = kafka.new_topic()
    kafka.produce(topic, _numbers(1000))
    with _reader(kafka, topic, max_chunk_records=50) as reader:
        assert next(reader.read(OffsetRange(0, 0, 900))).offsets == list(range(50))
        assert _values(list(reader.read(OffsetRange(0, 10, 1000)))) == _numbers(1000)[10:]


def test_keys_headers_and_timestamps_arrive_as_they_are(kafka: KafkaBroker) -> None:
    """Null and empty keys and values, repeated, empty and null headers, and records without a time."""
    topic = kafka.new_topic(retention_ms=-1)  # two of the times are long past
    headers = [("a", b"1"), ("a", b"2"), ("", b""), ("none", None)]
    kafka.produce(
        topic,
        [
            Record(b"v", key=b"k", timestamp_ms=1_700_000_000_123, headers=headers),
            Record(None, key=None, timestamp_ms=-1),
            Record(b"", key=b"", timestamp_ms=1),
        ],
    )
    (chunk,) = _read(kafka, topic, 0, 3)
    assert chunk == Chunk(
        partition=0,
        offsets=[0, 1, 2],
        timestamps_ms=[1_700_000_000_123, -1, 1],
        keys=[b"k", None, b""],
        values=[b"v", None, b""],
        headers=[headers, None, None],
    )
    assert chunk.record_bytes == 2 + sum(len(name) + len(value or b"") for name, value in headers)


def test_messages_that_grow_suddenly_stay_in_bounded_chunks(kafka: KafkaBroker) -> None:
    """5 MB messages behind small ones are read whole; a chunk holds no more than its bound or one of them."""
    topic = kafka.new_topic(max_message_bytes=6 * MIB)
    small, large = [b"s" * 200] * 2000, [bytes([i]) * 5_000_000 for i in range(6)]
    kafka.produce(topic, small + large + small, **{"message.max.bytes": 6 * MIB, "compression.type": "lz4"})
    chunks = _read(kafka, topic, 0, 4006, read_timeout_seconds=20)
    assert _values(chunks) == small + large + small
    assert all(chunk.record_bytes <= 4 * MIB or len(chunk.offsets) == 1 for chunk in chunks)


def test_transactions_are_read_when_committed(kafka: KafkaBroker) -> None:
    """Committed records arrive; aborted ones and all markers are gaps, also as the end of the range."""
    topic = kafka.new_topic()
    with _transactions(kafka) as producer:
        _transaction(producer, topic, [b"a", b"b"], is_committed=True)  # 0, 1, marker 2
        _transaction(producer, topic, [b"x", b"y"], is_committed=False)  # 3, 4, marker 5
        _transaction(producer, topic, [b"c"], is_committed=True)  # 6, marker 7
        _transaction(producer, topic, [b"z"], is_committed=False)  # 8, marker 9
    assert _stable_end(kafka, topic) == 10
    with _reader(kafka, topic) as reader:
        chunks = list(reader.read(OffsetRange(0, 0, 10)))
        assert [o for chunk in chunks for o in chunk.offsets] == [0, 1, 6]
        assert _values(chunks) == [b"a", b"b", b"c"]
        for start, end, values in [
            (2, 3, []),
            (2, 6, []),
            (3, 7, [b"c"]),
            (8, 10, []),
            (9, 10, []),
            (5, 8, [b"c"]),
        ]:
            assert _values(list(reader.read(OffsetRange(0, start, end)))) == values


def test_an_open_transaction_holds_the_end(kafka: KafkaBroker) -> None:
    """Nothing at or past the first undecided record is planned, and what is before it is read whole."""
    topic = kafka.new_topic()
    kafka.produce(topic, [b"a", b"b"])
    with _transactions(kafka) as producer:
        producer.begin_transaction()
        producer.produce(topic, b"undecided")
        producer.flush(10)
        kafka.produce(topic, [b"after"])
        assert _stable_end(kafka, topic) == 2
        assert _values(_read(kafka, topic, 0, 2)) == [b"a", b"b"]
        producer.commit_transaction(10)
    assert _values(_read(kafka, topic, 2, _stable_end(kafka, topic))) == [b"undecided", b"after"]


def test_retention_that_passed_the_start_is_an_error(kafka: KafkaBroker) -> None:
    """Records that are gone are named, not skipped; the error is the same when all the range is gone."""
    topic = kafka.new_topic()
    kafka.produce(topic, _numbers(100))
    kafka.delete_records(topic, {0: 60})
    for start, end in [(0, 100), (59, 100), (0, 50)]:
        with pytest.raises(OffsetsUnavailable) as raised:
            _read(kafka, topic, start, end)
        assert raised.value.code == "retention-passed"
        assert f"{start} to 59" in raised.value.message
    assert _values(_read(kafka, topic, 60, 100)) == _numbers(100)[60:]


def test_retention_that_passes_the_position_during_a_read_is_an_error(kafka: KafkaBroker) -> None:
    """What was delivered before does not make the rest of the range less lost."""
    topic = kafka.new_topic(segment_bytes=MIB, max_message_bytes=600_000)
    value = random.Random(1).randbytes(500_000)
    kafka.produce(topic, [value] * 40)
    with _reader(kafka, topic, max_chunk_bytes=600_000, queue_bytes=600_000) as reader:
        chunks = reader.read(OffsetRange(0, 0, 40))
        assert next(chunks).offsets == [0]
        kafka.delete_records(topic, {0: 39})
        with pytest.raises(OffsetsUnavailable) as raised:
            list(chunks)
    assert raised.value.code == "retention-passed"


def test_a_gap_before_the_first_record_is_lost_only_when_retention_came_by(kafka: KafkaBroker) -> None:
    """A range that begins with a marker is fine; once its start has been removed nobody can tell."""
    topic = kafka.new_topic()
    with _transactions(kafka) as producer:
        _transaction(producer, topic, [b"a"], is_committed=True)  # 0, marker 1
        _transaction(producer, topic, [b"b"], is_committed=True)  # 2, marker 3
    with _reader(kafka, topic, max_chunk_records=1) as reader:
        assert _values(list(reader.read(OffsetRange(0, 1, 4)))) == [b"b"]
        chunks = reader.read(OffsetRange(0, 1, 4))
        assert next(chunks).offsets == [2]
        kafka.delete_records(topic, {0: 2})
        with pytest.raises(OffsetsUnavailable) as raised:
            list(chunks)
        assert raised.value.code == "retention-passed"
        kafka.delete_records(topic, {0: 3})
        with pytest.raises(OffsetsUnavailable):
            list(reader.read(OffsetRange(0, 2, 4)))


def test_a_range_that_began_at_its_start_is_done_whatever_retention_does_next(kafka: KafkaBroker) -> None:
    """Removal behind the reader is no loss."""
    topic = kafka.new_topic()
    kafka.produce(topic, _numbers(20))
    with _reader(kafka, topic, max_chunk_records=10) as reader:
        chunks = reader.read(OffsetRange(0, 0, 20))
        first = next(chunks)
        kafka.delete_records(topic, {0: 5})
        assert _values([first, *chunks]) == _numbers(20)


@pytest.mark.parametrize("start", [0, 10, 30])
def test_a_log_that_ends_below_the_range_is_an_error(kafka: KafkaBroker, start: int) -> None:
    """A truncated log is neither waited for for ever nor taken for complete."""
    topic = kafka.new_topic()
    kafka.produce(topic, _numbers(10))
    with pytest.raises(OffsetsUnavailable) as raised:
        _read(kafka, topic, start, 40)
    assert raised.value.code == "log-truncated"
    assert "offset 10" in raised.value.message


def test_a_topic_that_is_gone_is_an_error(kafka: KafkaBroker) -> None:
    """Deleted between plan and read."""
    topic = kafka.new_topic()
    kafka.produce(topic, _numbers(10))
    kafka.delete_topic(topic)
    with pytest.raises(SourceChanged) as raised:
        _read(kafka, topic, 0, 10, read_timeout_seconds=30)
    assert raised.value.code == "topic-gone"


def test_a_topic_recreated_during_a_read_is_noticed_at_the_end(kafka: KafkaBroker) -> None:
    """The read may mix old and new records or fail; the identity compared after it always tells."""
    admin = KafkaAdmin({"bootstrap.servers": kafka})
    topic = kafka.new_topic(max_message_bytes=600_000)
    old, new = [b"o" * 500_000] * 30, [b"n" * 500_000] * 30
    kafka.produce(topic, old)
    before = admin.source_state(topic)
    with _reader(
        kafka, topic, max_chunk_bytes=600_000, queue_bytes=600_000, read_timeout_seconds=20
    ) as reader:
        chunks = reader.read(OffsetRange(0, 0, 30))
        assert next(chunks).values == [old[0]]
        kafka.delete_topic(topic)
        kafka.create_topic(topic, max_message_bytes=600_000)
        kafka.produce(topic, new)
        with suppress(SourceChanged, OffsetsUnavailable):
            list(chunks)
    after = admin.source_state(topic)
    progress = Progress(topic, 0, {0: 0}, cluster_id=before.cluster_id, topic_id=before.topic_id)
    with pytest.raises(SourceChanged) as raised:
        check_identity(progress, after)
    assert raised.value.code == "topic-recreated"


def test_wrong_properties_are_refused_before_anything_is_read(kafka: KafkaBroker) -> None:
    """What keeps records whole cannot be switched off on the way."""
    with pytest.raises(ConfigError, match=r"isolation\.level"):
        RangeReader(
            {"bootstrap.servers": kafka, "isolation.level": "read_uncommitted"},
            "any",
            max_chunk_bytes=MIB,
            queue_bytes=MIB,
        )


def test_short_ranges_are_read_at_one_go(kafka: KafkaBroker) -> None:
    """In the ranges' order and nothing else, over gaps and past ends, again and again by one reader."""
    topic = kafka.new_topic(partitions=20)
    kafka.produce(topic, [Record(b"%d/%d" % (p, i), partition=p) for i in range(40) for p in range(19)])
    with _transactions(kafka) as producer:
        for is_committed in (False, True):
            producer.begin_transaction()
            producer.produce(topic, b"19/%d" % is_committed, partition=19)
            producer.flush(10)
            (producer.commit_transaction if is_committed else producer.abort_transaction)(10)
    dice = random.Random(7)
    with _reader(kafka, topic, max_chunk_records=70) as reader:
        for _ in range(20):
            ranges = [OffsetRange(p, s := dice.randrange(40), dice.randint(s + 1, 40)) for p in range(19)]
            dice.shuffle(ranges)
            chunks = list(reader.read_together([*ranges, OffsetRange(19, 0, 4)]))
            assert _values(chunks) == [
                b"%d/%d" % (each.partition, i) for each in ranges for i in range(each.start, each.end)
            ] + [b"19/1"]
            assert all(len(chunk.offsets) <= 70 for chunk in chunks)
            assert len(chunks) < len(ranges)


def test_short_ranges_too_large_to_be_held_are_read_one_by_one(kafka: KafkaBroker) -> None:
    """Records of megabytes: no chunk holds more than its bound or one of them."""
    topic = kafka.new_topic(partitions=4)
    values = [bytes([p, i]) * 200_000 for p in range(4) for i in range(3)]
    kafka.produce(topic, [Record(value, partition=value[0]) for value in values])
    with _reader(kafka, topic, max_chunk_bytes=MIB, read_timeout_seconds=20) as reader:
        chunks = list(reader.read_together([OffsetRange(p, 0, 3) for p in range(4)]))
    assert _values(chunks) == values
    assert all(chunk.record_bytes <= MIB for chunk in chunks)


def test_what_is_lost_of_one_of_many_ranges_is_an_error(kafka: KafkaBroker) -> None:
    """Removed by retention, or beyond the log's end: named with the partition, however the others are."""
    topic = kafka.new_topic(partitions=5)
    kafka.produce(topic, [Record(b"x", partition=p) for p in range(5) for _ in range(10)])
    ranges = [OffsetRange(p, 0, 10) for p in range(5)]
    with _reader(kafka, topic) as reader:
        with pytest.raises(OffsetsUnavailable, match="3:0-40") as beyond:
            list(reader.read_together([*ranges[:3], OffsetRange(3, 0, 40), ranges[4]]))
        assert beyond.value.code == "log-truncated"
        assert len(_values(list(reader.read_together(ranges)))) == 50
        kafka.delete_records(topic, {2: 6})
        with pytest.raises(OffsetsUnavailable, match="2:0-10") as gone:
            list(reader.read_together(ranges))
    assert gone.value.code == "retention-passed"
