"""Texts in columns of declared types: the ways of a drain and audit's agree on what each of them is."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.schema import Schema

from spark_jobs.formats.json.block import decode_chunk
from spark_jobs.kafka.chunks import Chunk
from spark_jobs.records.layouts.flat import PlainFlatDecoder, PlainJsonDecoder
from spark_jobs.schema.arrow_schema import arrow_schema
from spark_jobs.schema.iceberg_types import HEADERS, KEY, with_metadata_columns

_ENVELOPE = arrow_schema(with_metadata_columns(Schema()))
_SPOILED = b"oops"

_NUMBERS = st.one_of(
    st.decimals(allow_nan=False, allow_infinity=False, places=2).map(str),
    st.integers(-(2**70), 2**70).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.floats(width=32, allow_nan=False, allow_infinity=False).map(repr),
    st.tuples(st.integers(2**24, 2**26), st.integers(1, 10**12)).map(lambda n: f"{n[0]}.{n[1]:012}"),
    st.sampled_from(["1e2", "1E-2", "-0", "0.10", "123456789012345678901234567890.12", "1e40", "1e-60"]),
)
_MOMENTS = st.one_of(
    st.dates().map(str),
    st.times().map(str),
    st.datetimes().map(lambda moment: moment.isoformat()),
    st.datetimes().map(lambda moment: moment.isoformat(" ", "minutes")),
    st.datetimes().map(lambda moment: moment.isoformat() + "+05:30"),
    st.sampled_from(["2024-02-30", "12:00:00.1234567", "24:00:00", "23:59:60", "0000-01-01", "9999-12-31"]),
)
_TEXTS = st.one_of(_MOMENTS, _NUMBERS, st.uuids().map(str), st.text(max_size=8))
_BROKEN = st.tuples(_TEXTS, st.sampled_from(["Z", " ", "0", "-", "T", "x", "+00:00"])).map("".join)
_LITERALS = st.one_of(_NUMBERS, (_TEXTS | _BROKEN).map(json.dumps), st.sampled_from(["null", "true"]))

_PLAIN = st.sampled_from(
    [
        pa.date32(), pa.time64("us"), pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.uuid(), pa.int32(),
        pa.float32(), pa.float64(), pa.decimal128(9, 2), pa.decimal128(38, 0), pa.string(), pa.binary(),
    ]
)  # fmt: skip
_NESTS: list[tuple[Any, str]] = [
    (lambda kind: kind, "%s"),
    (pa.list_, "[%s,null]"),
    (lambda kind: pa.struct([("a", kind)]), '{"a":%s}'),
    (lambda kind: pa.map_(pa.string(), kind), '{"k":%s}'),
]


@settings(max_examples=250)
@given(_PLAIN, st.sampled_from(_NESTS), st.lists(_LITERALS, min_size=1, max_size=4))
def test_every_way_to_read_a_declared_type_agrees(
    plain: pa.DataType, nest: tuple[Any, str], literals: list[str]
) -> None:
    """By Arrow's reader, record by record, and by audit's: the same value exactly, or a dead letter."""
    wrap, text = nest
    schema = pa.schema([("c", wrap(plain))])
    values = [f'{{"c":{text % literal}}}'.encode() for literal in literals]
    columns = pa.schema([*schema, _ENVELOPE.field(KEY), _ENVELOPE.field(HEADERS)])
    for position, value in enumerate(values):
        alone = decode_chunk([value], schema)
        # A column that only the way record by record reads has it read beside the other.
        slow = decode_chunk([value], schema.append(pa.field("t", pa.time64("us"))))
        assert [bad.error for bad in slow.unread] == [bad.error for bad in alone.unread]
        assert slow.table.select(["c"]).equals(alone.table), value
        assert [bad.field is None for bad in alone.unread] == [False] * len(alone.unread)
        chunk = Chunk(0, [0], [0], [None], [value], [None])
        audited = PlainFlatDecoder(PlainJsonDecoder()).decode(chunk, columns)
        is_rounded = any("exactly" in bad.error for bad in alone.unread)
        assert audited.rows == ([] if alone.unread and not is_rounded else [0]), value
        if not alone.unread:
            assert audited.table.select(["c"]).to_pylist() == alone.table.to_pylist(), value
        together = decode_chunk([*values, _SPOILED], schema)
        rows = dict(zip(together.indices, together.table.to_pylist(), strict=True))
        assert rows.get(position) == (None if alone.unread else alone.table.to_pylist()[0])
