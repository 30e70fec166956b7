"""Audit of a mirror: an exact one is clean, and whatever is wrong with one is named."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from prove.lab.debezium_events import Column, Source, base64_of, decimal
from prove.lab.generated_changes import RandomSource
from prove.lab.kafka_server import Record
from prove.lab.pipeline_lab import progress
from spark_jobs.audit.audit import audit
from spark_jobs.lake.file_rows import rows_of_file
from spark_jobs.replay.rebuild import rebuild
from tests.support.foreign_deletes import delete_by_position
from tests.support.new_lab import NewLab

if TYPE_CHECKING:
    from pathlib import Path

    from prove.lab.kafka_server import KafkaBroker

pytestmark = pytest.mark.kafka

TYPED = Source(
    {
        "id": Column("int32", optional=False),
        "price": decimal(9, 2),
        "uid": Column("string", "io.debezium.data.Uuid"),
        "ratio": Column("double"),
        "tags": Column("array", None, {"items": Column("string").schema("")}),
    }
)


@pytest.fixture
def new_lab(kafka: KafkaBroker, tmp_path: Path) -> NewLab:
    """Pipelines whose tasks run in the process that drains."""
    return NewLab(kafka, "", tmp_path, is_here=True)


def typed(op: str, number: int, **values: object) -> Record:
    """Return a change of one key with every type in its row."""
    row = {"id": number, "price": base64_of(250), "uid": None, "ratio": "NaN", "tags": ["a", None]}
    return Record(TYPED.event(op, None if op == "d" else {**row, **values}), key=TYPED.key(number))


def test_an_exact_mirror_is_clean_and_each_offset_has_a_place(new_lab: NewLab) -> None:
    """Drain after drain, made anew, and of the newest offsets alone."""
    source = RandomSource(7)
    lab = new_lab(partitions=3, layout="mirror")
    for _ in range(3):
        new_lab.produce(lab, [told.record(3) for told in source.changes(15)])
        lab.drain()
        found = lab.audit()
        assert found.is_clean, found
        assert found.rows == len(source.rows)
    assert found.records == sum(progress(lab).next_offsets.values())
    assert found.folded > 0
    with lab.connections() as connections:
        newest = audit(lab.pipeline, connections, newest_offsets=20)
        assert newest.is_clean, newest
        assert 0 < newest.rows < found.rows
        rebuild(lab.pipeline, connections, reason="test")
    assert lab.audit().is_clean
    gone = {partition: end - 3 for partition, end in progress(lab).next_offsets.items()}
    new_lab.kafka.delete_records(lab.pipeline.topic, gone)
    cut = lab.audit()
    assert cut.is_clean, cut
    assert (cut.gone, cut.rows < found.rows) == (sum(gone.values()), True)


def test_what_is_wrong_with_a_mirror_is_named(new_lab: NewLab) -> None:
    """A row that another writer took out, changed or brought in; values of each type are compared."""
    uid = "0b4f6d4e-7b1a-4b0e-9d8b-0a1b2c3d4e5f"
    lab = new_lab(
        [*(typed("c", n, uid=uid) for n in range(4)), typed("d", 3), typed("u", 2)], layout="mirror"
    )
    lab.drain()
    assert lab.audit().is_clean
    table = lab.table()
    (task,) = table.scan().plan_files()
    live = pa.concat_tables(rows_of_file(table.io, task, table.schema()))
    changed = live.set_column(
        live.schema.get_field_index("ratio"), "ratio", pa.array([0.5] * len(live), pa.float64())
    )
    gone = live.filter(pc.equal(live["id"], 1)).set_column(
        live.schema.get_field_index("_cdc_row_id"), live.schema.field("_cdc_row_id"), pa.array(['{"id":3}'])
    )
    other = changed.filter(pc.equal(changed["id"], 0))
    again = live.filter(pc.equal(live["id"], 2))
    delete_by_position(table, task.file.file_path, [0, 1])
    lab.table().append(pa.concat_tables([other, gone, again]), snapshot_properties={"sluice.test": "damage"})
    found = lab.audit()
    assert not found.is_clean
    assert (found.missing, found.duplicates) == (1, 1), found
    # PyIceberg's append has no null list of structs, so that the copy differs as well.
    wrong = {"missing 0:1", "doubled 0:5", "differing 0:0", "differing 0:1", "differing 0:5"}
    assert set(found.examples) == wrong
