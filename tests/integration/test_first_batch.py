"""The first batch of a new table: a topic that cannot be read is told what it is, and nothing is made."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from prove.lab.kafka_server import Record
from prove.lab.pipeline_lab import TABLE, by_offset, configure
from spark_jobs.connections.connect import load_fresh
from spark_jobs.preview.preview import preview
from spark_jobs.protocol.errors import BadRecord
from tests.support.new_lab import DEAD_LETTERS, as_json

if TYPE_CHECKING:
    from tests.support.new_lab import NewLab

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

FRAMED = b"\0\0\0\0\x07\x02abc"


def test_a_first_batch_of_dead_letters_alone_makes_no_table(new_lab: NewLab) -> None:
    """The run stops and says what the bytes look like; beside one readable record they are dead letters."""
    lab = new_lab([Record(None), *[Record(FRAMED)] * 20])
    with pytest.raises(
        BadRecord, match=r"none of the first 20 values .*schema registry.*schema id 7"
    ) as refused:
        lab.drain()
    assert refused.value.code == "first-batch-unreadable"
    with lab.connections() as connections:
        seen = preview(lab.pipeline, connections, max_records=100)
        assert load_fresh(connections, TABLE) is None
    assert seen.is_unreadable
    assert "schema id 7" in seen.notes[0]
    new_lab.produce(lab, as_json({"id": 1}))
    (batch,) = lab.drain().batches
    assert (batch.counts.balance.rows, batch.counts.balance.dead_letters) == (1, 20)
    assert len(by_offset(lab, DEAD_LETTERS)) == 20


def test_a_first_batch_cut_short_by_its_bytes_is_read_further(new_lab: NewLab) -> None:
    """Up to its records: text in front of the objects is dead letters, and their columns are known."""
    lab = new_lab([b"# from here on"] * 300 + as_json({"id": 1}), max_batch_bytes="64KiB")
    batches = lab.drain().batches
    assert sum(batch.counts.balance.dead_letters for batch in batches) == 300
    assert [row["id"] for row in by_offset(lab).values()] == [1]
    assert len(batches) > 1


@pytest.mark.parametrize(
    ("total", "declared", "told", "fitting"),
    [
        ("9.50 EUR", {"total": "long"}, "total is declared long, and of 5 values 5 strings", "string"),
        (1 << 64, {}, "total has no type for 5 integers past 64 bits .*decimal", "decimal(38,0)"),
    ],
)
def test_a_first_batch_that_fits_no_column_makes_no_table(
    new_lab: NewLab, total: object, declared: dict[str, str], told: str, fitting: str
) -> None:
    """It names the column; once that is declared as it is, the same records are rows."""
    lab = new_lab(as_json(*({"id": n, "total": total} for n in range(5))), columns=declared)
    with pytest.raises(BadRecord, match=told) as refused:
        lab.drain()
    assert refused.value.code == "first-batch-unreadable"
    with lab.connections() as connections:
        assert preview(lab.pipeline, connections, max_records=100).is_unreadable
        assert load_fresh(connections, TABLE) is None
    configure(lab, "pipelines/orders", {"columns": {"total": fitting}})
    (batch,) = lab.drain().batches
    assert (batch.counts.balance.rows, batch.counts.balance.dead_letters) == (5, 0)


@pytest.mark.parametrize(
    ("values", "columns", "reason"),
    [
        (({"id": 1}, {"id": 2}), {"ID": "int"}, "2 of 2 are refused for id"),
        (({"a": "x", "b": 1}, {"a": "y", "b": 2}, {"a": 1, "b": "z"}), {"a": "long", "b": "long"}, "2 of 3"),
    ],
)
def test_a_first_batch_without_a_row_makes_no_table_whatever_the_reasons(
    new_lab: NewLab, values: tuple[dict[str, object], ...], columns: dict[str, str], reason: str
) -> None:
    """Each value refused for a field of its own, or for a name's case: the most frequent reason is told."""
    lab = new_lab(as_json(*values), columns=columns)
    with pytest.raises(BadRecord, match=reason) as refused:
        lab.drain()
    assert refused.value.code == "first-batch-unreadable"
    with lab.connections() as connections:
        assert load_fresh(connections, TABLE) is None
