"""Columns of types that only a declaration makes."""

from __future__ import annotations

import uuid
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema

from spark_jobs.formats.json.block import decode_chunk
from spark_jobs.kafka.chunks import Chunk
from spark_jobs.records.layouts.flat import PlainFlatDecoder, PlainJsonDecoder
from spark_jobs.schema.arrow_schema import arrow_schema
from spark_jobs.schema.iceberg_types import HEADERS, KEY, with_metadata_columns

ID = uuid.UUID("6ba7b810-9dad-11d1-80b4-00c04fd430c8")
ENVELOPE = arrow_schema(with_metadata_columns(Schema()))
TAGS = pa.map_(pa.string(), pa.struct([("n", pa.int64())]))


def plain_values(kind: pa.DataType, text: str) -> list[Any]:
    """What audit's decoder makes of the value, if anything, and of a record without one."""
    columns = pa.schema([("c", kind), ENVELOPE.field(KEY), ENVELOPE.field(HEADERS)])
    chunk = Chunk(0, [0, 1], [0, 0], [None, None], [f'{{"c":{text}}}'.encode(), b"{}"], [None, None])
    values: list[Any] = (
        PlainFlatDecoder(PlainJsonDecoder()).decode(chunk, columns).table.column("c").to_pylist()
    )
    return values


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        (pa.int32(), "-2147483648", -(2**31)),
        (pa.float32(), "0.5", 0.5),
        (pa.float32(), "7", 7.0),
        (pa.date32(), '"2024-02-29"', date(2024, 2, 29)),
        (pa.timestamp("us"), '"2024-02-29T12:00:00.5"', datetime.fromisoformat("2024-02-29T12:00:00.5")),
        (pa.timestamp("us"), '"2024-02-29"', datetime.fromisoformat("2024-02-29")),
        (pa.time64("us"), '"12:30"', time(12, 30)),
        (pa.time64("us"), '"12:30:00.000001"', time(12, 30, 0, 1)),
        (pa.decimal128(9, 2), "1.5", Decimal("1.50")),
        (pa.decimal128(9, 2), '"1.500"', Decimal("1.50")),
        (pa.decimal128(9, 2), "1e2", Decimal("100.00")),
        (pa.decimal128(38, 0), "9" * 38, Decimal("9" * 38)),
        (pa.large_string(), '"é"', "é"),
        (pa.binary(), '"é"', "é".encode()),
        (pa.binary(2), '"ab"', b"ab"),
        (pa.uuid(), f'"{ID}"', ID),
        (pa.struct([("a", pa.uuid())]), f'{{"a":"{ID}"}}', {"a": ID}),
        (
            pa.list_(pa.struct([("a", pa.uuid())])),
            f'[{{"a":"{ID}"}},{{}},null]',
            [{"a": ID}, {"a": None}, None],
        ),
        (pa.map_(pa.string(), pa.uuid()), f'{{"k":"{ID}","l":null}}', [("k", ID), ("l", None)]),
        (TAGS, '{"a":{"n":1},"b":null,"c":{"z":null}}', [("a", {"n": 1}), ("b", None), ("c", {"n": None})]),
        (pa.list_(pa.decimal128(3, 1)), "[1.5,null]", [Decimal("1.5"), None]),
        (pa.large_list(pa.int64()), "[1,null]", [1, None]),
        (pa.struct([("d", pa.date32())]), '{"d":"2024-02-29"}', {"d": date(2024, 2, 29)}),
    ],
)
def test_values_of_declared_types(kind: pa.DataType, text: str, expected: Any) -> None:
    """The value is stored as what it is, and the column has exactly the declared type."""
    schema = pa.schema([("c", kind)])
    decoded = decode_chunk([f'{{"c":{text}}}'.encode(), b"{}"], schema)
    assert decoded.unread == ()
    assert decoded.table.schema == schema
    assert decoded.table.column("c").to_pylist() == [expected, None]
    assert plain_values(kind, text) == [expected, None]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (pa.int32(), "2147483648"),
        (pa.int32(), "1.0"),
        (pa.float32(), "1e39"),
        (pa.date32(), '"2023-02-29"'),
        (pa.date32(), '"2024-2-9"'),
        (pa.date32(), '"0000-01-01"'),
        (pa.date32(), "19000"),
        (pa.timestamp("us"), '"2024-02-29T12:00:00Z"'),
        (pa.timestamp("us"), "5"),
        (pa.time64("us"), '"24:00"'),
        (pa.time64("us"), '"12:00:00Z"'),
        (pa.decimal128(9, 2), "1.555"),
        (pa.decimal128(9, 2), "12345678"),
        (pa.decimal128(9, 2), "true"),
        (pa.decimal128(9, 2), '"NaN"'),
        (pa.decimal128(9, 2), '" 1"'),
        (pa.decimal128(9, 2), "1e-99999999"),
        (pa.decimal128(9, 2), '"0e-999999999"'),
        (pa.binary(), "7"),
        (pa.binary(2), '"abc"'),
        (pa.uuid(), '"6ba7b810"'),
        (pa.uuid(), "5"),
        (pa.uuid(), '"{6ba7b810-9dad-11d1-80b4-00c04fd430c8}"'),
        (TAGS, "[]"),
        (TAGS, '{"a":{"n":"x"}}'),
        (TAGS, '{"a":null,"a":null}'),
        (pa.map_(pa.int64(), pa.int64()), '{"1":1}'),
        (pa.duration("us"), "1"),
    ],
)
def test_what_does_not_fit_a_declared_type(kind: pa.DataType, text: str) -> None:
    """Nothing is rounded, cut or guessed; the process survives exponents that kill Arrow's reader."""
    decoded = decode_chunk([f'{{"c":{text}}}'.encode(), b"{}"], pa.schema([("c", kind)]))
    assert [bad.index for bad in decoded.unread] == [0]
    assert decoded.table.num_rows == 1
    assert plain_values(kind, text)[-1] is None


def test_new_fields_inside_a_map_are_reported() -> None:
    """A map's keys are data, the fields of its values are columns."""
    schema = pa.schema([("tags", TAGS)])
    assert decode_chunk([b'{"tags":{"any":{"n":1}}}'], schema).new_fields is None
    assert decode_chunk([b'{"tags":{"any":{"m":1}}}'], schema).new_fields is not None
