"""A topic of CSV, drained: a header, Latin-1, declared types, and every question that is asked later."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from prove.lab.pipeline_lab import PIPELINE, configure
from spark_jobs.audit.trace import trace
from spark_jobs.audit.trace_answers import Where
from spark_jobs.formats.csv.lines import HEADER_LINES
from spark_jobs.preview.preview import preview
from spark_jobs.protocol.offsets import OffsetRange
from tests.support.new_lab import DEAD_LETTERS, NewLab, column_types

if TYPE_CHECKING:
    from pathlib import Path

    from prove.lab.kafka_server import KafkaBroker

pytestmark = pytest.mark.kafka

VALUE = {"format": "csv", "delimiter": ";", "columns": ["id", "name", "price"]}
HEADER = b"id;name;price\r\n"


def test_lines_of_csv_are_drained_audited_and_sent_through_again(kafka: KafkaBroker, tmp_path: Path) -> None:
    """Letters of a wrong encoding come in by a redrive with the right one; header lines are counted."""
    values = [HEADER, b"1;Ada;9.50\r\n", "2;Jürgen;".encode("latin-1"), b"3;x", b'4;"a;b";7', HEADER]
    new_lab = NewLab(kafka, "", tmp_path, is_here=True)
    lab = new_lab([*values, None], value=VALUE, columns={"id": "long", "price": "decimal(10, 2)"})
    with lab.connections() as connections:
        seen = preview(lab.pipeline, connections, max_records=100)
    assert (seen.balance.rows, seen.balance.dead_letters, seen.balance.tombstones) == (2, 4, 1)
    assert (lab.drain().balance.rows, lab.drain().balance.rows) == (2, 0)
    assert column_types(lab) == {"id": "int64", "name": "large_string", "price": "decimal128(10, 2)"}
    errors = lab.rows(DEAD_LETTERS).to_pydict()
    told = dict(zip(errors["_kafka_offset"], errors["error"], strict=True))
    assert {at: told[at] for at in (2, 3)} == {
        2: "the value is not utf-8",
        3: "fields in the line: 2, names: 3",
    }
    assert told[0] == told[5] == "a string where the column has an integer"
    configure(lab, f"pipelines/{PIPELINE}", {"value": {**VALUE, "header": True, "encoding": "latin-1"}})
    redriven = lab.redrive().balance
    assert (redriven.rows, redriven.dead_letters, redriven.further) == (1, 1, {HEADER_LINES: 2})
    assert lab.rows(DEAD_LETTERS).column("_kafka_offset").to_pylist() == [3]
    names = {row["id"]: row["name"] for row in lab.rows().to_pylist()}
    assert names == {1: "Ada", 2: "Jürgen", 4: "a;b"}
    assert lab.replay(OffsetRange(0, 0, 7)).balance.further == {HEADER_LINES: 2}
    audited = lab.audit()
    assert (audited.passed, audited.is_clean) == ({HEADER_LINES: 2}, True)
    with lab.connections() as connections:
        (traced,) = trace(lab.pipeline, connections, 0, 5)
    assert (traced.where, "header lines" in traced.why) == (Where.PASSED, True)
