"""`layout: changes` end to end: events of a database's table, each once, through all that a drain has."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from prove.lab.debezium_events import Column, Source, base64_of, decimal
from prove.lab.fresh_oracle import ask
from prove.lab.kafka_server import Record
from prove.lab.pipeline_lab import by_offset, configure
from spark_jobs.preview.preview import Preview, preview
from spark_jobs.protocol.errors import ConfigError, SluiceError
from spark_jobs.protocol.offsets import OffsetRange
from tests.support.new_lab import DEAD_LETTERS, NewLab

if TYPE_CHECKING:
    from pathlib import Path

    from prove.lab.kafka_server import KafkaBroker
    from prove.lab.pipeline_lab import Lab

pytestmark = pytest.mark.kafka

EVENTS = "SELECT _kafka_offset, _cdc_operation, _cdc_row_id, id, price, note FROM orders ORDER BY ALL"
ID = Column("int32", optional=False)
FIRST = Source({"id": ID, "qty": Column("int32"), "price": decimal(9, 2)})
SECOND = Source({"id": ID, "qty": Column("int64"), "price": decimal(9, 4), "note": Column("string")})


@pytest.fixture
def new_lab(kafka: KafkaBroker, tmp_path: Path) -> NewLab:
    """Pipelines whose tasks run in the process that drains."""
    return NewLab(kafka, "", tmp_path, is_here=True)


def test_events_of_a_table_that_is_altered(new_lab: NewLab) -> None:
    """Snapshot, changes, deletes, a truncate; columns widened, added and of another scale; all told again."""
    row = {"id": 1, "qty": 5, "price": base64_of(250)}
    lab = new_lab(
        [
            Record(FIRST.event("r", row), key=FIRST.key(1)),
            Record(FIRST.event("d", None, before={"id": 1, "qty": 0}), key=FIRST.key(1)),
            Record(None, key=FIRST.key(1)),
        ],
        layout="changes",
        hot=True,
        filter="_cdc_operation <> 'r' OR qty > 1",
    )
    lab.drain()
    altered = {"id": 2, "qty": 1 << 40, "price": base64_of(2_500_000), "note": "n"}
    new_lab.produce(
        lab,
        [
            Record(SECOND.event("c", altered), key=SECOND.key(2)),
            Record(FIRST.event("r", {**row, "qty": 1}), key=FIRST.key(1)),
            Record(SECOND.event("t", None)),
            Record(SECOND.event("c", {**altered, "price": base64_of(10**10)}), key=SECOND.key(2)),
            Record(b"{}", key=SECOND.key(2)),
        ],
    )
    (drained,) = lab.drain().batches
    wanted = {"rows": 2, "dead_letters": 2, "tombstones": 0, "gaps": 0, "filtered": 1}
    assert drained.counts.balance == wanted
    rows = by_offset(lab)
    said = {
        at: (
            row["_cdc_operation"],
            row["id"],
            row["qty"],
            str(row["price"]),
            str(row["price_2"]),
            row["note"],
        )
        for (_, at), row in rows.items()
    }
    assert said == {
        0: ("r", 1, 5, "2.50", "None", None),
        1: ("d", 1, None, "None", "None", None),
        3: ("c", 2, 1 << 40, "None", "250.0000", "n"),
        5: ("t", None, None, "None", "None", None),
    }
    letters = {at: letter["field"] for (_, at), letter in by_offset(lab, DEAD_LETTERS).items()}
    assert letters == {6: "price", 7: "op"}
    lab.redrive()
    assert {letter["failures"] for letter in by_offset(lab, DEAD_LETTERS).values()} == {2}
    lab.replay(OffsetRange(0, 0, 8))
    assert by_offset(lab).keys() == rows.keys()
    new_lab.produce(lab, [Record(FIRST.event("u", row), key=FIRST.key(1))])
    fresh = ask(lab, EVENTS)
    lab.drain()
    assert ask(lab, EVENTS) == fresh
    found = lab.audit()
    assert (found.is_clean, found.rows) == (True, 5)


def test_events_without_schemas_have_declared_types(new_lab: NewLab) -> None:
    """And a decimal as bytes stops the drain, and `preview`, with nothing committed."""
    source = Source()
    declared = {"amount": "decimal(12,2)", "at": {"type": "timestamp", "from": "epoch_us"}}
    row = {"id": 1, "amount": "12.50", "at": 1_700_000_000_123_456}
    lab = new_lab([Record(source.event("c", row), key=source.key(1))], layout="changes", columns=declared)
    lab.drain()
    (made,) = by_offset(lab).values()
    assert (str(made["amount"]), made["at"].isoformat()) == ("12.50", "2023-11-14T22:13:20.123456")
    assert lab.audit().is_clean
    new_lab.produce(lab, [Record(source.event("c", {**row, "amount": "BAE="}), key=source.key(2))])
    for refused in (lab.drain, lambda: _preview(lab)):
        with pytest.raises(ConfigError) as error:
            refused()
        assert error.value.code == "debezium-decimal-without-schema"
    assert len(by_offset(lab)) == 1


def test_upserts_and_their_deletes_are_rows(new_lab: NewLab) -> None:
    """A table of another layout is refused."""
    records = [Record(b'{"id":1,"name":"a"}', key=b'{"id":1}'), Record(None, key=b'{"id":1}')]
    route = {"by": "_cdc_operation", "tables": {"d": "lab.gone"}}
    lab = new_lab(records, layout="changes", cdc={"envelope": "upsert"}, route=route)
    lab.drain()
    rows = {
        table: [(row["_cdc_operation"], row["id"], row.get("name")) for row in by_offset(lab, table).values()]
        for table in ("lab.orders", "lab.gone")
    }
    assert rows == {"lab.orders": [("u", 1, "a")], "lab.gone": [("d", 1, None)]}
    assert lab.audit().is_clean
    configure(lab, "pipelines/orders", {"layout": "flat", "cdc": None})
    with pytest.raises(ConfigError) as refused:
        lab.drain()
    assert refused.value.code == "column-clash"


def test_a_topic_that_holds_no_events_makes_no_table(new_lab: NewLab) -> None:
    """It says what to write where a connector takes the envelope off."""
    lab = new_lab([b'{"id":1}', b'{"id":2}'], layout="changes")
    with pytest.raises(SluiceError) as refused:
        lab.drain()
    assert refused.value.code == "first-batch-unreadable"
    assert "envelope: upsert" in refused.value.hint


def _preview(lab: Lab) -> Preview:
    with lab.connections() as connections:
        return preview(lab.pipeline, connections, max_records=10)
