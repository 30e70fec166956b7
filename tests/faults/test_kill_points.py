"""A drain killed at any named point loses nothing, doubles nothing and leaves no stray file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.pipeline_lab import Lab, make_lab, orders

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.kafka_server import KafkaBroker

pytestmark = [pytest.mark.faults, pytest.mark.kafka, pytest.mark.spark]

BEFORE_FILES_ARE_WHOLE = (
    "drain.after-offset-commit",
    "drain.after-buffer-snapshot",
    "drain.after-flush-start",
    "drain.after-tasks",
)
FILES_ARE_WHOLE = ("drain.after-parquet-written", "commit.before-swap")
LANDED = (
    "commit.after-swap",
    "drain.after-commit",
    "drain.after-iceberg-snapshot-created",
    "dead-letters.before-swap",
    "dead-letters.after-swap",
    "drain.after-dead-letters",
    "drain.after-flush-complete",
)
RECORDS = [*orders(0, 400), b"not json", None, b'{"id": "a number elsewhere"}', *orders(400, 100)]


@pytest.fixture
def lab(kafka: KafkaBroker, spark_remote: str, tmp_path: Path) -> Lab:
    """A topic of rows, dead letters and a tombstone, not drained yet."""
    topic = kafka.new_topic(partitions=2)
    kafka.produce(topic, RECORDS)
    return make_lab(tmp_path, bootstrap=kafka, topic=topic, spark_remote=spark_remote)


@pytest.mark.parametrize("point", [*BEFORE_FILES_ARE_WHOLE, *FILES_ARE_WHOLE, *LANDED])
def test_a_killed_drain_loses_and_doubles_nothing(lab: Lab, point: str) -> None:
    """After kill -9 and one more drain the audit finds every record once and the lake no stray file."""
    lab.kill_at(point)
    result = lab.drain()
    found = lab.audit()
    assert found.is_clean, found
    assert (found.records, found.rows, found.dead_letters, found.tombstones) == (503, 500, 2, 1)
    assert found.lag == 0
    assert lab.stray_files() == set()
    if point not in BEFORE_FILES_ARE_WHOLE:
        # Adopted or landed: not one record was read from Kafka again.
        assert result.batches == ()
        assert len(result.recovery.adopted) == (1 if point in FILES_ARE_WHOLE else 0)
