"""Facts of the built-in checks from real topics and tables."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer
from pyiceberg.expressions import EqualTo

from cli.commands.state_word import StateWord
from cli.commands.status import look as look_for_status
from prove.lab.kafka_server import KafkaBroker, Record, unique_name
from prove.lab.pipeline_lab import configure, make_lab
from spark_jobs.acts.act import pause, resume, skip
from spark_jobs.connections.endpoints import read_endpoints, write_endpoints
from spark_jobs.drain.drain import ended_line
from spark_jobs.health.table_facts import shows_history
from spark_jobs.kafka.times import first_record_times
from spark_jobs.monitoring.audit_notes import audit_newest
from spark_jobs.monitoring.checkup import Health, check_up
from spark_jobs.monitoring.survey import Surveyor
from spark_jobs.protocol.errors import RetryableError
from spark_jobs.protocol.offsets import OffsetRange, OffsetRanges
from tests.support.new_lab import NewLab, as_json, serve_from

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyiceberg.table import Table

    from prove.lab.pipeline_lab import Lab
    from prove.lab.s3 import S3

HOUR_MS = 3_600_000


def look(lab: Lab) -> Health:
    """One look at the lab's pipeline."""
    (health,) = check_up(Surveyor(lab.config))
    return health


def fact(health: Health, name: str) -> tuple[bool, str]:
    """Whether a check passes, and its line."""
    result = next(result for result in health.results if result.name == name)
    return result.passed, result.fact


@pytest.mark.kafka
def test_the_time_of_the_next_record_is_read_where_there_is_one(kafka: KafkaBroker) -> None:
    """By partition, at any offset; a partition without a record there has no time and holds nothing up."""
    topic = kafka.new_topic(partitions=3, retention_ms=-1)
    kafka.produce(topic, [Record(b"x", partition=0, timestamp_ms=1000 + n) for n in range(3)])
    kafka.produce(topic, [Record(None, partition=1, timestamp_ms=7000)])
    properties = {"bootstrap.servers": f"{kafka}"}
    positions = {0: 2, 1: 0, 2: 0}
    assert first_record_times(properties, topic, positions, timeout_seconds=5) == {0: 1002, 1: 7000}
    assert first_record_times(properties, topic, {}) == {}


@pytest.mark.kafka
def test_what_an_open_transaction_holds_back_is_no_idle_topic(kafka: KafkaBroker, tmp_path: Path) -> None:
    """Drain, status, checks and valid-through say that records are there until they are decided about."""
    topic = kafka.new_topic(partitions=2, retention_ms=HOUR_MS)
    lab = replace(
        make_lab(tmp_path, bootstrap=kafka, topic=topic, spark_remote="sc://not.asked"), is_here=True
    )
    kafka.produce(topic, as_json({"id": 0}))
    complete = lab.drain().valid_through_ms
    producer = Producer({"bootstrap.servers": kafka, "transactional.id": unique_name("tx")})
    producer.init_transactions(30)
    producer.begin_transaction()
    long_ago_ms = int(time.time() * 1000) - HOUR_MS * 5 // 6
    for n in range(3):
        producer.produce(topic, b'{"id": %d}' % n, partition=0, timestamp=long_ago_ms)
    producer.flush(10)
    kafka.produce(topic, as_json({"id": 4}, partition=0) + as_json({"id": 5}, partition=1))
    drained = lab.drain()
    assert (drained.balance.rows, drained.lag_records, drained.undecided) == (1, 0, 4)
    assert ended_line(drained, 0).endswith("lag 0 records, waiting for an open transaction: 4 records")
    assert drained.valid_through_ms == complete
    health = look(lab)
    passed, said = fact(health, "stall")
    assert not passed
    assert said == "waiting for an open transaction: 4 records, the first for 50 min (limit 5 min)"
    assert "waiting for an open transaction: 4 records" in fact(health, "fresh")[1]
    assert "Kafka may delete the next record in 10 min" in fact(health, "retention_headroom")[1]
    ((_, state),) = look_for_status(lab.config)
    assert (state.word, state.reason) == (StateWord.BEHIND, "waiting for an open transaction: 4 records")
    producer.commit_transaction(10)
    assert lab.drain().balance.rows == 4
    ((_, state),) = look_for_status(lab.config)
    assert state.word is StateWord.CAUGHT_UP
    assert fact(look(lab), "stall") == (True, "no record waits")


