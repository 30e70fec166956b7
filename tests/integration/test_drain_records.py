"""What becomes of single records: rows as they were sent, dead letters with their raw bytes, tombstones."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from prove.lab.kafka_server import Record
from prove.lab.pipeline_lab import by_offset, configure
from spark_jobs.preview.preview import KEY_ADVICE, preview
from spark_jobs.schema.iceberg_types import known_fields
from tests.support.new_lab import DEAD_LETTERS, as_json

if TYPE_CHECKING:
    from tests.support.new_lab import NewLab

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

HEADERS = [("trace", b"\x00\xff"), ("trace", b"2"), ("empty", None)]
NOON_MS = 1_767_268_800_123


def test_what_does_not_fit_is_a_dead_letter_that_names_the_field(new_lab: NewLab) -> None:
    """Never a changed value: phase, field and reason beside the raw key, value and headers."""
    bad: list[tuple[bytes, str, str | None, str]] = [
        (b'{"n": 1.5}', "decode", "n", "integer"),
        (b'{"n": 1.0e400}', "decode", "n", "integer"),
        (b'{"n": 9223372036854775808}', "decode", "n", "past 64 bits"),
        (b'{"n": "1"}', "decode", "n", "integer"),
        (b'{"n": true}', "decode", "n", "integer"),
        (b'{"s": 5}', "decode", "s", "string"),
        (b'{"in": {"deep": [1]}}', "decode", "in.deep", "string"),
        (b'{"in": []}', "decode", "in", "object"),
        (b'{"at": "yesterday"}', "decode", "at", ""),
        (b"", "decode", None, "empty"),
        (b"   ", "decode", None, ""),
        (b"[1]", "decode", None, ""),
        (b"null", "decode", None, ""),
        (b'{"n": 1', "decode", None, ""),
        (b'{"s": "\xff"}', "decode", None, ""),
        (b'{"n": 1, "n": 2}', "decode", "n", ""),
        (b'{"n": NaN}', "decode", None, ""),
    ]
    good = {"n": 2**63 - 1, "s": "x", "in": {"deep": "y"}, "at": "2026-01-01T00:00:00Z"}
    lab = new_lab(as_json(good))
    lab.drain()
    records = [Record(value, key=b"k\xc3\xa9", headers=HEADERS) for value, *_ in bad]
    bad_key = Record(b'{"n": 1}', key=b"\xff\xfe")
    new_lab.produce(lab, [*records, *as_json(good), bad_key])
    (batch,) = lab.drain().batches
    assert (batch.counts.balance.rows, batch.counts.balance.dead_letters) == (1, len(bad) + 1)
    letters = by_offset(lab, DEAD_LETTERS)
    for offset, (value, phase, field, error) in enumerate(bad, start=1):
        letter = letters[0, offset]
        assert (letter["value"], letter["phase"], letter["field"]) == (value, phase, field), letter["error"]
        assert error in letter["error"]
        assert letter["error"]
        assert letter["key"] == b"k\xc3\xa9"
        assert [(h["key"], h["value"]) for h in letter["headers"]] == HEADERS
        assert letter["batch_id"] == batch.batch.batch_id
    assert {letter["_ingested_at"] for letter in letters.values()} == {
        by_offset(lab)[0, 1 + len(bad)]["_ingested_at"]
    }
    of_the_key = letters[0, len(bad) + 2]
    assert (of_the_key["phase"], of_the_key["field"], of_the_key["key"]) == ("key", "_kafka_key", b"\xff\xfe")


def test_a_preview_shows_what_a_drain_then_does(new_lab: NewLab) -> None:
    """The same dead letters for the same reasons, the same columns: new, nested and declared since."""
    lab = new_lab(as_json({"n": 1, "in": {"deep": "y"}}))
    lab.drain()
    configure(lab, "pipelines/orders", {"columns": {"when": "date"}})
    records = [
        Record(b'{"n": 1.5}'),
        Record(b'{"n": 2, "in": {"deep": "z", "new": [{"er": 1}]}, "when": "2026-01-01"}'),
        Record(b'{"N": 2}'),
        Record(b""),
        Record(b'{"n": 3}', key=b"\xff\xfe"),
        Record(None, key=b"k"),
        Record(b'{"fresh": true, "when": "soon"}'),
    ]
    new_lab.produce(lab, records)
    with lab.connections() as connections:
        seen = preview(lab.pipeline, connections, max_records=100)
    (batch,) = lab.drain().batches
    balance = batch.counts.balance
    assert (seen.balance.rows, len(seen.dead_letters), seen.balance.tombstones) == (1, 5, 1)
    assert (balance.rows, balance.dead_letters, balance.tombstones) == (1, 5, 1)
    letters = by_offset(lab, DEAD_LETTERS)
    assert {
        (d.partition, d.offset): (d.field, d.error.removesuffix(KEY_ADVICE)) for d in seen.dead_letters
    } == {place: (letter["field"], letter["error"]) for place, letter in letters.items()}
    assert seen.added == ("when", "in.new", "fresh")
    assert seen.columns == known_fields(lab.table().schema())


def test_coordinates_keys_headers_and_times_arrive_as_they_were_sent(new_lab: NewLab) -> None:
    """Null keys, repeated and null headers, and a time of -1, which is null; one ingestion time a batch."""
    lab = new_lab(
        [
            Record(b'{"id": 0}', key=b"\xc3\xa9", headers=HEADERS, timestamp_ms=NOON_MS),
            Record(b'{"id": 1}', timestamp_ms=-1),
            Record(b'{"id": 2}', key=b""),
        ]
    )
    lab.drain(now_us=lambda: NOON_MS * 1000 + 7)
    rows = by_offset(lab)
    assert [rows[0, i]["_kafka_key"] for i in range(3)] == ["é", None, ""]
    assert [(h["key"], h["value"]) for h in rows[0, 0]["_kafka_headers"]] == HEADERS
    assert not rows[0, 1]["_kafka_headers"]
    noon = datetime.fromtimestamp(NOON_MS // 1000, UTC).replace(microsecond=123_000)
    assert rows[0, 0]["_kafka_timestamp"] == noon
    assert rows[0, 1]["_kafka_timestamp"] is None
    assert {row["_kafka_topic"] for row in rows.values()} == {lab.pipeline.topic}
    assert {row["_kafka_generation"] for row in rows.values()} == {1}
    assert {row["_ingested_at"] for row in rows.values()} == {noon.replace(microsecond=123_007)}


def test_binary_keys_keep_their_bytes(new_lab: NewLab) -> None:
    """With ``key: {format: raw}`` no key is refused."""
    lab = new_lab([Record(b'{"id": 0}', key=b"\xff\x00")], key={"format": "raw"})
    assert lab.drain().balance.rows == 1
    assert by_offset(lab)[0, 0]["_kafka_key"] == b"\xff\x00"


def test_tombstones_are_counted_and_told_of_once_a_batch(
    new_lab: NewLab, caplog: pytest.LogCaptureFixture
) -> None:
    """Null values make no rows; a batch without any says nothing."""
    lab = new_lab([None, Record(b'{"id": 1}', key=b"a"), Record(None, key=b"a"), None])
    with caplog.at_level(logging.WARNING, logger="spark_jobs"):
        (batch,) = lab.drain().batches
        new_lab.produce(lab, [b'{"id": 2}'])
        lab.drain()
    assert (batch.counts.balance.rows, batch.counts.balance.tombstones) == (1, 3)
    warnings = [r.getMessage() for r in caplog.records if r.name.startswith("spark_jobs")]
    assert len(warnings) == 1
    assert "3 " in warnings[0]
    assert batch.batch.batch_id in warnings[0]
    assert set(by_offset(lab)) == {(0, 1), (0, 4)}


def test_a_topic_that_begins_with_tombstones_and_goes_on_with_a_broken_record(new_lab: NewLab) -> None:
    """A table without columns of its own is made; the first real record brings them."""
    lab = new_lab([None, None])
    assert lab.drain().balance.tombstones == 2
    new_lab.produce(lab, [b"not json"])
    assert lab.drain().balance.dead_letters == 1
    new_lab.produce(lab, [b'{"id": 1}'])
    assert lab.drain().balance.rows == 1
    assert by_offset(lab)[0, 3]["id"] == 1
    assert lab.audit().is_clean


def test_rows_are_ordered_by_partition_and_offset_inside_each_file(new_lab: NewLab) -> None:
    """Also around records that became dead letters in the middle, and of several partitions in one file."""
    lab = new_lab(partitions=3)
    records = [
        Record(json.dumps({"n": n}).encode() if n % 97 else b"broken", partition=n % 3) for n in range(1200)
    ]
    new_lab.produce(lab, records)
    lab.drain()
    files = [task.file.file_path for task in lab.table().scan().plan_files()]
    for path in files:
        table = pq.read_table(path.removeprefix("file://"), columns=["_kafka_partition", "_kafka_offset"])
        places = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
        assert places == sorted(places)
    assert len(by_offset(lab)) + len(by_offset(lab, DEAD_LETTERS)) == 1200
