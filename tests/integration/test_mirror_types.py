"""A mirror whose source gave columns other types: drains stop, and a rebuild takes them in one commit."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.types import StringType

from prove.lab.debezium_events import Column, Source, base64_of, decimal
from prove.lab.kafka_server import Record
from prove.lab.pipeline_lab import PIPELINE, configure, progress
from spark_jobs.acts.act import pause
from spark_jobs.acts.rollback import rollback
from spark_jobs.audit.trace import trace
from spark_jobs.drain import table_columns
from spark_jobs.lake.moments import Moment
from spark_jobs.lake.tables import evolve_table
from spark_jobs.protocol.errors import BadRecord, CommitConflict, ConfigError
from spark_jobs.query.query import query
from spark_jobs.replay.rebuild import rebuild
from tests.support.lake import Once
from tests.support.new_lab import NewLab, column_types

if TYPE_CHECKING:
    from pathlib import Path

    from prove.lab.kafka_server import KafkaBroker
    from prove.lab.pipeline_lab import Lab

pytestmark = pytest.mark.kafka

_INT, _TEXT = Column("int32"), Column("string")
_ID = Column("int32", optional=False)
BEFORE = Source({"id": _ID, "qty": _INT, "price": decimal(9, 2), "note": _TEXT})
AFTER = Source({"id": _ID, "qty": _TEXT, "price": decimal(11, 4), "note": _TEXT, "more": _INT})


@pytest.fixture
def new_lab(kafka: KafkaBroker, tmp_path: Path) -> NewLab:
    """Pipelines whose tasks run in the process that drains."""
    return NewLab(kafka, "", tmp_path, is_here=True)


@dataclass
class Telling:
    """What a source tells, each time at a later place of its log."""

    lsn: int = 100

    def __call__(self, source: Source, op: str, key: Any, partition: int = 0, **row: Any) -> Record:
        """Return a change of one key."""
        self.lsn += 10
        whole = {name: row.get(name) for name in source.columns} | {"id": key}
        event = source.event(op, None if op == "d" else whole, lsn=self.lsn)
        return Record(event, key=source.key(key), partition=partition)


def rows_of(lab: Lab, snapshot_id: int | None = None) -> dict[Any, tuple[Any, ...]]:
    """Return the mirror's rows by key, by PyIceberg's own reader."""
    rows = lab.table().scan(snapshot_id=snapshot_id).to_arrow().to_pylist()
    names = [name for name in rows[0] if not name.startswith("_") and name != "id"]
    found = {row["id"]: tuple(row[name] for name in names) for row in rows}
    assert len(found) == len(rows)
    return found


def make_anew(lab: Lab, **settings: Any) -> None:
    """Rebuild."""
    with lab.connections() as connections:
        rebuild(lab.pipeline, connections, reason="test", **settings)


def stopped(lab: Lab) -> ConfigError:
    """Return why a drain stops, and that nothing was committed."""
    before = lab.table().metadata.current_snapshot_id, lab.table().schema()
    with pytest.raises(ConfigError) as raised:
        lab.drain()
    assert raised.value.code == "schema-incompatible"
    assert (lab.table().metadata.current_snapshot_id, lab.table().schema()) == before
    return raised.value


def test_a_rebuild_takes_the_types_that_the_source_has_by_now(new_lab: NewLab) -> None:
    """In its one commit; earlier snapshots, audits, traces, queries, drains and rollbacks go on."""
    told = Telling()
    first = [told(BEFORE, "c", n, qty=n * 7, price=base64_of(150 + n), note="n") for n in (1, 2, 3)]
    lab = new_lab([*first, told(BEFORE, "d", 3)], layout="mirror")
    lab.drain()
    before, old_rows = lab.table().metadata.current_snapshot_id, rows_of(lab)
    assert old_rows == {1: (7, Decimal("1.51"), "n"), 2: (14, Decimal("1.52"), "n")}
    changed = told(AFTER, "u", 2, qty="many", price=base64_of(25_001), note="m", more=5)
    new_lab.produce(lab, [changed])
    assert f"./sluice rebuild {PIPELINE}" in stopped(lab).hint

    snapshots = len(lab.table().metadata.snapshots)
    make_anew(lab)
    assert len(lab.table().metadata.snapshots) == snapshots + 1
    new_rows = {1: ("7", Decimal("1.5100"), "n", None), 2: ("many", Decimal("2.5001"), "m", 5)}
    assert rows_of(lab) == new_rows
    assert column_types(lab) == {
        "id": "int32",
        "qty": "large_string",
        "price": "decimal128(11, 4)",
        "note": "large_string",
        "more": "int32",
    }
    assert lab.audit().is_clean
    assert rows_of(lab, before) == old_rows
    with lab.connections() as connections:
        assert trace(lab.pipeline, connections, 0, 0)
        for as_of, kind in ((None, "VARCHAR"), (Moment(snapshot_id=before), "INTEGER")):
            with query(lab.pipeline, connections, "SELECT typeof(qty) FROM orders", as_of=as_of) as answer:
                kinds = [row for batch in answer.batches for row in batch.column(0).to_pylist()]
            assert kinds == [kind] * 2

    new_lab.produce(lab, [told(AFTER, "c", 4, qty="four", price=base64_of(1), note="o", more=1)])
    lab.drain()
    new_rows[4] = ("four", Decimal("0.0001"), "o", 1)
    assert rows_of(lab) == new_rows
    make_anew(lab)  # the old events are converted once more
    assert rows_of(lab) == new_rows
    assert lab.audit().is_clean
    latest = lab.table().metadata.current_snapshot_id

    with lab.connections() as connections:
        rollback(lab.pipeline, connections, to_snapshot=before, reason="test")
    assert rows_of(lab) == old_rows
    stopped(lab)
    make_anew(lab)
    assert rows_of(lab) == new_rows
    assert rows_of(lab, latest) == new_rows
    assert lab.audit().is_clean
    assert lab.stray_files() == set()


def test_of_what_does_not_say_the_same_in_the_new_type_a_rebuild_makes_no_row(new_lab: NewLab) -> None:
    """It names column and value, and takes the type once all was told anew; so it does a key's."""
    told = Telling()
    first = [told(AFTER, "c", n, qty=qty, price=base64_of(25_001)) for n, qty in ((1, "12"), (2, "many"))]
    lab = new_lab(first, layout="mirror")
    lab.drain()
    new_lab.produce(lab, [told(BEFORE, "u", 1, qty=13, price=base64_of(250))])
    stopped(lab)
    with pytest.raises(BadRecord) as bad:
        make_anew(lab)
    assert "column qty" in bad.value.message
    assert "many" in bad.value.message
    assert "--from TIME" in bad.value.hint
    begin = progress(lab).next_offsets
    new_lab.produce(lab, [told(BEFORE, "r", n, qty=n, price=base64_of(1)) for n in (1, 2)])
    make_anew(lab, begins=begin)
    assert rows_of(lab) == {n: (n, Decimal("0.01"), None, None) for n in (1, 2)}

    other_key = Source({**BEFORE.columns, "id": Column("string", optional=False)})
    new_lab.produce(lab, [told(other_key, "u", "1", qty=2)])
    stopped(lab)
    with pytest.raises(ConfigError, match="one key could have two rows") as refused:
        make_anew(lab)
    assert "--from TIME" in refused.value.hint
    make_anew(lab, begins={0: sum(begin.values()) + 3})
    assert rows_of(lab) == {"1": (2, None, None, None)}
    assert lab.audit().is_clean


