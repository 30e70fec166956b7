"""Rows with the columns that say where they come from, and the rows of dead letters."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema

from spark_jobs.kafka.chunks import Chunk
from spark_jobs.records.decoder import BadValue, Decoded, Phase
from spark_jobs.records.layouts.flat import FlatDecoder, JsonDecoder
from spark_jobs.records.shape import NO_TIMESTAMP, Origin, dead_letter_table, shape
from spark_jobs.schema.arrow_schema import arrow_schema
from spark_jobs.schema.iceberg_types import (
    METADATA_COLUMNS,
    ORIGIN_COLUMNS,
    dead_letter_schema,
    with_metadata_columns,
)

ORIGIN = Origin("orders", 2, 1_700_000_000_000_000)
JSON_COLUMNS = pa.schema([("n", pa.int64())])
# A column that was added later stands behind the metadata columns.
TABLE = pa.schema([*JSON_COLUMNS, *arrow_schema(with_metadata_columns(Schema())), ("late", pa.string())])
BINARY_KEYS = pa.schema([*arrow_schema(with_metadata_columns(Schema(), key_is_binary=True)), *JSON_COLUMNS])
DEAD_LETTERS = arrow_schema(dead_letter_schema())


RECORDS = Chunk(
    7,
    [10, 12, 13, 20],
    values=[b'{"n":1}', b'{"n":2}', b'{"n":3}', b'{"n":4}'],
    keys=[b"a", None, b"", "é".encode()],
    timestamps_ms=[0, -1, 1_700_000_000_001, -2],
    headers=[None, [], [("h", b"1"), ("h", None), ("", b"\xff")], None],
)


def shaped(records: Chunk, schema: pa.Schema = TABLE) -> Decoded:
    """Decode and shape, and check what holds for every result."""
    columns = pa.schema([column for column in schema if column.name not in ORIGIN_COLUMNS])
    result = shape(FlatDecoder(JsonDecoder()).decode(records, columns), records, ORIGIN, schema)
    result.table.validate(full=True)
    assert result.table.schema.equals(schema, check_metadata=True)
    return result


def test_every_row_has_its_coordinates() -> None:
    """Columns are found by name, in the table's order; -1 is no timestamp, other negative times are times."""
    rows = shaped(RECORDS).table.to_pydict()
    assert rows["n"] == [1, 2, 3, 4]
    assert rows["late"] == [None] * 4
    assert rows["_kafka_topic"] == ["orders"] * 4
    assert rows["_kafka_partition"] == [7] * 4
    assert rows["_kafka_offset"] == [10, 12, 13, 20]
    assert rows["_kafka_generation"] == [2] * 4
    assert rows["_kafka_timestamp"] == [
        datetime(1970, 1, 1, tzinfo=UTC),
        None,
        datetime(2023, 11, 14, 22, 13, 20, 1000, tzinfo=UTC),
        datetime(1969, 12, 31, 23, 59, 59, 998_000, tzinfo=UTC),
    ]
    assert rows["_kafka_key"] == ["a", None, "", "é"]
    assert rows["_ingested_at"] == [datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)] * 4


def test_headers_keep_order_repeats_and_nulls() -> None:
    """A record without headers has null; names may repeat and be empty, values may be null and any bytes."""
    assert shaped(RECORDS).table.to_pydict()["_kafka_headers"] == [
        None,
        [],
        [{"key": "h", "value": b"1"}, {"key": "h", "value": None}, {"key": "", "value": b"\xff"}],
        None,
    ]


def test_coordinates_stay_with_their_rows_beside_bad_values() -> None:
    """Rows are those of the good records; bad values of all steps are in the records' order."""
    records = replace(
        RECORDS,
        values=[b"oops", b'{"n":2}', b'{"n":3}', b'{"n":"x"}'],
        keys=[b"\xff", b"\xff", b"k", None],
    )
    result = shaped(records)
    assert result.table.to_pydict()["_kafka_offset"] == [13]
    assert result.table.to_pydict()["_kafka_key"] == ["k"]
    assert [(bad.index, bad.phase, bad.field) for bad in result.bad] == [
        (0, Phase.DECODE, None),
        (1, Phase.KEY, "_kafka_key"),
        (3, Phase.DECODE, "n"),
    ]


def test_binary_keys_are_any_bytes() -> None:
    """With ``key: {format: raw}`` no key is refused."""
    result = shaped(replace(RECORDS, keys=[b"\xff", None, b"", b"a"]), BINARY_KEYS)
    assert result.bad == ()
    assert result.table.to_pydict()["_kafka_key"] == [b"\xff", None, b"", b"a"]


@pytest.mark.parametrize("timestamp_ms", [253_402_300_800_000, -62_135_596_800_001, 2**63 - 1, -(2**63)])
def test_a_timestamp_that_cannot_be_shown_is_a_null_and_counted(timestamp_ms: int) -> None:
    """A producer that writes microseconds for milliseconds loses no row by it, nor is it believed."""
    records = replace(RECORDS, timestamps_ms=[5, timestamp_ms, 5, NO_TIMESTAMP])
    result = shaped(records)
    assert [time is None for time in result.table.column("_kafka_timestamp").to_pylist()] == [
        False,
        True,
        False,
        True,
    ]
    assert result.bad == ()
    assert result.ignored == {"_kafka_timestamp": 1}


def test_a_table_without_json_columns() -> None:
    """A topic of empty objects has rows all the same."""
    records = replace(RECORDS, values=[b"{}"] * 4)
    assert shaped(records, pa.schema(TABLE.field(name) for name in METADATA_COLUMNS)).table.num_rows == 4
    worse = replace(records, values=[b"{}", b"oops", b"{}", b"{}"], keys=[b"\xff", None, None, None])
    result = shaped(worse, pa.schema(TABLE.field(name) for name in METADATA_COLUMNS))
    assert result.table.to_pydict()["_kafka_offset"] == [13, 20]


def test_dead_letters_keep_the_record_as_it_came() -> None:
    """Raw key, value and headers, coordinates, and what failed, where and why."""
    records = replace(RECORDS, values=[b'{"n":1}', b" \xff ", b'{"n":"x"}', b"{}"])
    bad = (
        BadValue(1, Phase.DECODE, None, "not UTF-8"),
        BadValue(2, Phase.DECODE, "n", "a string"),
    )
    table = dead_letter_table(bad, records, ORIGIN, "batch-1", DEAD_LETTERS)
    assert table.schema.equals(DEAD_LETTERS, check_metadata=True)
    first, second = table.to_pylist()
    assert (first["_kafka_offset"], first["key"], first["value"], first["headers"]) == (
        12,
        None,
        b" \xff ",
        [],
    )
    assert (first["phase"], first["field"], first["error"]) == ("decode", None, "not UTF-8")
    assert (second["_kafka_offset"], second["field"], second["batch_id"]) == (13, "n", "batch-1")
    assert second["headers"][1] == {"key": "h", "value": None}


def test_no_dead_letters_are_an_empty_table() -> None:
    """Nothing bad, no rows, the same columns."""
    assert dead_letter_table((), RECORDS, ORIGIN, "b", DEAD_LETTERS) == DEAD_LETTERS.empty_table()
