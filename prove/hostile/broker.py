"""Hostile brokers: each case has one of its own."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any

from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from prove.hostile.case import Told, drained, put_right, refused, refused_awake, skipped
from prove.hostile.kafka import HALF, NAMED_THEN_SKIPPED, accepted, other_topic
from prove.hostile.own_kafka import OwnKafkaCase
from prove.lab.kafka_server import Record
from prove.lab.own_broker import own_broker
from prove.lab.pipeline_lab import orders
from prove.lab.server_folder import ServerFolder
from prove.stage import BATCH
from spark_jobs.kafka.reader import RangeReader
from spark_jobs.protocol.offsets import OffsetRange

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from prove.lab.own_broker import OwnBroker
    from prove.scenario import Scenario
    from prove.stage import Play

COMPACTION_SECONDS = 60.0
AWAY_SECONDS = 2.0
DEAD_LETTERS = 2  # of partition 0's half of a batch
ROWS_OF_ODD = 20  # of partition 1's, which has one dead letter and a tombstone
KEYED = 200
# Compaction leaves one of each of three keys, and what its newest segment holds.
FEW = 50
EAGERLY: dict[str, Any] = {"segment_ms": 100, "min_cleanable_dirty_ratio": 0.01, "max_compaction_lag_ms": 100}


def hostile_brokers() -> Iterator[Scenario]:
    """Every case, in the report's order."""
    yield from (case.scenario() for case in CASES)


def _killed(play: Play, broker: OwnBroker) -> Told:
    drained(play)
    play.produce_batch()
    with play.lab.stopped_at("split.after-chunk", once=str(play.folder / "slept")) as drain:
        broker.kill()
        drain.go_on()
        time.sleep(AWAY_SECONDS)
        # Partition 1 is still to be read: without a broker nobody can be done.
        assert not drain.receiver.poll(), f"it ended beside a dead broker: {drain.answer()}"
        broker.start()
        error = drain.answer().error
    assert error in {None, "broker-away"}, error
    ended = f"the run ended with {error}" if error else "the run went on"
    return put_right(ended, play)


def _damaged(play: Play, broker: OwnBroker) -> Told:
    drained(play)
    play.produce_batch()
    log = broker.log_of(play.lab.pipeline.topic, 0)
    place = log.read_bytes().rindex(b"customer")
    _write(log, place, b"C")
    ended = refused(play, "records-damaged")
    _write(log, place, b"c")
    return put_right(ended, play)


def _damaged_for_good(play: Play, broker: OwnBroker) -> Told:
    """Nothing can mend it: the operator leaves out what Kafka cannot give."""
    drained(play)
    play.produce_batch()
    log = broker.log_of(play.lab.pipeline.topic, 0)
    _write(log, log.read_bytes().rindex(b"customer"), b"C")
    ended = refused(play, "records-damaged")
    skipped(play, 0, HALF, 2 * HALF, HALF - DEAD_LETTERS)
    play.produced.dead_letters -= DEAD_LETTERS
    return put_right(ended, play, was_read=False)


