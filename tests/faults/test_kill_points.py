"""A drain, a recovery or a checkpoint killed at any named point loses nothing and doubles nothing.

One table goes through many kills here, on a Spark server; `tests/prove` kills on a new table each time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from prove.lab.new_lab import progress
from prove.lab.pipeline_lab import orders
from spark_jobs.books.fold import checkpoint
from spark_jobs.books.history import State, history

if TYPE_CHECKING:
    from prove.lab.new_lab import NewLab
    from prove.lab.pipeline_lab import Lab
    from spark_jobs.drain.drain import DrainResult

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
POINTS = (*BEFORE_FILES_ARE_WHOLE, *FILES_ARE_WHOLE, *LANDED)
# Where a drain dies, and then where its recovery does.
RECOVERY_POINTS = (
    ("drain.after-tasks", "recover.after-interrupt"),
    ("drain.after-tasks", "recover.before-delete"),
    ("drain.after-flush-start", "recover.after-sweep"),
    ("drain.after-parquet-written", "recover.before-adoption"),
    ("drain.after-parquet-written", "recover.after-adoption"),
    ("commit.before-swap", "recover.after-iceberg-snapshot-created"),
    ("commit.after-swap", "recover.after-dead-letters"),
    ("drain.after-commit", "recover.after-flush-complete"),
)
CHECKPOINT_POINTS = (
    "checkpoint.after-files",
    "checkpoint.before-swap",
    "checkpoint.after-swap",
    "checkpoint.after-entered",
    "checkpoint.after-delete",
)
BROKEN = [b"not json", b"", b"null", b"\xff\xfe\x00", b'{"id": "a number elsewhere"}']
FEW = [*orders(0, 40), *BROKEN, None]


def _expect_nothing_lost(lab: Lab, times: int) -> None:
    """Every record of ``times`` productions of FEW exactly once, and no file that nothing names."""
    found = lab.audit()
    assert found.is_clean, found
    counted = (found.rows, found.dead_letters, found.tombstones, found.lag)
    assert counted == (40 * times, len(BROKEN) * times, times, 0)
    assert lab.stray_files() == set()


def _expect_kafka_unread(point: str, result: DrainResult) -> None:
    """Adopted or landed: not one record was read from Kafka again."""
    if point not in BEFORE_FILES_ARE_WHOLE:
        assert result.batches == ()
        assert len(result.recovery.adopted) == (1 if point in FILES_ARE_WHOLE else 0)


def test_drains_killed_in_later_batches(new_lab: NewLab) -> None:
    """One table, killed at every point in turn: what the recoveries before left does not add up."""
    lab = new_lab(FEW, partitions=2)
    lab.drain()
    for point in POINTS:
        new_lab.produce(lab, FEW)
        lab.kill_at(point)
        _expect_kafka_unread(point, lab.drain())
        assert lab.stray_files() == set(), point
    _expect_nothing_lost(lab, 1 + len(POINTS))


def test_recoveries_killed_as_well(new_lab: NewLab) -> None:
    """Kill a drain, kill its recovery at each of its points, recover: the same as without a crash."""
    lab = new_lab(FEW, partitions=2)
    lab.drain()
    for drain_point, point in RECOVERY_POINTS:
        new_lab.produce(lab, FEW)
        lab.kill_at(drain_point)
        lab.kill_at(point)
        lab.drain()
        assert lab.stray_files() == set(), point
    _expect_nothing_lost(lab, 1 + len(RECOVERY_POINTS))


def test_killed_checkpoints_enter_each_attempt_once(new_lab: NewLab) -> None:
    """Killed at each of its points with drains in between: nothing is lost, and the books balance."""
    lab = new_lab(FEW, partitions=2)
    lab.drain()
    for point in CHECKPOINT_POINTS:
        lab.kill_at(point, work="checkpoint")
        new_lab.produce(lab, FEW)
        assert len(lab.drain().batches) == 1
    _expect_nothing_lost(lab, 1 + len(CHECKPOINT_POINTS))
    with lab.connections() as connections:
        checkpoint(lab.pipeline, connections)
        lines = history(lab.pipeline, connections, limit=100)
        assert connections.txlog.attempts(str(lab.table().metadata.table_uuid)) == ()
    assert len({line.entry.attempt for line in lines}) == len(lines) == 1 + len(CHECKPOINT_POINTS)
    assert {line.state for line in lines} == {State.LANDED}
    drained = sum(line.entry.balance.offsets for line in lines)
    assert drained == sum(progress(lab).next_offsets.values())
    assert lab.rows("lab.sluice_batches").num_rows == len(lines)
