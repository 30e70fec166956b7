"""Hostile brokers; each case has its own."""

from __future__ import annotations

import time
from pathlib import Path

from prove.hostile.case import (
    History,
    expect_refusal,
    expect_refusal_awake,
    own_kafka_case,
    repair,
    skip_offsets,
)
from prove.hostile.kafka import HALF, NAMED_THEN_SKIPPED, accept, other_topic
from prove.lab.brokers import Brokers
from prove.lab.kafka_server import Record
from prove.lab.pipeline_lab import orders
from prove.lab.streams import COMPACTED_EAGERLY, compact, stream
from prove.workload import BATCH, LONG, Workload

AWAY_SECONDS = 2.0
DEAD_LETTERS = 2  # of partition 0's half of a batch
ROWS_OF_ODD = 20  # of partition 1's, which has one dead letter and a tombstone
KEYED = 200
# Compaction leaves one of each of three keys, and what its newest segment holds.
FEW = 50


def _kill(workload: Workload, broker: Brokers) -> History:
    workload.drain_and_produce_long()
    with workload.lab.stopped_at("split.after-chunk") as drain:
        broker.kill()
        drain.go_on()
        time.sleep(AWAY_SECONDS)
        # Partition 1 is still to be read: without a broker nobody can be done.
        assert not drain.receiver.poll(), f"it ended beside a dead broker: {drain.answer()}"
        broker.start()
        error = drain.answer().error
    assert error in {None, "broker-away"}, error
    ended = f"the run ended with {error}" if error else "the run went on"
    return repair(ended, workload)


def _damage(workload: Workload, broker: Brokers) -> History:
    workload.drain_and_produce()
    log = broker.log_of(workload.lab.pipeline.topic, 0)
    place = log.read_bytes().rindex(b"customer")
    _write(log, place, b"C")
    ended = expect_refusal(workload, "records-damaged")
    _write(log, place, b"c")
    return repair(ended, workload)


def _damage_for_good(workload: Workload, broker: Brokers) -> History:
    """Run a fault that cannot be repaired: the operator skips what Kafka cannot deliver."""
    workload.drain_and_produce()
    log = broker.log_of(workload.lab.pipeline.topic, 0)
    _write(log, log.read_bytes().rindex(b"customer"), b"C")
    ended = expect_refusal(workload, "records-damaged")
    skip_offsets(workload, 0, HALF, 2 * HALF, HALF - DEAD_LETTERS)
    workload.contents.dead_letters -= DEAD_LETTERS
    return repair(ended, workload, was_read=False)


def _write(path: Path, place: int, byte: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(place)
        file.write(byte)


def _truncate(workload: Workload, broker: Brokers) -> History:
    _drain_and_cut(workload, broker)
    ended = expect_refusal(workload, "log-truncated")
    _count_next_generation(workload)
    return accept(workload, ended, of_earlier=2 * BATCH)


def _truncate_while_read(workload: Workload, broker: Brokers) -> History:
    """Let a run plan, then truncate the second half of partition 1's records."""
    topic = workload.lab.pipeline.topic
    workload.drain_and_produce()
    size = broker.log_of(topic, 1).stat().st_size
    workload.produce_batch()
    with workload.lab.stopped_at("drain.after-flush-start") as drain:
        broker.cut(topic, 1, size)
        ended = expect_refusal_awake(drain, "log-truncated")
    assert workload.lab.drained() == BATCH, "the table was committed to all the same"
    workload.contents.rows -= ROWS_OF_ODD
    workload.contents.dead_letters -= 1
    workload.contents.tombstones -= 1
    return repair(ended, workload)


def _truncate_and_grow(workload: Workload, broker: Brokers) -> History:
    """Grow the log beyond its cut: by its end offsets, only new records came."""
    _drain_and_cut(workload, broker)
    others = orders(0, 2 * BATCH)
    workload.kafka.produce(
        workload.lab.pipeline.topic, [Record(value, partition=n % 2) for n, value in enumerate(others)]
    )
    ended = expect_refusal(workload, "log-truncated")
    _count_next_generation(workload)
    workload.contents.rows += len(others)
    return accept(workload, ended, of_earlier=2 * BATCH)


def _drain_and_cut(workload: Workload, broker: Brokers) -> None:
    """Commit two batches, then lose partition 1's records of the second in Kafka."""
    topic = workload.lab.pipeline.topic
    workload.drain_batches()
    size = broker.log_of(topic, 1).stat().st_size
    workload.drain_batches()
    broker.cut(topic, 1, size)


def _count_next_generation(workload: Workload) -> None:
    """Count the next generation's records, which include all but half of partition 1's second batch."""
    workload.contents.rows += 60
    workload.contents.dead_letters += 5
    workload.contents.tombstones += 1


def _compact(workload: Workload, _broker: Brokers) -> History:
    topic = other_topic(workload, **COMPACTED_EAGERLY)
    keyed = [Record(value, key=b"%d" % (n % 3), partition=0) for n, value in enumerate(orders(0, KEYED))]
    compact(workload.lab, workload.kafka, topic, keyed, few=FEW)
    workload.contents.rows = left = len(stream(workload.lab, topic, 0))
    workload.run()
    rows = workload.lab.rows().num_rows
    assert rows == left, f"{rows} rows of {left} records that compaction left"
    return History(f"of {KEYED} records compaction left {left}: they are rows, the others are gaps")


SCENARIOS = (
    own_kafka_case(
        "broker-killed",
        "the broker killed and started again while a task reads",
        "the run goes on, or ends with a named error and the next one reads the range again",
        _kill,
        may_read_again=(0, LONG),
    ),
    own_kafka_case(
        "batch-damaged",
        "a byte changed in the broker's log",
        "a named error and no commit; mended, it is read",
        _damage,
        may_read_again=(BATCH,),
    ),
    own_kafka_case(
        "batch-damaged/for-good",
        "a byte changed in the broker's log, and no copy of it",
        NAMED_THEN_SKIPPED,
        _damage_for_good,
    ),
    own_kafka_case(
        "log-truncated",
        "the log ends below what the table has",
        "a named error; once accepted, what is left is the next generation",
        _truncate,
    ),
    own_kafka_case(
        "log-truncated/during",
        "the log is cut below what was planned, not below what the table has",
        "a named error and no commit; the next run takes what is there",
        _truncate_while_read,
        may_read_again=(BATCH + HALF,),
    ),
    own_kafka_case(
        "log-truncated/and-grown",
        "the log is cut below what the table has, and grows past it before the next run",
        "a named error; once accepted, what is there is the next generation",
        _truncate_and_grow,
    ),
    own_kafka_case(
        "compacted",
        "a compacted topic with gaps",
        "what compaction left is there, the rest is counted as gaps",
        _compact,
    ),
)
