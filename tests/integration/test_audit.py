"""The audit finds what is missing, doubled and changed, names it, and holds a window at a time."""

from __future__ import annotations

import json
import uuid
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyiceberg.expressions import AlwaysTrue, EqualTo

from prove.lab.kafka_server import Record
from prove.lab.pipeline_lab import configure, progress
from spark_jobs.audit import audit as audit_module
from spark_jobs.audit import stretches as stretches_module
from spark_jobs.audit.audit import audit
from spark_jobs.lake.row_filters import rows_in
from tests.support.new_lab import DEAD_LETTERS, as_json

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from prove.lab.pipeline_lab import Lab
    from tests.support.new_lab import NewLab

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

RECORDS = [
    *as_json(*({"id": n, "tags": [f"t{n}"]} for n in range(20))),
    Record(b"broken", partition=0),
    Record(None, partition=0),
    *as_json({"id": 20, "tags": []}, partition=1),
]


def _rows_at(lab: Lab, offset: int) -> pa.Table:
    return lab.table().scan(row_filter=EqualTo("_kafka_offset", offset)).to_arrow()


def _lose(table: Table, offset: int) -> None:
    """Take a row out as a defect of our own would: in a commit that looks like one of ours."""
    table.delete(EqualTo("_kafka_offset", offset), snapshot_properties={"sluice.attempt": "a defect"})


def test_dead_letters_that_the_table_still_owes_are_there(new_lab: NewLab) -> None:
    """A run died between its two commits, or is between them: nothing is missing for that."""
    lab = new_lab(RECORDS, partitions=2)
    lab.kill_at("drain.after-commit")
    owing = lab.audit()
    assert owing.is_clean, owing
    assert (owing.rows, owing.dead_letters, owing.tombstones) == (21, 1, 1)
    lab.drain()
    settled = lab.audit()
    assert (settled.rows, settled.dead_letters, settled.is_clean) == (21, 1, True)


def test_dead_letters_purged_before_they_came_in_are_missing(new_lab: NewLab) -> None:
    """Somebody deleted the files of what the table owes: an answer by coordinates, no broken audit."""
    lab = new_lab(RECORDS, partitions=2)
    lab.kill_at("drain.after-commit")
    pending = progress(lab).pending_dead_letters
    assert pending
    for file in pending.files:
        lab.table().io.delete(file.path)
    owing = lab.audit()
    assert (owing.rows, owing.dead_letters, owing.missing) == (21, 0, 1)


def test_dead_letters_that_a_replay_replaces_are_gone_with_its_commit(new_lab: NewLab) -> None:
    """What became a row is no dead letter any more, although its own table says so until its turn comes."""
    lab = new_lab(as_json({"id": 1}, {"id": 2, "v": "x"}, {"id": 3}), columns={"v": "long"})
    lab.drain()
    with lab.table().update_schema() as update:
        update.delete_column("v")
    configure(lab, "pipelines/orders", {"columns": {"v": "string"}})
    lab.kill_at("replay.after-swap", work="replay 0:0-3")
    owing = lab.audit()
    assert owing.is_clean, owing
    assert (owing.rows, owing.dead_letters) == (3, 0)


def test_rows_that_went_missing_were_doubled_or_changed_are_found(new_lab: NewLab) -> None:
    """Each by its coordinates; the untouched table is clean."""
    lab = new_lab(RECORDS, partitions=2)
    lab.drain()
    clean = lab.audit()
    assert clean.is_clean, clean
    assert (clean.records, clean.rows, clean.dead_letters, clean.tombstones) == (23, 21, 1, 1)
    assert (clean.lag, clean.gone, clean.examples) == (0, 0, ())
    table = lab.table()
    doubled, changed = _rows_at(lab, 3), _rows_at(lab, 5)
    other = changed.set_column(
        changed.schema.get_field_index("id"), changed.schema.field("id"), pc.add(changed["id"], 1)
    )
    _lose(table, 7)
    table.append(doubled)
    table.delete(EqualTo("_kafka_offset", 5))
    table.append(other)
    _lose(lab.table(DEAD_LETTERS), 20)
    found = lab.audit()
    assert (found.missing, found.duplicates, found.differing) == (2, 1, 1)
    assert set(found.examples) == {"missing 0:7", "missing 0:20", "doubled 0:3", "differing 0:5"}
    assert not found.is_clean


