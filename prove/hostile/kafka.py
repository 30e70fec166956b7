"""Hostile topics: transactions, retention, new partitions, re-creation, any size, any timestamp."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions

from prove.hostile.case import (
    Case,
    History,
    expect_refusal,
    expect_refusal_awake,
    repair,
    scenarios,
    skip_offsets,
)
from prove.lab.kafka_server import Record, unique_name
from prove.lab.pipeline_lab import PIPELINE, configure, orders
from prove.workload import BATCH, LONG, PARTITIONS, Workload

MIB = 1024 * 1024
TIMEOUT_SECONDS = 30.0
HALF = BATCH // PARTITIONS  # a partition's next offset after one batch
TAKEN = 8  # records retention takes of the next batch, orders all of them
YEAR_3000_MS = 32_503_680_000_000
ANY_TIME: dict[str, Any] = {
    "message_timestamp_before_max_ms": 2**63 - 1,
    "message_timestamp_after_max_ms": 2**63 - 1,
}
RECREATED = ("topic-recreated", "topic-gone")
NAMED_THEN_SKIPPED = "a named error and no commit; once the operator skips them, all others are there"
NAMED_THEN_ACCEPTED = "a named error and no commit; once accepted, the new topic is the next generation"


def _produce_transactions(workload: Workload) -> History:
    workload.drain_batches()
    producer = Producer({"bootstrap.servers": workload.kafka, "transactional.id": unique_name("tx")})
    producer.init_transactions(TIMEOUT_SECONDS)
    _begin(producer, workload, 10)
    producer.commit_transaction(TIMEOUT_SECONDS)
    _begin(producer, workload, 10)
    producer.abort_transaction(TIMEOUT_SECONDS)
    _begin(producer, workload, 10)
    workload.contents.rows += 10
    workload.run()
    before = workload.lab.rows().num_rows
    assert before == workload.contents.rows, f"{before} rows while a transaction is open"
    producer.commit_transaction(TIMEOUT_SECONDS)
    workload.contents.rows += 10
    workload.run()
    return History("the aborted ones never came, the open one's records when it was committed")


def _begin(producer: Producer, workload: Workload, count: int) -> None:
    producer.begin_transaction()
    for n, value in enumerate(orders(100, count)):
        producer.produce(workload.lab.pipeline.topic, value, partition=n % PARTITIONS)
    producer.flush(TIMEOUT_SECONDS)


def _retain_before(workload: Workload) -> History:
    workload.drain_and_produce()
    workload.kafka.delete_records(workload.lab.pipeline.topic, {0: HALF + TAKEN})
    ended = expect_refusal(workload, "retention-passed")
    skip_offsets(workload, 0, HALF, HALF + TAKEN, TAKEN)
    return repair(ended, workload, was_read=False)


def _retain_during(workload: Workload) -> History:
    workload.drain_and_produce_long()
    with workload.lab.stopped_at("split.after-chunk") as drain:
        # Partition 0 is being read, partition 1 is next.
        workload.kafka.delete_records(workload.lab.pipeline.topic, {1: HALF + TAKEN})
        ended = expect_refusal_awake(drain, "retention-passed")
    skip_offsets(workload, 1, HALF, HALF + TAKEN, TAKEN)
    workload.contents.tombstones -= 1  # the first batch's: it went as well, and no table shows it
    return repair(ended, workload)


def _add_partitions(workload: Workload) -> History:
    workload.drain_batches()
    topic = workload.lab.pipeline.topic
    admin = AdminClient({"bootstrap.servers": workload.kafka})
    admin.create_partitions([NewPartitions(topic, 2 * PARTITIONS)])[topic].result(TIMEOUT_SECONDS)
    values = orders(100, 20)
    workload.kafka.produce(
        topic, [Record(v, partition=PARTITIONS + n % PARTITIONS) for n, v in enumerate(values)]
    )
    workload.contents.rows += len(values)
    workload.run()
    assert workload.lab.rows().num_rows == workload.contents.rows
    return History("read from their first record by the next drain")


def _recreate_before(workload: Workload) -> History:
    workload.drain_batches()
    _recreate(workload)
    return accept(workload, expect_refusal(workload, "topic-recreated"))


def _recreate_at(point: str, codes: tuple[str, ...], workload: Workload) -> History:
    workload.drain_batches()
    lost = _produce_lost_batch(workload)
    with workload.lab.stopped_at(point) as drain:
        _recreate(workload)
        ended = expect_refusal_awake(drain, *codes)
    return accept(workload, f"{ended} ({lost} records went with the topic)")


def _produce_lost_batch(workload: Workload) -> int:
    """Produce a batch that is deleted with its topic before it is drained."""
    kept = (workload.contents.rows, workload.contents.dead_letters, workload.contents.tombstones)
    workload.produce_long_batch()
    workload.contents.rows, workload.contents.dead_letters, workload.contents.tombstones = kept
    return LONG


def _recreate(workload: Workload) -> None:
    workload.recreate_topic()
    workload.produce(orders(200, 60))


def accept(workload: Workload, ended: str, *, of_earlier: int = BATCH) -> History:
    """Accept the topic as the table's next generation, as an operator does, and drain it."""
    answer = workload.lab.start(work="accept").answer()
    assert answer.error is None, answer.message
    assert answer.repairs.committed, "the command would leave it alone"
    return repair(ended, workload, was_read=False, of_earlier=of_earlier)


