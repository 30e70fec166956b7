"""A mirror stops at a change that cannot be a row, before anything says that its files are complete."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from prove.lab.beside_changes import BESIDE
from prove.lab.debezium_events import TIME, Column, Source
from prove.lab.kafka_server import Record
from prove.lab.pipeline_lab import PIPELINE, configure
from spark_jobs.acts.act import skip
from spark_jobs.audit.audit import audit
from spark_jobs.audit.trace import trace
from spark_jobs.audit.trace_answers import Where
from spark_jobs.books.history import history
from spark_jobs.protocol.errors import BadRecord, ConfigError
from spark_jobs.protocol.offsets import OffsetRange, OffsetRanges
from tests.support.new_lab import DEAD_LETTERS, NewLab

if TYPE_CHECKING:
    from pathlib import Path

    from prove.lab.kafka_server import KafkaBroker
    from prove.lab.pipeline_lab import Lab

pytestmark = pytest.mark.kafka

PLAIN = Source()


@pytest.fixture
def new_lab(kafka: KafkaBroker, tmp_path: Path) -> NewLab:
    """Pipelines whose tasks run in the process that drains."""
    return NewLab(kafka, "", tmp_path, is_here=True)


def change(number: int, **row: object) -> Record:
    """Return a change of one key."""
    return Record(PLAIN.event("c", {"id": number, **row}), key=PLAIN.key(number))


def ids(lab: Lab) -> set[int]:
    """Return the keys of the mirror's rows."""
    return {*lab.rows().column("id").to_pylist()}


def test_a_bad_change_stops_a_mirror_unless_it_may_be_a_dead_letter(new_lab: NewLab) -> None:
    """Only what is before it is committed, however often it is tried; it is told by place and column."""
    lab = new_lab([change(1, qty=1)], layout="mirror", columns={"qty": "int"})
    assert lab.drain().balance.dead_letters == 0
    keyless = Record(PLAIN.event("u", {"id": 1, "qty": 2}))
    new_lab.produce(lab, [change(2, qty=2), change(3, qty="many"), keyless])
    for offsets in (3, 2):
        with pytest.raises(BadRecord) as raised:
            lab.drain()
        assert raised.value.code == "bad-change"
        assert f"2 changes in {offsets}" in raised.value.message
        assert "0:2 (decode, column qty)" in raised.value.message
        assert ids(lab) == {1, 2}
    configure(lab, f"pipelines/{PIPELINE}", {"mirror": {"bad_changes": "dead_letters"}})
    result = lab.drain()
    assert (result.recovery.adopted, result.balance.dead_letters) == ((), 2)
    assert lab.rows(DEAD_LETTERS).num_rows == 2


def test_the_skip_that_a_bad_change_names_works_as_it_is_printed(new_lab: NewLab) -> None:
    """What is before it in its partition, and all of the others, is in the table when the drain says so."""
    bad = [change(2, qty="many"), change(5, qty="more")]
    told = [change(1, qty=1), bad[0], change(3, qty=3), bad[1], change(4, qty=4)]
    placed = [replace(each, partition=0) for each in told] + [replace(change(9, qty=9), partition=1)]
    lab = new_lab(placed, partitions=2, layout="mirror", columns={"qty": "int"})
    for there in ({1, 9}, {1, 3, 9}):
        with pytest.raises(BadRecord) as raised:
            lab.drain()
        assert ids(lab) == there
        command = re.search(rf"\./sluice skip {PIPELINE} (\d+):(\d+)-(\d+) --reason", raised.value.hint)
        assert command is not None
        named = OffsetRange(*map(int, command.groups()))
        with lab.connections() as connections:
            skip(lab.pipeline, connections, OffsetRanges.of([named]), reason="...")
    assert lab.drain().stopped == "caught-up"
    assert ids(lab) == {1, 3, 4, 9}


def test_a_column_of_another_type_without_schemas_has_its_way_out(new_lab: NewLab) -> None:
    """Declared and told anew, by a rebuild; a column beside it is of events with schemas."""
    beside = {"incompatible": "new_column"}
    lab = new_lab([change(1, qty=1)], layout="mirror", schema=beside)
    lab.drain()
    new_lab.produce(lab, [change(1, qty="many")])
    with pytest.raises(BadRecord) as raised:
        lab.drain()
    assert "`columns:`" in raised.value.hint
    assert f"./sluice rebuild {PIPELINE} --from TIME" in raised.value.hint
    assert "`schema: {incompatible: new_column}` has no effect" in raised.value.hint


def test_a_topic_without_keys_is_no_mirror(new_lab: NewLab) -> None:
    """No table is made; a table of changes can be."""
    lab = new_lab([Record(PLAIN.event("c", {"id": 1}))], layout="mirror")
    with pytest.raises(ConfigError) as raised:
        lab.drain()
    assert raised.value.code == "mirror-without-key"
    configure(lab, f"pipelines/{PIPELINE}", {"layout": "changes"})
    assert lab.drain().balance.rows == 1


@pytest.mark.parametrize("layout", ["changes", "mirror"])
def test_what_is_beside_changes_stops_nothing(new_lab: NewLab, layout: str) -> None:
    """Each kind is a term of the batch's balance and of the books, and counted by audits; a trace says it."""
    beside = [
        Record(json.dumps(value).encode(), key=json.dumps(key).encode()) for key, value in BESIDE.values()
    ]
    lab = new_lab([change(1, qty=1), *beside, change(2, qty=2)], layout=layout)
    drained = lab.drain()
    assert drained.balance.further == dict.fromkeys(BESIDE, 1)
    assert (drained.balance.rows, drained.balance.dead_letters, drained.balance.offsets) == (2, 0, 6)
    with lab.connections() as connections:
        (line,) = history(lab.pipeline, connections, limit=10)
        found = audit(lab.pipeline, connections)
        (traced,) = trace(lab.pipeline, connections, 0, 1)
    assert line.entry.counts.balance.further == dict.fromkeys(BESIDE, 1)
    assert (found.passed, found.records, found.is_clean) == (dict.fromkeys(BESIDE, 1), 6, True)
    assert (traced.where, "heartbeats" in traced.why) == (Where.PASSED, True)


@pytest.mark.parametrize("layout", ["changes", "mirror"])
def test_finer_times_of_a_database_come_in_as_declared(new_lab: NewLab, layout: str) -> None:
    """Cut to the microsecond, or as text with all digits; audits find it right."""
    source = Source(
        {
            "id": Column("int32", optional=False),
            "zoned": Column("string", f"{TIME}ZonedTimestamp"),
            "clock": Column("int64", f"{TIME}MicroTime"),
            "nanos": Column("int64", f"{TIME}NanoTimestamp"),
        }
    )
    row = {"id": 1, "zoned": "1969-12-31T23:59:59.9999999Z", "clock": -1, "nanos": -1}
    columns = {
        "zoned": {"type": "timestamptz", "fit": "truncate"},
        "clock": "string",
        "nanos": {"type": "timestamp", "fit": "truncate"},
    }
    lab = new_lab([Record(source.event("c", row), key=source.key(1))], layout=layout, columns=columns)
    assert lab.drain().balance.rows == 1
    (made,) = lab.rows().select([*columns]).to_pylist()
    last = datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC)
    assert made == {"zoned": last, "clock": "-00:00:00.000001", "nanos": last.replace(tzinfo=None)}
    with lab.connections() as connections:
        assert audit(lab.pipeline, connections).is_clean
