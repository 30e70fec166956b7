"""A mirror that three engines read alike, and Spark compacts while it is drained."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from datafusion import SessionContext
from pyiceberg.table.snapshots import Operation

from prove.lab.debezium_events import Column, Source
from prove.lab.forked import fork
from prove.lab.generated_changes import RandomSource
from prove.lab.kafka_server import Record
from prove.lab.pipeline_lab import TABLE, Lab
from spark_jobs.replay.rebuild import rebuild
from spark_jobs.spark.procedures import table_argument
from tests.support.lake import Once
from tests.support.upkeep_lab import set_upkeep, tidy, upkeep_connections

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from pathlib import Path

    import pyarrow as pa

    from tests.support.new_lab import NewLab

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

PARTITIONS = 2
Rows = list[tuple[Any, ...]]


def _by_pyiceberg(lab: Lab) -> Rows:
    return _rows(lab.table().scan(selected_fields=("id", "score", "note")).to_arrow())


def _by_spark(lab: Lab, snapshot_id: int | None = None) -> Rows:
    with upkeep_connections(lab) as connections:
        table = table_argument(connections.open_catalog().name, TABLE)
        table += "" if snapshot_id is None else f" VERSION AS OF {snapshot_id}"
        return _rows(connections.spark().sql(f"SELECT id, score, note FROM {table}").toArrow())  # noqa: S608


def _by_datafusion(lab: Lab) -> Rows:
    # In another process: one that has used DataFusion cannot fork any more.
    process, receiver = fork(_read_by_datafusion, lab.path)
    rows: Rows = receiver.recv()
    process.join()
    return rows


def _read_by_datafusion(sender: Connection, path: Path) -> None:
    session = SessionContext()
    session.register_table("mirror", Lab(path).table())
    sender.send(_rows(session.sql("SELECT id, score, note FROM mirror").to_arrow_table()))


def _rows(found: pa.Table) -> Rows:
    return sorted((row["id"], row["score"], row["note"]) for row in found.to_pylist())


def test_a_compaction_before_the_swap_moves_the_rows_that_go(new_lab: NewLab) -> None:
    """They are found where they are then; all readers see each key once, and what is gone takes no place."""
    source = RandomSource(9)
    lab = new_lab(partitions=PARTITIONS, layout="mirror")
    set_upkeep(lab, compact_above=3)
    here = replace(lab, is_here=True)
    for _ in range(4):
        new_lab.produce(lab, [told.record(PARTITIONS) for told in source.changes(8)])
        here.drain()
    new_lab.produce(lab, [told.record(PARTITIONS) for told in source.changes(8)])
    done = []
    here.drain(fail_points=Once("commit.before-swap", lambda: done.append(tidy(lab, "compaction"))))
    wanted = sorted((key, score, note) for key, (score, note) in source.rows.items())
    assert done[0].tables[0].done.counts["rewritten_files"] > 0
    operations = [s.summary.operation for s in lab.table().metadata.snapshots if s.summary]
    assert operations[-1] is Operation.OVERWRITE
    assert Operation.REPLACE in operations
    assert _by_pyiceberg(lab) == wanted == _by_spark(lab) == _by_datafusion(lab)
    tidy(lab, "compaction")
    assert _by_pyiceberg(lab) == wanted == _by_spark(lab) == _by_datafusion(lab)
    files = list(lab.table().scan().plan_files())
    assert sum(task.file.record_count for task in files) == len(wanted)


def test_a_type_that_a_rebuild_took_is_read_alike_and_earlier_snapshots_in_theirs(new_lab: NewLab) -> None:
    """Rebuilt by Spark's tasks; once it is compacted, too."""

    def told(number: int, score: int | str, lsn: int) -> Record:
        kind = "string" if isinstance(score, str) else "int32"
        columns = {"id": Column("int32", optional=False), "score": Column(kind), "note": Column("string")}
        row = {"id": number, "score": score, "note": "n"}
        return Record(Source(columns).event("c", row, lsn=lsn), key=b'{"id":%d}' % number)

    lab = new_lab([told(1, 7, 10), told(2, 8, 20)], layout="mirror")
    set_upkeep(lab, compact_above=1)
    replace(lab, is_here=True).drain()
    before = lab.table().metadata.current_snapshot_id
    new_lab.produce(lab, [told(2, "many", 30)])
    with lab.connections() as connections:
        rebuild(lab.pipeline, connections, reason="test")
    tidy(lab, "compaction")
    assert _by_pyiceberg(lab) == _by_spark(lab) == [(1, "7", "n"), (2, "many", "n")]
    assert _by_spark(lab, before) == [(1, 7, "n"), (2, 8, "n")]
