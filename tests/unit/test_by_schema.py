"""Values by their schemas: rows in the order of the records, whichever schema wrote which."""

from __future__ import annotations

import io
import json
import pickle
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import fastavro
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.types import DoubleType, LongType, NestedField, StringType

from spark_jobs.config.columns import Growth, NewFields
from spark_jobs.formats.avro.schema import AvroSchema, avro_schema
from spark_jobs.kafka.chunks import Chunk
from spark_jobs.protocol.offsets import SchemaId, SchemaKey, SchemaSpan
from spark_jobs.records.by_schema import SchemaDecoder, schema_ids
from spark_jobs.records.by_schema_plain import PlainSchemaDecoder
from spark_jobs.records.decoder import Encoded
from spark_jobs.records.layouts.flat import FlatDecoder, PlainFlatDecoder
from spark_jobs.schema.arrow_schema import arrow_schema
from spark_jobs.schema.column_source import KnownSchemas, WrittenColumns
from spark_jobs.schema.evidence import Evidence
from spark_jobs.schema.evolution import bind, evolved
from spark_jobs.schema.iceberg_types import ORIGIN_COLUMNS, with_metadata_columns
from spark_jobs.schema.inference import Field, Primitive
from spark_jobs.schema.placing import Rules
from spark_jobs.schema.writer_schema import Language, SchemaText

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pytest

    from spark_jobs.schema.writer_schema import ReadValues

GROWTH = Growth()
FIRST = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}]}
SECOND = {**FIRST, "fields": [*FIRST["fields"], {"name": "note", "type": ["null", "string"]}]}
KEYS = SchemaKey(SchemaId(1)), SchemaKey(SchemaId(2))
GONE = SchemaKey(SchemaId(9))


def text(schema: Any) -> SchemaText:
    """Return the schema as a registry has it."""
    return SchemaText(Language.AVRO, json.dumps(schema))


KNOWN = KnownSchemas({KEYS[0]: avro_schema(text(FIRST)), KEYS[1]: avro_schema(text(SECOND)), GONE: None})


def value_of(number: int, row: dict[str, Any]) -> bytes:
    """Return a row as Confluent's serializers write it, by schema 1 or 2."""
    out = io.BytesIO(b"\0" + number.to_bytes(4))
    out.seek(5)
    fastavro.schemaless_writer(out, fastavro.parse_schema((FIRST, SECOND)[number - 1]), row)
    return out.getvalue()


def columns_of(*own: NestedField) -> pa.Schema:
    """Return a table's columns as a decoder takes them."""
    whole = arrow_schema(with_metadata_columns(Schema(*own)))
    return pa.schema([column for column in whole if column.name not in ORIGIN_COLUMNS])


ID, NOTE = NestedField(1, "id", LongType(), False), NestedField(2, "note", StringType(), False)
BOTH = columns_of(ID, NOTE)


def chunk_of(values: list[bytes]) -> Chunk:
    """Return records with these values and nothing else."""
    count = len(values)
    nothing: list[Any] = [None] * count
    return Chunk(0, [*range(count)], [0] * count, nothing, list(values), nothing)


ROWS = st.tuples(st.just(1), st.fixed_dictionaries({"id": st.integers(-9, 9)})) | st.tuples(
    st.just(2), st.fixed_dictionaries({"id": st.integers(-9, 9), "note": st.none() | st.text(max_size=3)})
)


@given(st.lists(ROWS | st.binary(max_size=9), min_size=1, max_size=40))
def test_rows_and_bad_values_are_in_the_order_of_the_records(records: list[Any]) -> None:
    """Each record is one of both, at its own place; the plain reader says the same of the rows."""
    chunk = chunk_of([each if isinstance(each, bytes) else value_of(*each) for each in records])
    decoder = FlatDecoder(SchemaDecoder(KNOWN))
    decoded = decoder.decode(chunk, BOTH)
    if decoded.new_fields is not None:
        assert set(decoded.new_fields.schemas) - KNOWN.by_key.keys()
        return
    bad = [each.index for each in decoded.bad]
    assert sorted([*decoded.indices, *bad]) == list(range(len(records)))
    assert list(decoded.indices) == sorted(decoded.indices)
    assert bad == sorted(bad)
    for row, index in zip(decoded.table.to_pylist(), decoded.indices, strict=True):
        if not isinstance(records[index], bytes):
            assert (row["id"], row["note"]) == (records[index][1]["id"], records[index][1].get("note"))
    plain = PlainFlatDecoder(PlainSchemaDecoder(KNOWN)).decode(chunk, BOTH)
    assert plain.rows == list(decoded.indices)
    assert plain.table.to_pylist() == decoded.table.to_pylist()


