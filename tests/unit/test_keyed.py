"""Keys by their schemas beside values of any format: a row needs both, and each stays with its record."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType, StructType

from spark_jobs.config.columns import GROWTH, Growth, NewFields
from spark_jobs.formats.avro.schema import avro_schema
from spark_jobs.kafka.chunks import Chunk
from spark_jobs.protocol.errors import ConfigError
from spark_jobs.protocol.offsets import SchemaId, SchemaKey
from spark_jobs.records.by_schema import SchemaDecoder
from spark_jobs.records.by_schema_plain import PlainSchemaDecoder
from spark_jobs.records.layouts.flat import FlatDecoder, JsonDecoder, PlainFlatDecoder, PlainJsonDecoder
from spark_jobs.schema.arrow_schema import arrow_schema
from spark_jobs.schema.column_source import KeyedColumns, KnownSchemas, SeenColumns, WrittenColumns
from spark_jobs.schema.evidence import Evidence
from spark_jobs.schema.iceberg_types import ORIGIN_COLUMNS, with_metadata_columns
from spark_jobs.schema.placing import Rules
from spark_jobs.schema.schema_views import OneColumn, WholeValue
from spark_jobs.schema.writer_schema import Language, SchemaText

NUMBER = {"type": "record", "name": "K", "fields": [{"name": "number", "type": "int"}]}
FIRST, GONE, NEW = (SchemaKey(SchemaId(number), of_key=True) for number in (1, 2, 3))
SCHEMA = OneColumn(avro_schema(SchemaText(Language.AVRO, json.dumps(NUMBER))), "order_key")
KNOWN = KnownSchemas({FIRST: SCHEMA, GONE: None}, of_key=True)
DECODER = FlatDecoder(JsonDecoder(), SchemaDecoder(KNOWN), frozenset({"order_key"}))
PLAIN = PlainFlatDecoder(PlainJsonDecoder(), PlainSchemaDecoder(KNOWN), frozenset({"order_key"}))
ID = NestedField(1, "id", LongType(), False)
KEY = NestedField(2, "order_key", StructType(NestedField(3, "number", LongType(), False)), False)


def columns_of(*own: NestedField) -> pa.Schema:
    """Return a table's columns as a decoder takes them."""
    whole = arrow_schema(with_metadata_columns(Schema(*own), key_is_binary=True))
    return pa.schema([column for column in whole if column.name not in ORIGIN_COLUMNS])


def chunk_of(records: list[tuple[bytes | None, bytes]]) -> Chunk:
    """Return records with these keys and values."""
    count = len(records)
    keys, values = ([record[part] for record in records] for part in (0, 1))
    return Chunk(0, [*range(count)], [0] * count, keys, values, [None] * count)


def key_of(number: int) -> bytes:
    """Return a key of one byte's number by schema 1."""
    return b"\0\0\0\0\x01" + bytes([number * 2])


KEYS = (
    st.none()
    | st.integers(0, 60).map(key_of)
    | st.sampled_from([b"", b"x", b"\0\0\0\0\x02\x02", key_of(1) + b"!"])
)
VALUES = st.integers(-9, 9).map(lambda number: b'{"id": %d}' % number) | st.just(b"no json")