def test_without_a_schema_a_rebuild_takes_what_is_declared(new_lab: NewLab) -> None:
    """Nothing else tells a type."""
    told, bare = Telling(), Source()
    rows = [{"id": n, "qty": n * 7} for n in (1, 2)]
    lab = new_lab(
        [Record(bare.event("c", row, lsn=told.lsn + row["id"]), key=bare.key(row["id"])) for row in rows],
        layout="mirror",
    )
    lab.drain()
    configure(lab, f"pipelines/{PIPELINE}", {"columns": {"qty": "decimal(9,2)"}})
    with pytest.raises(ConfigError) as refused:
        lab.drain()
    assert refused.value.code == "column-clash"
    assert "./sluice rebuild orders --reason" in refused.value.hint
    make_anew(lab)
    assert rows_of(lab) == {n: (Decimal(n * 7),) for n in (1, 2)}
    lab.drain()
    assert lab.audit().is_clean


def test_a_column_that_comes_beside_a_rebuild_is_not_taken_for_its_own(new_lab: NewLab) -> None:
    """Their ids would be one: nothing is committed. With another commit beside it, it is staged again."""
    told = Telling()
    lab = new_lab([told(BEFORE, "c", 1, qty=7)], layout="mirror")
    lab.drain()
    new_lab.produce(lab, [told(AFTER, "u", 1, qty="many", more=1)])
    beside = Once("rebuild.before-swap", partial(_add_by_hand, lab))
    with lab.connections(fail_points=beside) as connections, pytest.raises(CommitConflict) as refused:
        rebuild(lab.pipeline, connections, reason="test")
    assert refused.value.code == "columns-changed"
    assert rows_of(lab) == {1: (7, None, None, None)}
    beside = Once("rebuild.before-swap", partial(_pause, lab))
    with lab.connections(fail_points=beside) as connections:
        rebuild(lab.pipeline, connections, reason="test")
    assert progress(lab).paused is not None
    assert rows_of(lab) == {1: ("many", None, None, None, 1)}
    assert lab.stray_files() == set()


