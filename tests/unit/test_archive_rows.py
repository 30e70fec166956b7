"""Rows of an archive: one for each record, with its bytes, and with what can be read of them."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.schema import Schema

from spark_jobs.config.columns import GROWTH
from spark_jobs.formats.avro.schema import avro_schema
from spark_jobs.formats.json_schema.schema import json_schema
from spark_jobs.kafka.chunks import Chunk
from spark_jobs.protocol.offsets import SchemaId, SchemaKey
from spark_jobs.records.by_schema import SchemaDecoder
from spark_jobs.records.by_schema_plain import PlainSchemaDecoder
from spark_jobs.records.layouts.archive import ArchiveDecoder, PlainArchiveDecoder
from spark_jobs.records.layouts.flat import JsonDecoder, PlainJsonDecoder
from spark_jobs.schema.archive_columns import ArchiveColumns
from spark_jobs.schema.arrow_schema import arrow_schema
from spark_jobs.schema.column_source import KnownSchemas, SeenColumns, WrittenColumns
from spark_jobs.schema.evidence import Evidence
from spark_jobs.schema.evolution import evolved
from spark_jobs.schema.iceberg_types import ORIGIN_COLUMNS, with_metadata_columns
from spark_jobs.schema.placing import Rules
from spark_jobs.schema.schema_views import OneColumn
from spark_jobs.schema.writer_schema import Language, SchemaText

NUMBER = {"type": "record", "name": "K", "fields": [{"name": "number", "type": "int"}]}
OF_KEYS = KnownSchemas(
    {
        SchemaKey(SchemaId(1), of_key=True): OneColumn(
            avro_schema(SchemaText(Language.AVRO, json.dumps(NUMBER))), "key", is_struct=True
        )
    },
    of_key=True,
)
NO_SCHEMAS = KnownSchemas(is_framed=False)
COLUMNS = ArchiveColumns(SeenColumns(GROWTH), WrittenColumns(OF_KEYS, GROWTH, Rules(99)))
DECODER = ArchiveDecoder(JsonDecoder(), NO_SCHEMAS, SchemaDecoder(OF_KEYS))
PLAIN = PlainArchiveDecoder(PlainJsonDecoder(), NO_SCHEMAS, PlainSchemaDecoder(OF_KEYS))


def chunk_of(records: list[Any]) -> Chunk:
    """Return records with these keys and values."""
    count = len(records)
    keys, values = ([record[part] for record in records] for part in (0, 1))
    return Chunk(0, [*range(count)], [0] * count, keys, values, [None] * count)


def table_of(records: list[Any]) -> Schema:
    """Return the table that is made for such records."""
    return evolved(Schema(), COLUMNS.first(DECODER.observe(chunk_of(records)), ())[0])


def columns_of(table: Schema) -> pa.Schema:
    """Return the columns as a decoder takes them."""
    whole = arrow_schema(with_metadata_columns(table, key_is_binary=True))
    return pa.schema([column for column in whole if column.name not in ORIGIN_COLUMNS])


FIRST = [(b"\0\0\0\0\x01\x02", b'{"id": 1, "at": {"x": 1}}')]
KEYS = st.none() | st.sampled_from([b"", b"x", b"\0\0\0\0\x01\x04", b"\0\0\0\0\x01\x04!"])
VALUES = st.none() | st.sampled_from(
    [b"", b"no json", b'{"id": 7}', b'{"id": "x"}', b'{"at": {"x": 2}}', b'{"other": 1, "id": 8}', b"{}"]
)


@given(st.lists(st.tuples(KEYS, VALUES), max_size=30))
def test_each_record_is_a_row_with_its_bytes_and_what_they_say(records: list[Any]) -> None:
    """The plain decoder says the same, also of what cannot be read."""
    columns = columns_of(table_of(FIRST))
    decoded = DECODER.decode(chunk_of(records), columns, GROWTH.ended())
    assert (decoded.rows, decoded.bad, decoded.new_fields) == (None, (), None)
    rows = decoded.table.to_pylist()
    assert [(r["key"] and r["key"]["__raw__"], r["value"] and r["value"]["__raw__"]) for r in rows] == records
    for row, (key, value) in zip(rows, records, strict=True):
        if value in {b'{"id": 7}', b'{"other": 1, "id": 8}'}:
            assert row["value"]["id"] == json.loads(value)["id"]
        if key == b"\0\0\0\0\x01\x04":
            assert row["key"]["number"] == 2
    plain = PLAIN.decode(chunk_of(records), columns)
    assert plain.rows == [*range(len(records))]
    assert plain.table.to_pylist() == rows


def test_fields_are_added_inside_and_one_that_is_called_as_the_bytes_is_left_to_them() -> None:
    """Once: the table that has them lacks nothing."""
    table = table_of(FIRST)
    assert [field.name for field in table.fields] == ["key", "value", "headers", "kafka"]
    records = [(None, b'{"note": "n", "__raw__": 1, "at": {"y": true}}')]
    seen = DECODER.observe(chunk_of(records))
    lacks, _ = COLUMNS.evolution(table, {}, seen)
    assert {path for path, _, _ in lacks.additions} == {("value", "note"), ("value", "at", "y")}
    assert not COLUMNS.evolution(evolved(table, lacks), {}, seen)[0].additions


def test_a_first_record_with_fields_that_are_called_as_the_bytes_is_a_row() -> None:
    """What they say is in the bytes."""
    records = [(None, b'{"id": 1, "__raw__": 2, "__schema_id__": 3}')]
    table = table_of(records)
    decoded = DECODER.decode(chunk_of(records), columns_of(table), GROWTH.ended())
    (row,) = decoded.table.to_pylist()
    assert row["value"] == {"__raw__": records[0][1], "__schema_id__": None, "id": 1}
    assert not COLUMNS.evolution(table, {}, DECODER.observe(chunk_of(records)))[0].additions


def test_json_by_its_schema_stands_beside_its_bytes() -> None:
    """Of keys and of values; what the schema does not say is null beside them, and counted."""
    key, value = (
        json_schema(SchemaText(Language.JSON_SCHEMA, json.dumps({"properties": properties})))
        for properties in ({"number": {"type": "integer"}}, {"id": {"type": "integer"}, "any": {}})
    )
    of_keys = KnownSchemas(
        {SchemaKey(SchemaId(1), of_key=True): OneColumn(key, "key", is_struct=True)}, of_key=True
    )
    of_values = KnownSchemas({SchemaKey(SchemaId(2)): value})
    decoder = ArchiveDecoder(SchemaDecoder(of_values), of_values, SchemaDecoder(of_keys))
    frames = b"\0\0\0\0\x01", b"\0\0\0\0\x02"
    texts = [(b'{"number":7}', b'{"id":1,"any":[1.0]}'), (b'{"number":"7"}', b'{"id":2,"other":3}')]
    records = [tuple(frame + text for frame, text in zip(frames, both, strict=True)) for both in texts]
    of_both = ArchiveColumns(*(WrittenColumns(each, GROWTH, Rules(99)) for each in (of_values, of_keys)))
    columns = columns_of(evolved(Schema(), of_both.first(decoder.observe(chunk_of(records)), ())[0]))
    decoded = decoder.decode(chunk_of(records), columns, GROWTH.ended())
    right, broken = decoded.table.to_pylist()
    assert right["key"] == {"__raw__": records[0][0], "number": 7}
    assert right["value"] == {"__raw__": records[0][1], "__schema_id__": "2", "id": 1, "any": "[1.0]"}
    assert broken["key"] == {"__raw__": records[1][0], "number": None}
    assert broken["value"] == {"__raw__": records[1][1], "__schema_id__": "2", "id": None, "any": None}
    assert decoded.ignored == {"value": 1, "key": 1}
    plain = PlainArchiveDecoder(PlainSchemaDecoder(of_values), of_values, PlainSchemaDecoder(of_keys))
    assert plain.decode(chunk_of(records), columns).table.to_pylist() == [right, broken]


def test_a_first_record_with_a_field_that_is_called_as_the_bytes_leaves_it_to_them() -> None:
    """As a later one does."""
    value = table_of([(None, b'{"__raw__": 1, "__schema_id__": 2, "id": 3}')]).find_field("value")
    assert [field.name for field in value.field_type.fields] == ["__raw__", "__schema_id__", "id"]  # type: ignore[attr-defined]


def test_a_table_without_a_record_yet_is_one_of_bytes() -> None:
    """As when it begins with the latest."""
    made, _ = ArchiveColumns(SeenColumns(GROWTH)).first(Evidence(), ())
    value = evolved(Schema(), made).find_field("value").field_type
    assert [field.name for field in value.fields] == ["__raw__", "__schema_id__"]  # type: ignore[attr-defined]
