"""Fields of JSON that are called otherwise than their columns, drained and read again by audit."""

from __future__ import annotations

import pyarrow as pa
from pyiceberg.schema import Schema

from spark_jobs.audit.row_check import RowCheck
from spark_jobs.kafka.chunks import Chunk
from spark_jobs.records.layouts.flat import FlatDecoder, JsonDecoder, PlainFlatDecoder, PlainJsonDecoder
from spark_jobs.records.row_maker import RowMaker
from spark_jobs.records.shape import Origin
from spark_jobs.schema.arrow_schema import arrow_schema
from spark_jobs.schema.iceberg_types import dead_letter_schema, with_metadata_columns

ORIGIN = Origin("orders", 0, 1_700_000_000_000_000)
METADATA = arrow_schema(with_metadata_columns(Schema()))
LETTERS = arrow_schema(dead_letter_schema())
FIELDS = {"day_1": "day", "day_1_1": "day_1"}
DECODER, PLAIN = FlatDecoder(JsonDecoder(fields=FIELDS)), PlainFlatDecoder(PlainJsonDecoder(fields=FIELDS))


def records(*values: str) -> Chunk:
    """Records from offset 10 on."""
    count = len(values)
    every = [value.encode() for value in values]
    return Chunk(0, [*range(10, 10 + count)], [5] * count, [b"k"] * count, every, [None] * count)


def table(**columns: pa.DataType) -> pa.Schema:
    """A table's columns."""
    return pa.schema([*columns.items(), *METADATA])


def test_each_column_has_its_own_field_whatever_others_are_called() -> None:
    """A field may be called as another's column; the audit finds the rows right, and a wrong one wrong."""
    schema, chunk = (
        table(day_1=pa.int64(), day_1_1=pa.string()),
        records('{"day":1,"day_1":"x"}', '{"day":2}'),
    )
    made = RowMaker(DECODER, ORIGIN, "b", schema, LETTERS).make(chunk)
    assert made.rows.select(["day_1", "day_1_1"]).to_pylist() == [
        {"day_1": 1, "day_1_1": "x"},
        {"day_1": 2, "day_1_1": None},
    ]
    check = RowCheck(PLAIN, ORIGIN, schema)
    assert check.compare(chunk, made.rows).differing.tolist() == []
    wrong = made.rows.set_column(0, schema.field(0), pa.array([1, 1], pa.int64()))
    assert check.compare(chunk, wrong).differing.tolist() == [11]


def test_the_column_of_a_rounded_integer_is_named() -> None:
    """Whoever is told is to give it another type, by the name that the table has."""
    schema, chunk = table(day_1=pa.float64()), records(f'{{"day":{2**53 + 1}}}')
    rows = RowMaker(DECODER, ORIGIN, "b", schema, LETTERS).make(records(f'{{"day":{2**53}}}')).rows
    assert list(RowCheck(PLAIN, ORIGIN, schema).compare(chunk, rows).rounded) == [("day_1", "long")]