def other_topic(workload: Workload, *, nodes: Sequence[int] = (1,), **config: object) -> str:
    """Give the pipeline a new topic with these settings; the first node leads all partitions."""
    topic = workload.kafka.new_topic(PARTITIONS, nodes=nodes, retention_ms=-1, **config)
    configure(workload.lab, f"pipelines/{PIPELINE}", {"topic": topic})
    return topic


def _produce_large(workload: Workload) -> History:
    topic = other_topic(workload, max_message_bytes=8 * MIB)
    workload.drain_batches()
    small, large = orders(0, 3), b'{"id": 1, "customer": "%s"}' % (b"x" * 5 * MIB)
    headers = [(f"h{n}", b"v" * 512) for n in range(2000)]
    records = [
        Record(large),
        Record(small[0], headers=[("h", b"v" * 3 * MIB)]),
        Record(small[1], headers=headers),
    ]
    workload.kafka.produce(topic, records, **{"message.max.bytes": 8 * MIB})
    workload.contents.rows += len(records)
    workload.run()
    rows = workload.lab.rows()
    longest = max(len(text or "") for text in rows["customer"].to_pylist())
    most = max(len(each or ()) for each in rows["_kafka_headers"].to_pylist())
    assert (longest, most) == (5 * MIB, 2000), (longest, most)
    return History("5 MiB of text, 3 MiB in one header and 2,000 headers are there, byte for byte")


def _produce_any_time(workload: Workload) -> History:
    topic = other_topic(workload, **ANY_TIME)
    workload.drain_batches()
    times = (-1, 0, 1, YEAR_3000_MS, YEAR_3000_MS + 86_400_000)
    records = [Record(v, timestamp_ms=ms) for v, ms in zip(orders(0, 5), times, strict=True)]
    workload.kafka.produce(topic, records)
    workload.contents.rows += len(records)
    workload.run()
    seen = workload.lab.rows()["_kafka_timestamp"].to_pylist()
    assert sum(time is None for time in seen) <= 1
    assert max(time.year for time in seen if time) == 3000
    return History("each is in the partition of its day")


CASES = (
    Case(
        "transactions",
        "transactions committed, aborted and left open",
        "committed records only, and none before their transaction is decided",
        _produce_transactions,
    ),
    Case(
        "retention/before",
        "retention passes the next offset before the read",
        NAMED_THEN_SKIPPED,
        _retain_before,
    ),
    Case(
        "retention/during",
        "retention passes the next offset during the read",
        NAMED_THEN_SKIPPED,
        _retain_during,
        may_read_again=(LONG - TAKEN,),
    ),
    Case("partitions-added", "partitions added", "they are drained from their first record", _add_partitions),
    Case(
        "topic-made-again/before",
        "the topic deleted and made again before the read",
        NAMED_THEN_ACCEPTED,
        _recreate_before,
    ),
    Case(
        "topic-made-again/during",
        "the topic deleted and made again during the read",
        NAMED_THEN_ACCEPTED,
        partial(_recreate_at, "split.after-chunk", (*RECREATED, "log-truncated")),
    ),
    Case(
        "topic-made-again/after",
        "the topic deleted and made again between read and commit",
        NAMED_THEN_ACCEPTED,
        partial(_recreate_at, "drain.after-tasks", RECREATED),
    ),
    Case(
        "large-messages",
        "messages and headers of megabytes, on a topic that allows them",
        "they are rows like any other",
        _produce_large,
    ),
    Case(
        "any-time",
        "record times of -1, 1970 and the year 3000, partitioned by day",
        "they are rows like any other",
        _produce_any_time,
        settings={"partition_by": ["day(_kafka_timestamp)"]},
    ),
)
SCENARIOS = scenarios("a hostile topic", CASES)