def test_integers_that_versions_before_rounded_are_a_finding_of_their_own(new_lab: NewLab) -> None:
    """A row with the nearest double is no loss and not clean: its column is told with what mends it."""
    lab = new_lab(as_json({"id": 1.5}, {"id": 2**53 + 1}, {"id": 2}), columns={"id": "double"})
    lab.drain()
    (letter,) = lab.table(DEAD_LETTERS).scan().to_arrow().to_pylist()
    lab.table(DEAD_LETTERS).delete(EqualTo("_kafka_offset", 1))
    row = _rows_at(lab, 2)
    same = {name: letter[name] for name in ("_kafka_offset", "_kafka_timestamp")}
    for name, value in {"id": 2.0**53, **same}.items():
        field = row.schema.field(name)
        row = row.set_column(row.schema.get_field_index(name), field, pa.array([value], field.type))
    lab.table().append(row)
    found = lab.audit()
    assert (found.missing, found.differing, found.rounded, found.examples) == (0, 0, 1, ("rounded 0:1",))
    (column,) = found.rounded_columns
    assert column.mend("orders", lab.pipeline.layout) == "./sluice retype orders id 'long' --reason '...'"
    assert not found.is_clean


def test_nested_values_keys_and_headers_are_compared_too(new_lab: NewLab) -> None:
    """A change deep inside one list is a difference."""
    lab = new_lab([Record(b'{"tags": ["a", "b"]}', key=b"k", headers=[("h", b"1")])] * 3)
    lab.drain()
    row = _rows_at(lab, 1)
    other = row.set_column(
        row.schema.get_field_index("tags"),
        row.schema.field("tags"),
        pa.array([["a", "c"]], row.schema.field("tags").type),
    )
    lab.table().delete(EqualTo("_kafka_offset", 1))
    lab.table().append(other)
    found = lab.audit()
    assert (found.differing, found.missing, found.duplicates) == (1, 0, 0)
    assert found.examples == ("differing 0:1",)


WRONG_VALUES = {
    "big": 2**53,
    "ratio": 0.1 + 2**-56,
    "at": datetime(2024, 2, 29, 12, 0, 1, tzinfo=UTC),
    "price": Decimal("1.51"),
    "day": date(2024, 3, 1),
    "id": uuid.UUID(int=2).bytes,
    "tags": [("a", 2)],
    "point": {"x": 0.5, "names": ["a", None]},
    "_kafka_key": "K",
    "_kafka_headers": [{"key": "h", "value": b"2"}],
    "_kafka_timestamp": datetime(1970, 1, 1, tzinfo=UTC),
}


def test_a_wrong_value_of_each_kind_is_found_in_a_table(new_lab: NewLab) -> None:
    """One row for each kind of column, wrong by one step in it alone, among rows that are right."""
    value = {
        "big": 2**53 + 1,
        "ratio": 0.1,
        "at": "2024-02-29T12:00:00Z",
        "price": "1.50",
        "day": "2024-02-29",
        "id": str(uuid.UUID(int=1)),
        "tags": {"a": 1},
        "point": {"x": 0.25, "names": ["a", None]},
    }
    columns = {"price": "decimal(9, 2)", "day": "date", "id": "uuid", "tags": "map<string, long>"}
    record = Record(json.dumps(value).encode(), key=b"k", headers=[("h", b"1")])
    lab = new_lab([record] * (len(WRONG_VALUES) + 1), columns=columns)
    lab.drain()
    clean = lab.audit()
    assert clean.is_clean, clean
    rows = lab.table().scan().to_arrow().sort_by("_kafka_offset")
    for offset, (name, wrong) in enumerate(WRONG_VALUES.items()):
        items = rows.column(name).to_pylist()
        items[offset] = wrong
        field = rows.schema.field(name)
        rows = rows.set_column(rows.schema.get_field_index(name), field, pa.array(items, field.type))
    lab.table().overwrite(rows)
    found = lab.audit()
    assert (found.differing, found.missing, found.duplicates) == (len(WRONG_VALUES), 0, 0)


def test_a_uuid_inside_other_types_is_drained_and_compared(new_lab: NewLab) -> None:
    """Arrow builds no UUID there from Python's values; it takes the bytes for one afterwards."""
    value = {"owner": {"id": str(uuid.UUID(int=1))}, "all": [str(uuid.UUID(int=2)), None]}
    columns = {"owner": "struct<id: uuid>", "all": "list<uuid>"}
    lab = new_lab([Record(json.dumps(value).encode()), Record(b"{}")], columns=columns)
    lab.drain()
    found = lab.audit()
    assert found.is_clean, found
    assert (found.rows, found.dead_letters) == (2, 0)