@pytest.mark.kafka
def test_what_waits_for_a_schedule_is_told_and_not_late(kafka: KafkaBroker, tmp_path: Path) -> None:
    """Checks and status read the time of the first record that waits: the tick after that takes it."""
    topic = kafka.new_topic(partitions=2, retention_ms=-1)
    settings = {"schedule": "0 0 1 1 *", "timezone": "Asia/Kolkata"}
    lab = make_lab(tmp_path, bootstrap=kafka, topic=topic, spark_remote="sc://not.asked", **settings)
    kafka.produce(topic, as_json({"id": 0}, partition=0))
    replace(lab, is_here=True).drain()
    times_ms = [int(time.time() * 1000) + later for later in (9, 5)]
    kafka.produce(topic, [Record(b"{}", partition=p, timestamp_ms=ms) for p, ms in enumerate(times_ms)])
    health = look(lab)
    assert health.facts.waiting_since_ms == times_ms[1]
    assert [fact(health, name)[0] for name in ("fresh", "lag", "stall")] == [True] * 3
    assert fact(health, "stall")[1].endswith(", no scheduled drain is due (limit 5 min)")
    ((seen, state),) = look_for_status(lab.config)
    assert (state.word, seen.waiting_since_ms) == (StateWord.BEHIND, times_ms[1])
    assert seen.next_drain_ms is not None
    assert datetime.fromtimestamp(seen.next_drain_ms / 1000, UTC).strftime("%d.%m. %H:%M") == "31.12. 18:30"


