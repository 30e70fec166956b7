"""A topic made anew, or moved to another broker: shown by its records, and taken over by one command."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from cli.commands import source
from prove.lab.kafka_server import KafkaBroker, Record, start_test_kafka
from prove.lab.pipeline_lab import PIPELINE, configure, orders, progress
from servers.process import ServerFolder
from spark_jobs.acts.accept_source import SourceComparison, accept_source, compare_source
from spark_jobs.acts.act import pause, resume, settle
from spark_jobs.acts.held_batches import discard, publish
from spark_jobs.config.quantities import Start
from spark_jobs.protocol.errors import BatchHeld, ConfigError, SourceChanged
from spark_jobs.protocol.offsets import OffsetRange
from tests.support.new_lab import DEAD_LETTERS

if TYPE_CHECKING:
    from pathlib import Path

    from prove.lab.pipeline_lab import Lab
    from tests.support.new_lab import NewLab

pytestmark = [pytest.mark.faults, pytest.mark.kafka, pytest.mark.spark]


def _accept(lab: Lab, start: Start | None = None) -> SourceComparison:
    with lab.connections() as connections:
        seen = compare_source(lab.pipeline, connections)
        accept_source(lab.pipeline, connections, seen, start=start or Start(), reason="it moved")
    return seen


def test_a_topic_created_again_becomes_the_next_generation(new_lab: NewLab) -> None:
    """Rows and dead letters of both are kept apart, and the audit judges the one that is there."""
    lab = new_lab([*orders(0, 20), b"broken"])
    lab.drain()
    topic = lab.pipeline.topic
    new_lab.kafka.delete_topic(topic)
    new_lab.kafka.create_topic(topic, retention_ms=-1)
    new_lab.kafka.produce(topic, [*orders(100, 30), b"broken too"])
    with pytest.raises(SourceChanged) as noticed:
        lab.drain()
    assert f"./sluice source {PIPELINE}" in noticed.value.hint
    seen = _accept(lab)
    assert (seen.has_changed, seen.continues, seen.same) == (True, False, 0)
    assert (progress(lab).generation, progress(lab).earlier) == (2, {1: {0: 21}})
    lab.drain()
    found = lab.audit()
    assert found.is_clean, found
    assert (found.rows, found.dead_letters, found.lag) == (30, 1, 0)
    by_generation = sorted(lab.rows()["_kafka_generation"].to_pylist())
    assert by_generation == [1] * 20 + [2] * 30
    assert sorted(lab.rows(DEAD_LETTERS)["_kafka_generation"].to_pylist()) == [1, 2]
    with lab.connections() as connections:
        assert not compare_source(lab.pipeline, connections).has_changed
    assert lab.stray_files() == set()


def _make_anew(new_lab: NewLab, lab: Lab) -> None:
    new_lab.kafka.delete_topic(lab.pipeline.topic)
    new_lab.kafka.create_topic(lab.pipeline.topic, retention_ms=-1)
    new_lab.kafka.produce(lab.pipeline.topic, orders(100, 5))


def test_a_verified_batch_of_the_topic_that_is_gone_comes_in_before_the_next_generation(
    new_lab: NewLab,
) -> None:
    """Its files are the only copy of its records; nobody can read them again."""
    lab = new_lab(orders(0, 20))
    lab.drain()
    new_lab.produce(lab, orders(20, 10))
    lab.kill_at("drain.after-parquet-written")
    _make_anew(new_lab, lab)
    with lab.connections() as connections:
        pause(lab.pipeline, connections, reason="the broker moves")
        with pytest.raises(ConfigError) as refused:
            settle(lab.pipeline, connections, then="accept")
        assert refused.value.code == "paused"
        resume(lab.pipeline, connections, reason="it has moved")
        settle(lab.pipeline, connections, then="accept")
    assert not _accept(lab).continues
    lab.drain()
    assert sorted(lab.rows()["id"].to_pylist()) == [*range(30), *range(100, 105)]
    assert lab.audit().is_clean


def test_a_held_batch_of_the_topic_that_is_gone_is_decided_on_first(new_lab: NewLab) -> None:
    """The next generation would fence it for ever."""
    cheap = {"expect_column_values_to_be_between": {"column": "price", "max_value": 20}}
    lab = new_lab(orders(0, 10), quality=[{"name": "strict", "when": "gate", "expectations": [cheap]}])
    lab.drain()
    new_lab.produce(lab, orders(30, 5))
    assert lab.drain().stopped == "held"
    _make_anew(new_lab, lab)
    with lab.connections() as connections:
        with pytest.raises(BatchHeld):
            settle(lab.pipeline, connections, then="accept")
        publish(lab.pipeline, connections, reason="a sale")
        settle(lab.pipeline, connections, then="accept")
    assert lab.rows().num_rows == 15


def test_what_was_discarded_is_not_taken_for_drained(new_lab: NewLab) -> None:
    """Offsets without rows show nothing of the log: they are named with the replay that reads them."""
    cheap = {"expect_column_values_to_be_between": {"column": "price", "max_value": 20}}
    first = [Record(value, timestamp_ms=1_767_225_600_000 + n) for n, value in enumerate(orders(0, 10))]
    lab = new_lab(first, quality=[{"name": "strict", "when": "gate", "expectations": [cheap]}])
    lab.drain()
    new_lab.produce(lab, orders(30, 150))
    assert lab.drain().stopped == "held"
    topic = lab.pipeline.topic
    new_lab.kafka.delete_topic(topic)
    new_lab.kafka.create_topic(topic, retention_ms=-1)
    new_lab.kafka.produce(topic, [*first, *orders(0, 10) * 15])
    with lab.connections() as connections:
        discard(lab.pipeline, connections, reason="a sale")
    accepted = CliRunner().invoke(
        source.command, ["orders", "--accept", "--reason", "restored"], env={"SLUICE_CONFIG": str(lab.path)}
    )
    assert accepted.exit_code == 0, accepted.output
    assert "0:10-160 has no rows to compare: its current records are not read" in accepted.output
    assert './sluice replay orders --range 0:10-160 --reason "..." reads them' in accepted.output
    assert lab.drain().stopped == "caught-up"
    lab.replay(OffsetRange(0, 10, 160))
    assert sorted(lab.rows()["id"].to_pylist()) == sorted([*range(10)] * 16)
    found = lab.audit()
    assert (found.is_clean, found.skipped, found.lag) == (True, 0, 0), found


def test_a_broker_that_took_the_log_over_is_followed(new_lab: NewLab, tmp_path: Path) -> None:
    """The same records at the same offsets: the table goes on where it stands, in its generation.

    What the old broker was read for and is not in the table yet never comes in.
    """
    records = [
        Record(value, key=b"k%d" % n, partition=n % 2, timestamp_ms=1_767_225_600_000 + n)
        for n, value in enumerate(orders(0, 240))
    ]
    lab = new_lab(records[:230], partitions=2)
    lab.drain()
    server = start_test_kafka(ServerFolder(tmp_path, "kafka"))
    try:
        other = KafkaBroker(server.bootstrap_servers)
        other.create_topic(lab.pipeline.topic, 2, retention_ms=-1)
        other.produce(lab.pipeline.topic, records)
        configure(lab, "kafka", {"bootstrap.servers": str(other)})
        with pytest.raises(SourceChanged) as noticed:
            lab.drain()
        assert noticed.value.code == "cluster-moved"
        configure(lab, "kafka", {"bootstrap.servers": str(new_lab.kafka)})
        new_lab.produce(lab, records[230:235])
        with lab.stopped_at("drain.after-parquet-written") as asleep:
            configure(lab, "kafka", {"bootstrap.servers": str(other)})
            seen = _accept(lab)
            asleep.go_on()
            assert asleep.answer().error == "offsets-moved"
        assert (seen.has_changed, seen.continues, seen.compared, seen.same) == (True, True, 200, 200)
        assert (progress(lab).generation, progress(lab).next_offsets) == (1, {0: 115, 1: 115})
        lab.drain()
        found = lab.audit()
        assert found.is_clean, found
        assert (found.rows, found.lag) == (240, 0)
    finally:
        server.process.stop()