@given(st.lists(st.tuples(KEYS, VALUES), max_size=40))
def test_a_row_has_its_own_key_and_every_other_record_is_a_bad_value(records: list[Any]) -> None:
    """In the records' order, as the plain decoder says too."""
    columns = columns_of(ID, KEY)
    decoded = DECODER.decode(chunk_of(records), columns)
    bad = [each.index for each in decoded.bad]
    assert sorted([*decoded.indices, *bad]) == list(range(len(records)))
    for row, index in zip(decoded.table.to_pylist(), decoded.indices, strict=True):
        key, value = records[index]
        assert row["order_key"] == (None if key is None else {"number": key[-1] // 2})
        assert (row["id"], row["_kafka_key"]) == (json.loads(value)["id"], key)
    plain = PLAIN.decode(chunk_of(records), columns)
    assert plain.rows == list(decoded.indices)
    assert plain.table.to_pylist() == decoded.table.to_pylist()


@pytest.mark.parametrize(
    ("key", "phase", "field", "error"),
    [
        (b"x", "schema", "_kafka_key", "the key: names no schema"),
        (b"\0\0\0\0\x02x", "schema", "_kafka_key", "the key: the registry has no schema key/2"),
        (key_of(1) + b"!", "key", "_kafka_key", "the key: "),
    ],
)
def test_a_key_that_cannot_be_read_says_so(key: bytes, phase: str, field: str, error: str) -> None:
    """Apart from what values say of themselves."""
    (bad,) = DECODER.decode(chunk_of([(key, b"{}")]), columns_of(ID, KEY)).bad
    assert (bad.phase, bad.field) == (phase, field)
    assert bad.error.startswith(error)


def test_a_new_schema_of_keys_is_asked_for_as_one_of_keys() -> None:
    """So is the column of one whose table has none yet."""
    unknown = chunk_of([(b"\0\0\0\0\x03x", b"{}"), (key_of(1), b"{}")])
    asked = DECODER.decode(unknown, columns_of(ID, KEY)).new_fields
    assert asked == Evidence(schemas=(NEW,))
    assert DECODER.decode(chunk_of([(key_of(1), b"{}")]), columns_of(ID)).new_fields is not None
    ended = DECODER.decode(chunk_of([(key_of(1), b"{}")]), columns_of(ID), GROWTH.ended())
    assert [each.field for each in ended.bad] == ["order_key"]


def test_a_key_that_is_no_record_is_the_column_itself() -> None:
    """Not a struct of one field."""
    whole = OneColumn(WholeValue(is_text=True), "k")
    assert whole.columns.struct.fields[0].field_type == StringType()
    assert whole.read([b"a", b"\xff"]).table.to_pylist() == [{"k": "a"}]
    assert whole.read_plain(b"a") == {"k": "a"}


def test_the_keys_column_is_never_that_of_a_value() -> None:
    """A new table is refused, an old one's field of that name gets no column."""
    source = KeyedColumns(SeenColumns(GROWTH), WrittenColumns(KNOWN, GROWTH, Rules(9)))
    seen = JsonDecoder().observe(chunk_of([(None, b'{"order_key": {"x": 1}, "id": 1}')]))
    evidence = seen.merge(Evidence(schemas=(FIRST,)))
    with pytest.raises(ConfigError, match="order_key"):
        source.first(evidence, ())
    kept = {"key/": {"struct": (KEY.field_id,)}}
    lacks, _ = source.evolution(Schema(KEY), kept, evidence)
    assert [path for path, _, _ in lacks.additions] == [("id",)]
    made, _ = source.first(Evidence(), ())
    assert [path for path, _, _ in made.additions] == [("order_key",)]


def test_a_column_that_values_have_is_never_the_keys() -> None:
    """Of a table whose keys are read only now; one that is declared is meant to be."""
    keys = WrittenColumns(KNOWN, GROWTH, Rules(9))
    with pytest.raises(ConfigError, match="order_key") as caught:
        KeyedColumns(SeenColumns(GROWTH), keys).evolution(Schema(KEY), {}, Evidence())
    assert caught.value.code == "column-clash"
    declared = replace(keys, rules=Rules(9, declared=frozenset({"order_key"})))
    assert KeyedColumns(SeenColumns(GROWTH), declared).evolution(Schema(KEY), {}, Evidence())[0].bindings


def test_fields_of_keys_and_of_values_that_have_no_column_are_counted_together() -> None:
    """Where new fields are ignored."""
    records = [(key_of(1), b'{"id": 1, "more": 2}'), (None, b'{"id": 2, "more": 3}'), (key_of(2), b"{}")]
    decoded = DECODER.decode(chunk_of(records), columns_of(ID), Growth(NewFields.IGNORE))
    assert not decoded.bad
    assert decoded.table.column("id").to_pylist() == [1, 2, None]
    assert dict(decoded.ignored) == {"more": 2, "order_key": 2}