def test_a_column_that_is_new_has_the_type_of_the_last_events_too(new_lab: NewLab) -> None:
    """Not that which it came with, where it got another before it was drained."""
    told, came = Telling(), Source({**BEFORE.columns, "more": _INT})
    altered = Source({**came.columns, "more": _TEXT})
    lab = new_lab([told(BEFORE, "c", 1, qty=7)], layout="mirror")
    lab.drain()
    new_lab.produce(lab, [told(came, "c", 2, qty=8, more=3), told(altered, "c", 3, qty=9, more="many")])
    stopped(lab)
    make_anew(lab)
    assert rows_of(lab) == {1: (7, None, None, None), 2: (8, None, None, "3"), 3: (9, None, None, "many")}
    assert lab.audit().is_clean


def test_what_is_read_twice_gets_its_columns_once(new_lab: NewLab, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rebuild writes its files anew without a bad change, and meets a field that it has not planned for."""
    monkeypatch.setattr(table_columns, "SAMPLED_RECORDS_PER_PARTITION", 1)
    told = Telling()
    lab = new_lab([told(BEFORE, "c", 1, qty=7)], layout="mirror", mirror={"bad_changes": "dead_letters"})
    lab.drain()
    extra = Source({**BEFORE.columns, "extra": _INT})
    more = [told(extra, "c", 3, qty=9, extra=1), told(BEFORE, "u", 2, note="__debezium_unavailable_value")]
    new_lab.produce(lab, [*more, told(AFTER, "u", 1, qty="many", more=5)])
    stopped(lab)
    make_anew(lab)
    assert rows_of(lab) == {1: ("many", None, None, 5, None), 3: ("9", None, None, None, 1)}
    assert lab.audit().is_clean


def _add_by_hand(lab: Lab) -> None:
    with lab.connections() as connections:
        evolve_table(connections.open_catalog, lab.pipeline.table, [(("by_hand",), StringType())])


def _pause(lab: Lab) -> None:
    with lab.connections() as connections:
        pause(lab.pipeline, connections, reason="test")
