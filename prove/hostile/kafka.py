"""Hostile topics: transactions, retention, new partitions, a topic made anew, any size, any time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions

from prove.hostile.case import Case, Told, drained, put_right, refused, refused_awake, skipped
from prove.lab.kafka_server import Record, unique_name
from prove.lab.new_lab import configure
from prove.lab.pipeline_lab import PIPELINE, orders
from prove.stage import BATCH, PARTITIONS
from spark_jobs.acts.accept_source import accept_source, compare_source
from spark_jobs.config.start import Start

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from prove.scenario import Scenario
    from prove.stage import Play

GROUP = "a hostile topic"
MIB = 1024 * 1024
TIMEOUT_SECONDS = 30.0
HALF = BATCH // PARTITIONS  # a partition's next offset after one batch
TAKEN = 8  # records retention takes of the next batch, orders all of them
YEAR_3000_MS = 32_503_680_000_000
ANY_TIME: dict[str, Any] = {
    "message_timestamp_before_max_ms": 2**63 - 1,
    "message_timestamp_after_max_ms": 2**63 - 1,
}
NAMED_THEN_SKIPPED = "a named error and no commit; once the operator skips them, all others are there"
NAMED_THEN_ACCEPTED = "a named error and no commit; once accepted, the new topic is the next generation"


def hostile_topics() -> Iterator[Scenario]:
    """Every case, in the report's order."""
    for case in CASES:
        yield case.scenario(GROUP, is_quick=case.name in QUICK)


def _transactions(play: Play) -> Told:
    drained(play)
    producer = Producer({"bootstrap.servers": play.kafka, "transactional.id": unique_name("tx")})
    producer.init_transactions(TIMEOUT_SECONDS)
    _begin(producer, play, 10)
    producer.commit_transaction(TIMEOUT_SECONDS)
    _begin(producer, play, 10)
    producer.abort_transaction(TIMEOUT_SECONDS)
    _begin(producer, play, 10)
    play.produced.rows += 10
    play.work()
    before = play.lab.rows().num_rows
    assert before == play.produced.rows, f"{before} rows while a transaction is open"
    producer.commit_transaction(TIMEOUT_SECONDS)
    play.produced.rows += 10
    play.work()
    return Told("the aborted ones never came, the open one's records when it was committed")


def _begin(producer: Producer, play: Play, count: int) -> None:
    producer.begin_transaction()
    for n, value in enumerate(orders(100, count)):
        producer.produce(play.lab.pipeline.topic, value, partition=n % PARTITIONS)
    producer.flush(TIMEOUT_SECONDS)


def _retention_before(play: Play) -> Told:
    drained(play)
    play.produce_batch()
    play.kafka.delete_records(play.lab.pipeline.topic, {0: HALF + TAKEN})
    ended = refused(play, "retention-passed")
    skipped(play, 0, HALF, HALF + TAKEN, TAKEN)
    return put_right(ended, play, was_read=False)


def _retention_during(play: Play) -> Told:
    drained(play)
    play.produce_batch()
    with play.lab.stopped_at("split.after-chunk", once=str(play.folder / "slept")) as drain:
        # Partition 0 has been read, partition 1 is next.
        play.kafka.delete_records(play.lab.pipeline.topic, {1: HALF + TAKEN})
        ended = refused_awake(drain, "retention-passed")
    skipped(play, 1, HALF, HALF + TAKEN, TAKEN)
    play.produced.tombstones -= 1  # the first batch's: it went as well, and no table shows it
    return put_right(ended, play)


def _partitions_added(play: Play) -> Told:
    drained(play)
    topic = play.lab.pipeline.topic
    admin = AdminClient({"bootstrap.servers": play.kafka})
    admin.create_partitions([NewPartitions(topic, 2 * PARTITIONS)])[topic].result(TIMEOUT_SECONDS)
    values = orders(100, 20)
    play.kafka.produce(
        topic, [Record(v, partition=PARTITIONS + n % PARTITIONS) for n, v in enumerate(values)]
    )
    play.produced.rows += len(values)
    play.work()
    assert play.lab.rows().num_rows == play.produced.rows
    return Told("read from their first record by the next drain")


def _made_again_before(play: Play) -> Told:
    drained(play)
    _make_again(play)
    ended = refused(play, "topic-recreated")
    return accepted(play, ended)


def _made_again_during(play: Play) -> Told:
    drained(play)
    lost = _batch_that_goes(play)
    with play.lab.stopped_at("split.after-chunk", once=str(play.folder / "slept")) as drain:
        _make_again(play)
        ended = refused_awake(drain, "topic-recreated", "topic-gone", "log-truncated")
    return accepted(play, f"{ended} ({lost} records went with the topic)")