def test_schemas_that_differ_in_words_alone_are_read_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each record is at its own place, also one that cannot be read, and of a schema that is not known."""
    told = {**FIRST, "fields": [{"name": "id", "type": "long", "doc": "what it is", "aliases": ["number"]}]}
    third = SchemaKey(SchemaId(3))
    decoder = FlatDecoder(SchemaDecoder(KnownSchemas({**KNOWN.by_key, third: avro_schema(text(told))})))
    read, calls = AvroSchema.read, list[int]()

    def counted(schema: AvroSchema, values: Sequence[bytes]) -> ReadValues:
        calls.append(len(values))
        return read(schema, values)

    monkeypatch.setattr(AvroSchema, "read", counted)
    frames = [b"\0\0\0\0" + bytes([number]) for number in (1, 3, 2, 9)]
    tails = [b"", b"", b"\0", b""]
    values = [frames[n % 4] + bytes([n % 64 * 2]) + tails[n % 4] for n in range(200)]
    values[40] += b"more"
    decoded = decoder.decode(chunk_of(values), BOTH)
    bad = {n for n in range(200) if n % 4 == 3} | {40}
    assert {each.index for each in decoded.bad} == bad
    assert list(decoded.indices) == [n for n in range(200) if n not in bad]
    assert decoded.table["id"].to_pylist() == [n % 64 for n in decoded.indices]
    assert sorted(calls) == [50, 100]


def test_unknown_schemas_are_asked_for_all_at_once() -> None:
    """Nothing is decoded before; where no more are asked for, as where there is none, that is the reason."""
    chunk = chunk_of([value_of(2, {"id": 1, "note": None}), b"\0\0\0\0\x05x", b"\0\0\0\0\x04x"])
    asked = FlatDecoder(SchemaDecoder(KNOWN)).decode(chunk, BOTH)
    assert asked.new_fields == Evidence(schemas=(SchemaKey(SchemaId(4)), SchemaKey(SchemaId(5))))
    ended = FlatDecoder(SchemaDecoder(KNOWN)).decode(chunk, BOTH, GROWTH.ended())
    assert [(each.index, each.phase, each.error[:26]) for each in ended.bad] == [
        (1, "schema", "schema 5 was not requested"),
        (2, "schema", "schema 4 was not requested"),
    ]
    assert ended.rows == [0]
    (bad,) = FlatDecoder(SchemaDecoder(KNOWN)).decode(chunk_of([b"\0\0\0\0\x09x"]), BOTH).bad
    assert (bad.phase, bad.error) == ("schema", "the registry has no schema 9")


def test_a_field_without_a_column_asks_for_one_or_is_as_configured() -> None:
    """By `new_fields`, and once there is no more room for it."""
    chunk = chunk_of([value_of(2, {"id": 1, "note": "x"}), value_of(2, {"id": 2, "note": None})])
    narrow = columns_of(ID)
    assert FlatDecoder(SchemaDecoder(KNOWN)).decode(chunk, narrow).new_fields == Evidence()
    refused = FlatDecoder(SchemaDecoder(KNOWN)).decode(chunk, narrow, Growth(NewFields.DEAD_LETTER))
    assert [(each.index, each.field) for each in refused.bad] == [(0, "note")]
    assert refused.rows == [1]
    ended = FlatDecoder(SchemaDecoder(KNOWN)).decode(chunk, narrow, GROWTH.ended())
    assert [(each.index, each.field) for each in ended.bad] == [(0, "note")]
    ignored = FlatDecoder(SchemaDecoder(KNOWN)).decode(chunk, narrow, Growth(NewFields.IGNORE))
    assert (ignored.rows, dict(ignored.ignored)) == (None, {"note": 1})
    assert PlainFlatDecoder(PlainSchemaDecoder(KNOWN)).decode(chunk, narrow).has_more == [0]


def test_evidence_counts_what_can_be_read() -> None:
    """Which schemas are not known, and how many values are read by none."""
    broken = b"{}", b"\0\0\0\0\x09x", b"\0\0\0\0\x05x"
    chunk = chunk_of([value_of(1, {"id": 1}), value_of(1, {"id": 2}) + b"x", *broken])
    chunk.values[0] = None
    seen = SchemaDecoder(KNOWN).observe(chunk)
    assert (seen.records, seen.undecodable) == (0, 4)
    assert seen.schemas == (SchemaKey(SchemaId(5)),)
    assert Evidence.from_json(seen.to_json()) == seen


def test_columns_come_in_the_order_of_ids_whatever_came_first() -> None:
    """Declared ones first, as they are declared; a second look at the same adds nothing."""
    source = WrittenColumns(KNOWN, GROWTH, Rules(9, declared=frozenset({"id"})))
    seen = Evidence(schemas=KEYS)
    first, _ = source.first(seen, ())
    schema = evolved(Schema(), first)
    assert [(each.name, str(each.field_type)) for each in schema.fields] == [
        ("id", "long"),
        ("note", "string"),
    ]
    declared, _ = source.first(seen, (Field("id", Primitive.DOUBLE),))
    assert evolved(Schema(), declared).find_type("id") == DoubleType()
    assert not source.evolution(schema, bind({}, first.bindings, schema), seen)[0]
    assert list(source.evolution(Schema(ID), {}, seen)[0].descriptions) == ["note"]
    narrow, _ = WrittenColumns(KNOWN, GROWTH, Rules(1)).evolution(Schema(ID), {}, seen)
    assert not narrow.additions


def test_a_new_table_tells_of_a_time_beside_its_type_unless_it_is_declared() -> None:
    """Once, with the column's name; who declared the column has decided."""
    field = {"name": "t", "type": "long", "logicalType": "timestamp-millis"}
    schema = avro_schema(text({**FIRST, "fields": [field]}))
    known = KnownSchemas(dict.fromkeys(KEYS, schema))
    _, told = WrittenColumns(known, GROWTH, Rules(9)).first(Evidence(), ())
    assert [each.partition(" ")[0] for each in told] == ["t:"]
    _, told = WrittenColumns(known, GROWTH, Rules(9, declared=frozenset({"t"}))).first(Evidence(), ())
    assert told == ()


