"""A pipeline with expressions: from records to rows, through audit, replay, trace and preview."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import fastavro
import pytest

from prove.lab.kafka_server import Record
from prove.lab.pipeline_lab import by_offset, configure
from spark_jobs.audit.trace import trace
from spark_jobs.audit.trace_answers import Where
from spark_jobs.preview.preview import preview
from spark_jobs.protocol.commit_summary import CommitSummary
from spark_jobs.protocol.offsets import OffsetRange
from spark_jobs.replay.diff import diff_replay
from spark_jobs.replay.plan import plan_replay
from tests.support.new_lab import DEAD_LETTERS, as_json, column_types, summary

if TYPE_CHECKING:
    from tests.support.new_lab import NewLab

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

NOON_MS = 1_767_268_800_123
DAY = date(2026, 1, 1)
COLUMNS: dict[str, Any] = {
    "amount": "decimal(12,2)",
    "quantity": "long",
    "total": {"type": "decimal(12,2)", "sql": "amount * quantity"},
    "who": {"type": "string", "jmespath": "customer.name"},
    "qty": {"type": "long", "from": "text"},
    "at": {"type": "timestamptz", "from": "epoch_ms"},
    "land": {"type": "string", "sql": "upper(country)"},
}
FILTER = "country IN ('NO', 'SE') AND amount > 0"
VALUES: list[dict[str, Any]] = [
    {"amount": "1.50", "quantity": 2, "country": "NO", "customer": {"name": "a"}, "qty": "7", "at": NOON_MS},
    {"amount": 1, "quantity": 1, "country": "DK"},
    {"amount": 1, "quantity": 1},
    {"amount": 1, "quantity": 1, "country": "SE", "qty": "seven"},
    {"amount": 2, "quantity": 2, "country": "SE", "extra": [1]},
]


def test_json_is_shaped_and_what_is_left_out_is_accounted_for(new_lab: NewLab) -> None:
    """Rows, letters and what the filter leaves out: the same when it is audited, traced and replayed."""
    lab = new_lab(
        as_json(*VALUES),
        columns=COLUMNS,
        filter=FILTER,
        schema={"new_fields": "ignore"},
        quality=[
            {
                "name": "sane",
                "when": "gate",
                "expectations": [{"expect_column_values_to_not_be_null": {"column": "total"}}],
            }
        ],
        partition_by=["land"],
    )
    with lab.connections() as connections:
        seen = preview(lab.pipeline, connections, max_records=100)
    assert (seen.balance["filtered"], seen.sources["total"]) == (2, "sql: amount * quantity")
    (batch,) = lab.drain().batches
    assert batch.counts.balance == {"rows": 2, "dead_letters": 1, "tombstones": 0, "gaps": 0, "filtered": 2}
    assert batch.counts.filtered_reasons == seen.filtered_reasons == {"missing": 1, "excluded": 1}
    assert CommitSummary(summary(lab.table().current_snapshot())).filtered_reasons == seen.filtered_reasons
    assert column_types(lab).keys() == COLUMNS.keys()
    rows, letters = by_offset(lab), by_offset(lab, DEAD_LETTERS)
    first = {name: rows[0, 0][name] for name in COLUMNS}
    assert first == {
        "amount": Decimal("1.50"),
        "quantity": 2,
        "total": Decimal("3.00"),
        "who": "a",
        "qty": 7,
        "at": datetime(2026, 1, 1, 12, 0, 0, 123000, UTC),
        "land": "NO",
    }
    assert [*rows] == [(0, 0), (0, 4)]
    assert (letters[0, 3]["phase"], letters[0, 3]["field"]) == ("transform", "qty")
    audited = lab.audit()
    assert audited.is_clean
    assert (audited.rows, audited.dead_letters, audited.filtered, audited.missing) == (2, 1, 2, 0)
    with lab.connections() as connections:
        traced = [trace(lab.pipeline, connections, 0, offset)[0] for offset in (1, 2)]
    assert [each.where for each in traced] == [Where.FILTERED] * 2
    assert "excluded" in traced[0].why
    assert "missing" in traced[1].why
    lab.replay(OffsetRange(0, 0, 5))
    without = ("_ingested_at",)
    assert _without(by_offset(lab), *without) == _without(rows, *without)
    configure(lab, f"pipelines/{lab.pipeline.name}", {"filter": "country = 'DK' OR amount = 2"})
    audited = lab.audit()
    assert audited.is_clean  # an earlier configuration made them: one row too many, one too few
    assert (audited.outdated, audited.differing, audited.missing, audited.filtered) == (2, 0, 0, 1)
    with lab.connections() as connections:
        found = diff_replay(
            lab.pipeline, connections, plan_replay(lab.pipeline, connections, (OffsetRange(0, 0, 5),))
        )
    assert (found.rows_added, found.rows_removed, found.rows_same, found.filtered) == (1, 1, 1, 2)
    assert found.records_gone == 0
    lab.replay(OffsetRange(0, 0, 5))
    assert [*by_offset(lab)] == [(0, 1), (0, 4)]
    assert lab.audit().is_clean


def _without(
    rows: dict[tuple[int, int], dict[str, Any]], *names: str
) -> dict[tuple[int, int], dict[str, Any]]:
    return {at: {k: v for k, v in row.items() if k not in names} for at, row in rows.items()}


ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "amount", "type": "double"},
        {"name": "quantity", "type": ["null", "long"]},
        {"name": "total", "type": "string"},
        {"name": "qty", "type": "string"},
    ],
}


def test_avro_is_shaped_by_its_columns(new_lab: NewLab) -> None:
    """A filter of all records but two, a column beside a field of its name, a text that is a number."""

    def order(amount: float, quantity: int | None, qty: str = "1") -> Record:
        out = io.BytesIO()
        value = {"amount": amount, "quantity": quantity, "total": "t", "qty": qty}
        fastavro.schemaless_writer(out, fastavro.parse_schema(ORDER), value)
        return Record(out.getvalue())

    lab = new_lab(
        [order(1.5, 2), order(1.5, None), order(-1.0, 1), order(1.0, 1, "x")],
        columns={
            "total": {"type": "double", "sql": "amount * quantity"},
            "qty": {"type": "long", "from": "text"},
        },
        filter="amount * quantity > 0",
        value={"format": "avro", "file": "order.avsc", "framing": "none"},
    )
    (lab.path.parent / "order.avsc").write_text(json.dumps(ORDER))
    (batch,) = lab.drain().batches
    assert batch.counts.balance == {"rows": 1, "dead_letters": 1, "tombstones": 0, "gaps": 0, "filtered": 2}
    (row,) = by_offset(lab).values()
    assert (row["total"], row["total_2"], row["qty"], row["amount"]) == (3.0, "t", 1, 1.5)
    audited = lab.audit()
    assert audited.is_clean
    assert audited.filtered == 2


def test_dead_letters_have_columns_and_partitions_of_their_own(new_lab: NewLab) -> None:
    """From their birth, and as they are declared later; what lands before keeps null and its place."""
    day = {"type": "date", "sql": "CAST(_kafka_timestamp AS DATE)"}
    records = [Record(b"kind=refund", timestamp_ms=NOON_MS), Record(b"\xff", timestamp_ms=NOON_MS)]
    lab = new_lab(
        [*records, *as_json({"id": 1})], dead_letters={"columns": {"day": day}, "partition_by": ["day"]}
    )
    lab = replace(lab, is_here=True)
    lab.drain()
    table = lab.table(DEAD_LETTERS)
    (field,) = table.spec().fields
    assert (field.name, [row["day"] for row in by_offset(lab, DEAD_LETTERS).values()]) == ("day", [DAY, DAY])
    assert [task.file.partition[0] for task in table.scan().plan_files()] == [(DAY - date(1970, 1, 1)).days]
    kind = {"type": "string", "sql": "regexp_extract(value, 'kind=(.*)', 1)"}
    letters = {"columns": {"kind": kind}, "partition_by": ["phase"]}
    configure(lab, f"pipelines/{lab.pipeline.name}", {"dead_letters": letters})
    new_lab.produce(lab, [Record(b"kind=void", timestamp_ms=NOON_MS)])
    lab.drain()
    rows = by_offset(lab, DEAD_LETTERS)
    there = [(rows[0, offset]["day"], rows[0, offset]["kind"]) for offset in (0, 1, 3)]
    assert there == [(DAY, None), (DAY, None), (None, "void")]
    assert [field.name for field in lab.table(DEAD_LETTERS).spec().fields] == ["phase"]
    assert lab.audit().is_clean
    lab.replay(OffsetRange(0, 0, 4))
    rows = by_offset(lab, DEAD_LETTERS)
    assert [rows[0, offset]["kind"] for offset in (0, 1, 3)] == ["refund", None, "void"]