@pytest.mark.kafka
@pytest.mark.spark
def test_headroom_is_what_retention_leaves_the_next_record(
    kafka: KafkaBroker, spark_remote: str, tmp_path: Path
) -> None:
    """An hour is kept: one of 30 minutes ago has 30 left, one of 50 too little, a drained one needs none."""
    topic = kafka.new_topic(retention_ms=HOUR_MS)
    lab = make_lab(tmp_path, bootstrap=kafka, topic=topic, spark_remote=spark_remote)
    kafka.produce(topic, as_json({"id": 0}))
    lab.drain()
    now_ms = int(time.time() * 1000)
    kafka.produce(topic, [Record(b'{"id": 1}', timestamp_ms=now_ms - HOUR_MS // 2)])
    left_ms = look(lab).facts.headroom_ms
    assert left_ms is not None
    assert HOUR_MS // 2 - 120_000 < left_ms <= HOUR_MS // 2
    assert fact(look(lab), "retention_headroom")[0]
    lab.drain()
    assert look(lab).facts.headroom_ms is None
    kafka.produce(topic, [Record(b'{"id": 2}', timestamp_ms=now_ms - HOUR_MS * 5 // 6)])
    passed, told = fact(look(lab), "retention_headroom")
    assert not passed
    assert "(minimum 15 min)" in told


@pytest.mark.kafka
def test_an_expression_that_fits_its_table_no_more_is_told_before_a_drain(
    kafka: KafkaBroker, tmp_path: Path
) -> None:
    """By the checks and by status; one that speaks of a column that the next records may bring is left."""
    topic = kafka.new_topic(retention_ms=-1)
    lab = make_lab(tmp_path, bootstrap=kafka, topic=topic, spark_remote="sc://not.asked")
    kafka.produce(topic, as_json({"id": 1}))
    replace(lab, is_here=True).drain()
    configure(lab, "pipelines/orders", {"filter": "id LIKE 'a%' OR later"})
    assert look(lab).facts.error is None
    configure(lab, "pipelines/orders", {"filter": "id + 1"})
    error = look(lab).facts.error
    assert error is not None
    assert error.code == "expression-refused"
    ((_, state),) = look_for_status(lab.config)
    assert (state.word, state.reason) == (StateWord.FAILED, error.message)


@pytest.mark.kafka
@pytest.mark.spark
def test_columns_that_came_after_the_first_batch_are_named(new_lab: NewLab) -> None:
    """A new field is a change, and so is one within it."""
    lab = new_lab(as_json({"id": 1}))
    lab.drain()
    assert fact(look(lab), "schema") == (True, "no column changed in the last 24 hours")
    new_lab.produce(lab, as_json({"id": 2, "note": {"text": "x"}}))
    lab.drain()
    passed, told = fact(look(lab), "schema")
    assert not passed
    assert "added note (struct)" in told
    assert "added note.text (string)" in told


@pytest.mark.kafka
@pytest.mark.spark
def test_an_idle_topic_stays_fresh_and_a_backlog_ages(new_lab: NewLab) -> None:
    """Valid-through is now while nothing waits, else what the last batch had reached."""
    lab = new_lab(as_json({"id": 1}))
    assert fact(look(lab), "fresh") == (True, "no table yet, 1 record waits")
    lab.drain()
    idle = look(lab).facts
    assert idle.valid_through_ms == idle.now_ms
    endpoints = read_endpoints(lab.config.home)
    write_endpoints(lab.config.home, replace(endpoints, failing={"spark-connect": "/x"}))
    passed, told = fact(look(lab), "stall")
    assert not passed
    assert told.startswith("a drain would fail now: spark-connect of `./sluice up` stops again and again")
    write_endpoints(lab.config.home, endpoints)
    new_lab.produce(lab, as_json({"id": 2}))
    behind = look(lab)
    late = behind.facts
    assert late.waiting == 1
    assert fact(behind, "fresh")[1].startswith("1 record waits, the oldest for ")
    assert late.oldest_since_ms == late.waiting_since_ms
    assert late.valid_through_ms is not None
    assert late.valid_through_ms < late.now_ms


@pytest.fixture(
    params=[
        "sqlite",
        pytest.param("rest", marks=pytest.mark.rest),
        pytest.param("nessie", marks=pytest.mark.nessie),
    ]
)
def anywhere(new_lab: NewLab, request: pytest.FixtureRequest) -> Lab:
    """A pipeline in each of the catalogs, without records."""
    lab = new_lab()
    if request.param != "sqlite":
        s3: S3 = request.getfixturevalue("s3")
        serve_from(lab, request.getfixturevalue(f"{request.param}_catalog_properties"), s3)
    return lab


@pytest.mark.kafka
@pytest.mark.spark
def test_the_verdicts_are_right_on_every_catalog(anywhere: Lab, new_lab: NewLab) -> None:
    """A whole table passes all checks; what then goes wrong fails the check that is made for it, no other."""
    lab = anywhere
    configure(lab, "pipelines/orders", {"checks": {"lag": 3}})
    new_lab.produce(lab, as_json(*({"id": n} for n in range(10))))
    lab.drain()
    assert failing(lab) == set()
    new_lab.produce(lab, as_json(*({"id": n, "note": "new"} for n in range(4)), "no object"))
    assert failing(lab) == {"lag"}
    lab.drain()
    knows_schemas = shows_history(lab.table().metadata)
    assert failing(lab) == ({"dead_letters", "schema"} if knows_schemas else {"dead_letters"})
    assert fact(look(lab), "schema") == (
        not knows_schemas,
        "added note (string)" if knows_schemas else "the catalog returns no earlier schema",
    )
    with gone_for_a_while(lab.table()):
        assert "complete" in failing(lab)
        assert "damaged, as found" in fact(look(lab), "complete")[1]
        with pytest.raises(RetryableError, match=r"cannot be read.*audit orders --metadata"):
            lab.audit()
    assert "complete" not in failing(lab)
    # A row that a defect of ours lost: the snapshot says that it is ours.
    lab.table().delete(EqualTo("_kafka_offset", 4), snapshot_properties={"sluice.attempt": "a defect"})
    assert "complete" in failing(lab)
    lab.table().delete(EqualTo("_kafka_offset", 5))
    assert "stall" in failing(lab)


@contextmanager
def gone_for_a_while(table: Table) -> Iterator[None]:
    """A file of the newest commit is not there, wherever files are."""
    path = next(iter(table.scan().plan_files())).file.file_path
    with table.io.new_input(path).open() as stream:
        content = stream.read()
    table.io.delete(path)
    yield
    with table.io.new_output(path).create(overwrite=True) as output:
        output.write(content)


def failing(lab: Lab) -> set[str]:
    """The checks that fail, after an audit."""
    with lab.connections() as connections:
        uuid = str(lab.table().metadata.table_uuid)
        audit_newest(lab.pipeline, connections, uuid)
    return {str(result.name) for result in look(lab).results if not result.passed}


@pytest.mark.kafka
@pytest.mark.spark
def test_an_operators_acts_are_told_and_are_no_faults(new_lab: NewLab) -> None:
    """A pause is no stall and names its reason; skipped offsets leave no hole and nothing missing."""
    lab = new_lab(as_json(*({"id": n} for n in range(5))))
    lab.drain()
    new_lab.produce(lab, as_json(*({"id": n} for n in range(5))))
    with lab.connections() as connections:
        skip(lab.pipeline, connections, OffsetRanges((OffsetRange(0, 5, 7),)), reason="poison")
        pause(lab.pipeline, connections, reason="the lake moves")
    passed, told = fact(look(lab), "stall")
    assert passed
    assert told == "paused by test: the lake moves"
    with lab.connections() as connections:
        resume(lab.pipeline, connections, reason="moved")
    lab.drain()
    health = look(lab)
    assert fact(health, "stall") == (True, "no record waits")
    assert fact(health, "complete") == (True, "every offset is accounted for: 8 offsets in 2 batches")
    assert (lab.audit().missing, lab.audit().rows) == (0, 8)