def test_what_kafka_no_longer_has_is_checked_for_doubles_only(new_lab: NewLab) -> None:
    """Offsets below the low watermark count as gone; a doubled row there is found all the same."""
    lab = new_lab(RECORDS, partitions=2)
    lab.drain()
    new_lab.kafka.delete_records(lab.pipeline.topic, {0: 10})
    lab.table().append(_rows_at(lab, 3))
    _lose(lab.table(), 12)
    found = lab.audit()
    assert (found.gone, found.duplicates, found.missing) == (10, 1, 1)
    assert set(found.examples) == {"doubled 0:3", "missing 0:12"}


def test_what_another_writer_took_out_is_removed_and_not_missing(new_lab: NewLab) -> None:
    """A DELETE, one of dead letters and a TRUNCATE are told apart from a loss while history shows them."""
    lab = new_lab(RECORDS, partitions=2)
    lab.drain()
    lab.table().delete(EqualTo("_kafka_offset", 7))
    lab.table(DEAD_LETTERS).delete(EqualTo("_kafka_offset", 20))
    _lose(lab.table(), 9)
    found = lab.audit()
    assert (found.missing, found.removed) == (1, 2)
    assert set(found.examples) == {"missing 0:9", "removed 0:7", "removed 0:20"}
    lab.table().delete(AlwaysTrue())
    found = lab.audit()
    assert (found.rows, found.missing, found.removed) == (0, 1, 21)
    table = lab.table()
    older = [each.snapshot_id for each in table.metadata.snapshots if each is not table.current_snapshot()]
    table.maintenance.expire_snapshots().by_ids(older).commit()
    found = lab.audit()
    assert (found.missing, found.removed) == (21, 1)


def test_a_bounded_audit_looks_at_the_newest_offsets_of_every_partition(new_lab: NewLab) -> None:
    """The bound is shared by the partitions, and a loss before it is not seen."""
    lab = new_lab(RECORDS, partitions=2)
    lab.drain()
    _lose(lab.table(), 3)
    with lab.connections() as connections:
        found = audit(lab.pipeline, connections, newest_offsets=6)
        assert (found.rows + found.dead_letters + found.tombstones, found.missing) == (6, 0)
        assert audit(lab.pipeline, connections, newest_offsets=20).missing == 1


@pytest.mark.parametrize("start", ["earliest", {0: 3}])
def test_what_the_pipeline_never_was_to_drain_is_not_missing(new_lab: NewLab, start: object) -> None:
    """Offsets before the start are not compared, also when the table's first snapshot has expired."""
    lab = new_lab(RECORDS[:10], start=start)
    lab.drain()
    new_lab.produce(lab, RECORDS[10:20])
    lab.drain()
    first = 0 if start == "earliest" else 3
    assert (lab.audit().is_clean, lab.audit().rows) == (True, 20 - first)
    table = lab.table()
    table.maintenance.expire_snapshots().by_id(table.metadata.snapshots[0].snapshot_id).commit()
    _lose(lab.table(), 4)
    found = lab.audit()
    assert (found.rows, found.missing) == (19 - first, 1)
    assert found.examples == ("missing 0:4",)


def test_the_audit_holds_one_window_at_a_time(new_lab: NewLab, monkeypatch: pytest.MonkeyPatch) -> None:
    """No scan returns more rows than a window has offsets, and progress is told after each."""
    lab = new_lab(RECORDS, partitions=2)
    lab.drain()
    monkeypatch.setattr(stretches_module, "WINDOW_OFFSETS", 8)
    held: list[int] = []

    def recorded(*arguments: object) -> object:
        rows = rows_in(*arguments)  # type: ignore[arg-type]
        held.append(rows.num_rows)
        return rows

    monkeypatch.setattr(audit_module, "rows_in", recorded)
    told: list[tuple[int, int]] = []
    with lab.connections() as connections:
        found = audit(lab.pipeline, connections, on_progress=lambda done, total: told.append((done, total)))
    assert found.is_clean, found
    assert found.rows == 21
    assert held == [8, 8, 4, 1]
    assert told == [(8, 23), (16, 23), (22, 23), (23, 23)]