def test_a_new_table_keeps_what_its_first_schemas_decided() -> None:
    """Asked again, it lacks nothing, also where a type had to get a column of its own."""
    fields = [
        {"type": "record", "name": "R", "fields": [{"name": "a", "type": t}]} for t in ("long", "string")
    ]
    versions = [avro_schema(SchemaText(Language.AVRO, json.dumps(each))) for each in fields]
    source = WrittenColumns(KnownSchemas(dict(zip(KEYS, versions, strict=False))), GROWTH, Rules(9))
    first, _ = source.first(Evidence(), ())
    schema = evolved(Schema(), first)
    assert [field.name for field in schema.fields] == ["a", "a_2"]
    assert not source.evolution(schema, bind({}, first.bindings, schema), Evidence())[0]


def test_schemas_travel_to_tasks() -> None:
    """As their text: what is made of it is made again there."""
    decoder = FlatDecoder(SchemaDecoder(KNOWN))
    assert pickle.loads(pickle.dumps(decoder)) == decoder  # noqa: S301  (our own bytes)


@given(
    st.lists(st.sampled_from([None, b"\x04", b"\x04\x02\x02n", b"\0\0\0\0\1"]), max_size=20),
    st.integers(0, 20),
)
def test_values_that_name_nothing_are_read_by_where_they_stand(values: list[bytes | None], cut: int) -> None:
    """Partition by partition, in their order; the plain reader says the same, and so does who only looks."""
    spans = SchemaSpan(KEYS[0], {0: 0}), SchemaSpan(KEYS[1], {0: 5, 1: 3})
    known = replace(KNOWN, is_framed=False, spans=spans)
    count, cut = len(values), min(cut, len(values))
    offsets = [*range(cut), *range(count - cut)]
    chunk = Chunk(
        0, offsets, [0] * count, [None] * count, values, [None] * count, runs=((0, cut), (1, count - cut))
    )
    there = [index for index, value in enumerate(values) if value is not None]
    decoded = FlatDecoder(SchemaDecoder(known)).decode(chunk.take(there), BOTH)
    wanted = {}
    for position, index in enumerate(there):
        is_second = offsets[index] >= (5 if index < cut else 3)
        if values[index] == (b"\x04\x02\x02n" if is_second else b"\x04"):
            wanted[position] = (2, "n" if is_second else None)
    rows = [(row["id"], row["note"]) for row in decoded.table.to_pylist()]
    assert dict(zip(decoded.indices, rows, strict=True)) == wanted
    plain = PlainFlatDecoder(PlainSchemaDecoder(known)).decode(chunk.take(there), BOTH)
    assert plain.table.to_pylist() == decoded.table.to_pylist()
    seen = SchemaDecoder(known).observe(chunk)
    assert (seen.records, seen.undecodable) == (len(wanted), len(there) - len(wanted))
    ids = schema_ids(Encoded.values(chunk, there), known)
    assert ids.to_pylist() == ["2" if offsets[index] >= (5 if index < cut else 3) else "1" for index in there]