def _made_again_after_read(play: Play) -> Told:
    drained(play)
    lost = _batch_that_goes(play)
    with play.lab.stopped_at("drain.after-tasks", once=str(play.folder / "slept")) as drain:
        _make_again(play)
        ended = refused_awake(drain, "topic-recreated", "topic-gone")
    return accepted(play, f"{ended} ({lost} records went with the topic)")


def _batch_that_goes(play: Play) -> int:
    """A batch nobody will have: it goes with its topic before it was drained."""
    kept = (play.produced.rows, play.produced.dead_letters, play.produced.tombstones)
    play.produce_batch()
    play.produced.rows, play.produced.dead_letters, play.produced.tombstones = kept
    return BATCH


def _make_again(play: Play) -> None:
    topic = play.lab.pipeline.topic
    play.kafka.delete_topic(topic)
    play.kafka.create_topic(topic, PARTITIONS, retention_ms=-1)
    play.produce(orders(200, 60))


def accepted(play: Play, ended: str, *, of_earlier: int = BATCH) -> Told:
    """The operator takes the topic as it is for the table's next generation, and it is drained."""
    with play.lab.connections() as connections:
        seen = compare_source(play.lab.pipeline, connections)
        assert seen.has_changed, "the command would leave it alone"
        accept_source(play.lab.pipeline, connections, seen, start=Start(), reason="it was made again")
    return put_right(ended, play, was_read=False, of_earlier=of_earlier)


def other_topic(play: Play, *, nodes: Sequence[int] = (1,), **config: object) -> str:
    """Give the pipeline a new topic with these settings; the first node leads all partitions."""
    topic = play.kafka.new_topic(PARTITIONS, nodes=nodes, retention_ms=-1, **config)
    configure(play.lab, f"pipelines/{PIPELINE}", {"topic": topic})
    return topic


def _large(play: Play) -> Told:
    topic = other_topic(play, max_message_bytes=8 * MIB)
    drained(play)
    small, large = orders(0, 3), b'{"id": 1, "customer": "%s"}' % (b"x" * 5 * MIB)
    headers = [(f"h{n}", b"v" * 512) for n in range(2000)]
    records = [
        Record(large),
        Record(small[0], headers=[("h", b"v" * 3 * MIB)]),
        Record(small[1], headers=headers),
    ]
    play.kafka.produce(topic, records, **{"message.max.bytes": 8 * MIB})
    play.produced.rows += len(records)
    play.work()
    rows = play.lab.rows()
    longest = max(len(text or "") for text in rows["customer"].to_pylist())
    most = max(len(each or ()) for each in rows["_kafka_headers"].to_pylist())
    assert (longest, most) == (5 * MIB, 2000), (longest, most)
    return Told("5 MiB of text, 3 MiB in one header and 2,000 headers are there, byte for byte")


def _any_time(play: Play) -> Told:
    topic = other_topic(play, **ANY_TIME)
    drained(play)
    times = (-1, 0, 1, YEAR_3000_MS, YEAR_3000_MS + 86_400_000)
    records = [Record(v, timestamp_ms=ms) for v, ms in zip(orders(0, 5), times, strict=True)]
    play.kafka.produce(topic, records)
    play.produced.rows += len(records)
    play.work()
    seen = play.lab.rows()["_kafka_timestamp"].to_pylist()
    assert sum(time is None for time in seen) <= 1
    assert max(time.year for time in seen if time) == 3000
    return Told("each is in the partition of its day")


CASES = (
    Case(
        "transactions",
        "transactions committed, aborted and left open",
        "committed records only, and none before their transaction is decided",
        _transactions,
    ),
    Case(
        "retention/before",
        "retention passes the next offset before the read",
        NAMED_THEN_SKIPPED,
        _retention_before,
    ),
    Case(
        "retention/during",
        "retention passes the next offset during the read",
        NAMED_THEN_SKIPPED,
        _retention_during,
        may_read_again=(BATCH - TAKEN,),
    ),
    Case(
        "partitions-added", "partitions added", "they are drained from their first record", _partitions_added
    ),
    Case(
        "topic-made-again/before",
        "the topic deleted and made again before the read",
        NAMED_THEN_ACCEPTED,
        _made_again_before,
    ),
    Case(
        "topic-made-again/during",
        "the topic deleted and made again during the read",
        NAMED_THEN_ACCEPTED,
        _made_again_during,
    ),
    Case(
        "topic-made-again/after",
        "the topic deleted and made again between read and commit",
        NAMED_THEN_ACCEPTED,
        _made_again_after_read,
    ),
    Case(
        "large-messages",
        "messages and headers of megabytes, on a topic that allows them",
        "they are rows like any other",
        _large,
    ),
    Case(
        "any-time",
        "record times of -1, 1970 and the year 3000, partitioned by day",
        "they are rows like any other",
        _any_time,
        settings={"partition_by": ["day(_kafka_timestamp)"]},
    ),
)
QUICK = frozenset({"retention/during", "topic-made-again/during", "transactions"})