def _write(path: Path, place: int, byte: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(place)
        file.write(byte)


def _truncated(play: Play, broker: OwnBroker) -> Told:
    _drain_and_cut(play, broker)
    ended = refused(play, "log-truncated")
    _count_next_generation(play)
    return accepted(play, ended, of_earlier=2 * BATCH)


def _truncated_while_read(play: Play, broker: OwnBroker) -> Told:
    """The plan is made, then partition 1 loses the second half of what it is to give."""
    topic = play.lab.pipeline.topic
    drained(play)
    play.produce_batch()
    size = broker.log_of(topic, 1).stat().st_size
    play.produce_batch()
    with play.lab.stopped_at("drain.after-flush-start") as drain:
        broker.cut(topic, 1, size)
        ended = refused_awake(drain, "log-truncated")
    assert play.lab.drained() == BATCH, "the table was committed to all the same"
    play.produced.rows -= ROWS_OF_ODD
    play.produced.dead_letters -= 1
    play.produced.tombstones -= 1
    return put_right(ended, play)


def _truncated_and_grown(play: Play, broker: OwnBroker) -> Told:
    """By its ends alone the log looks as if only new records had come, as in the other partition."""
    _drain_and_cut(play, broker)
    others = orders(0, 2 * BATCH)
    play.kafka.produce(
        play.lab.pipeline.topic, [Record(value, partition=n % 2) for n, value in enumerate(others)]
    )
    ended = refused(play, "log-truncated")
    _count_next_generation(play)
    play.produced.rows += len(others)
    return accepted(play, ended, of_earlier=2 * BATCH)


def _drain_and_cut(play: Play, broker: OwnBroker) -> None:
    """Two batches in the table, of the second one Kafka loses what was in partition 1."""
    topic = play.lab.pipeline.topic
    drained(play)
    size = broker.log_of(topic, 1).stat().st_size
    drained(play)
    broker.cut(topic, 1, size)


def _count_next_generation(play: Play) -> None:
    """It has them as well: all but partition 1's second half batch."""
    play.produced.rows += 60
    play.produced.dead_letters += 5
    play.produced.tombstones += 1


def _compacted(play: Play, _broker: OwnBroker) -> Told:
    topic = other_topic(play, cleanup_policy="compact", **EAGERLY)
    keyed = [Record(value, key=b"%d" % (n % 3), partition=0) for n, value in enumerate(orders(0, KEYED))]
    play.kafka.produce(topic, keyed)
    _wait_for_compaction(play, topic)
    play.produced.rows = left = _count(play, topic)
    play.work()
    rows = play.lab.rows().num_rows
    assert rows == left, f"{rows} rows of {left} records that compaction left"
    return Told(f"of {KEYED} records compaction left {left}: they are rows, the others are gaps")


def _wait_for_compaction(play: Play, topic: str) -> None:
    """Until few are left; one more record comes each time, so that a segment ends. Then none is compacted."""
    deadline = time.monotonic() + COMPACTION_SECONDS
    while _count(play, topic) > FEW:
        assert time.monotonic() < deadline, "nothing was compacted"
        play.kafka.produce(topic, [Record(orders(KEYED, 1)[0], key=b"0", partition=0)])
        time.sleep(0.3)
    kept = ConfigEntry("cleanup.policy", "delete", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[kept])
    client = AdminClient({"bootstrap.servers": play.kafka})
    client.incremental_alter_configs([resource])[resource].result(COMPACTION_SECONDS)


def _count(play: Play, topic: str) -> int:
    """Records of partition 0 that can be read."""
    with play.lab.connections() as connections:
        end = connections.admin.source_state(topic).end[0]
        reader = RangeReader(connections.kafka, topic, max_chunk_bytes=1 << 20, queue_bytes=4 << 20)
        try:
            return sum(len(chunk.offsets) for chunk in reader.read(OffsetRange(0, 0, end)))
        finally:
            reader.close()


def _own_broker(folder: Path) -> AbstractContextManager[OwnBroker]:
    return own_broker(ServerFolder(folder, "broker"))


BrokerCase = partial(OwnKafkaCase, opened=_own_broker)
CASES = (
    BrokerCase(
        "broker-killed",
        "the broker killed and started again while a task reads",
        "the run goes on, or ends with a named error and the next one reads the range again",
        _killed,
        may_read_again=(0, BATCH),
    ),
    BrokerCase(
        "batch-damaged",
        "a byte changed in the broker's log",
        "a named error and no commit; mended, it is read",
        _damaged,
        may_read_again=(BATCH,),
    ),
    BrokerCase(
        "batch-damaged/for-good",
        "a byte changed in the broker's log, and no copy of it",
        NAMED_THEN_SKIPPED,
        _damaged_for_good,
    ),
    BrokerCase(
        "log-truncated",
        "the log ends below what the table has",
        "a named error; once accepted, what is left is the next generation",
        _truncated,
    ),
    BrokerCase(
        "log-truncated/during",
        "the log is cut below what was planned, not below what the table has",
        "a named error and no commit; the next run takes what is there",
        _truncated_while_read,
        may_read_again=(BATCH + HALF,),
    ),
    BrokerCase(
        "log-truncated/and-grown",
        "the log is cut below what the table has, and grows past it before the next run",
        "a named error; once accepted, what is there is the next generation",
        _truncated_and_grown,
    ),
    BrokerCase(
        "compacted",
        "a compacted topic with gaps",
        "what compaction left is there, the rest is counted as gaps",
        _compacted,
    ),
)
