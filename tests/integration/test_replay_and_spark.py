"""Replays over what Spark made of the table: rows it deleted, files it merged while the replay ran."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import pytest
from pyiceberg.table.snapshots import Operation

from prove.lab.pipeline_lab import TABLE, by_offset, progress
from spark_jobs.protocol.errors import ConfigError, SourceChanged
from spark_jobs.protocol.offsets import OffsetRange
from spark_jobs.spark.procedures import call_procedure, table_argument
from spark_jobs.txlog.entries import IcebergSnapshotCreated
from tests.support.foreign_deletes import delete_by_equality
from tests.support.lake import Once
from tests.support.upkeep_lab import drain_often, expect_whole, set_upkeep, tidy, upkeep_connections

if TYPE_CHECKING:
    from prove.lab.pipeline_lab import Lab
    from tests.support.new_lab import NewLab

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

DRAINS = 5
# Each drain brings ten orders and a dead letter: offsets 0-9 and 10, 11-20 and 21, and so on.
DEAD = {10, 21, 32, 43, 54}
ROWS = {offset for offset in range(11 * DRAINS) if offset not in DEAD}
RANGE = OffsetRange(0, 5, 30)
INSIDE = set(range(5, 30))


@pytest.fixture
def lab(new_lab: NewLab) -> Lab:
    """A table of a few small commits."""
    lab = new_lab()
    set_upkeep(lab, compact_above=DRAINS)
    drain_often(lab, new_lab, DRAINS)
    return lab


def _offsets(lab: Lab) -> set[int]:
    return {offset for _, offset in by_offset(lab)}


def _spark(lab: Lab, statement: str) -> None:
    with upkeep_connections(lab) as connections:
        table = table_argument(connections.open_catalog().name, TABLE)
        connections.spark().sql(statement.format(table=table)).collect()


def _call(lab: Lab, procedure: str, **arguments: object) -> None:
    with upkeep_connections(lab) as connections:
        catalog = connections.open_catalog().name
        named = {"table": table_argument(catalog, TABLE), **arguments}
        call_procedure(connections.spark(), catalog, procedure, named, tag="another-engine")  # type: ignore[arg-type]


def test_a_compaction_before_the_swap_makes_the_replay_plan_anew(lab: Lab) -> None:
    """The files it had found are gone: those it finds then are written again without the range's rows."""
    before = by_offset(lab)

    def merge() -> None:
        done = tidy(lab, "compaction")
        assert done.tables[0].done.counts["rewritten_files"] == DRAINS

    result = lab.replay(RANGE, fail_points=Once("replay.before-swap", merge))
    table = lab.table()
    with lab.connections() as connections:
        (attempt,) = connections.txlog.read(str(table.metadata.table_uuid), [result.batches[0].batch.attempt])
    landed = attempt.entry(IcebergSnapshotCreated)
    assert landed is not None
    assert landed.conflicts == 1
    operations = [s.summary.operation for s in table.metadata.snapshots if s.summary]
    assert operations.index(Operation.REPLACE) < operations.index(Operation.OVERWRITE)
    after = by_offset(lab)
    assert {key[1] for key in after} == ROWS
    for key, row in after.items():
        assert (row["_ingested_at"] != before[key]["_ingested_at"]) is (key[1] in INSIDE)
        assert {**row, "_ingested_at": 0} == {**before[key], "_ingested_at": 0}
    assert progress(lab).compacted_files == 1
    assert lab.stray_files() == set()
    expect_whole(lab, DRAINS)


def test_rows_that_spark_deleted_come_back_in_the_range_only(lab: Lab) -> None:
    """Refused while history shows the deletion; once it has expired, the range's rows are brought in."""
    _spark(lab, "ALTER TABLE {table} SET TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')")
    _spark(lab, "DELETE FROM {table} WHERE _kafka_offset IN (3, 7, 29, 40)")
    deletes = [len(task.delete_files) for task in lab.table().scan().plan_files()]
    assert sum(map(bool, deletes)) == 3, "Spark wrote no position deletes"
    with pytest.raises(SourceChanged, match="table-rewritten"):
        lab.replay(RANGE)
    _call(lab, "rewrite_manifests")
    _call(lab, "expire_snapshots", older_than=dt.datetime.now(dt.UTC), retain_last=1)
    assert _offsets(lab) == ROWS - {3, 7, 29, 40}
    for _ in range(2):
        lab.replay(RANGE)
        assert _offsets(lab) == ROWS - {3, 40}
    lab.replay(OffsetRange(0, 0, 5), OffsetRange(0, 38, 42))
    expect_whole(lab, DRAINS)


def test_equality_deletes_are_refused_until_spark_has_applied_them(lab: Lab) -> None:
    """Nothing changes; after the procedure that the hint names, the replay goes through."""
    delete_by_equality(lab.table(), "_kafka_offset", [3, 29])
    before = lab.table().metadata.current_snapshot_id
    with pytest.raises(ConfigError, match="delete-file-threshold") as refused:
        lab.replay(RANGE)
    assert refused.value.code == "equality-deletes"
    assert lab.table().metadata.current_snapshot_id == before
    options = {"delete-file-threshold": "1", "remove-dangling-deletes": "true"}
    _call(lab, "rewrite_data_files", options=options)
    assert _offsets(lab) == ROWS - {3, 29}
    lab.replay(RANGE)
    assert _offsets(lab) == ROWS - {3}
    lab.replay(OffsetRange(0, 3, 4))
    expect_whole(lab, DRAINS)
