"""Values in columns that were given another type: what says the same there, as the audit reads it."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import DoubleType, IcebergType, ListType, LongType, NestedField, StringType, StructType

from spark_jobs.audit.row_check import RowCheck
from spark_jobs.config.columns import GROWTH, Growth, NewFields
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.formats.avro.schema import avro_schema
from spark_jobs.kafka.chunks import Chunk
from spark_jobs.protocol.progress_parts import KeptColumn
from spark_jobs.records.by_schema import SchemaDecoder
from spark_jobs.records.by_schema_plain import PlainSchemaDecoder
from spark_jobs.records.layouts.flat import FlatDecoder, PlainFlatDecoder
from spark_jobs.records.reading_plan import JSON
from spark_jobs.records.row_maker import ChunkRows, RowMaker
from spark_jobs.records.shape import Origin
from spark_jobs.reshape.retype import _refitted
from spark_jobs.schema.arrow_schema import arrow_schema
from spark_jobs.schema.column_source import KnownSchemas
from spark_jobs.schema.iceberg_types import dead_letter_schema, with_metadata_columns
from spark_jobs.schema.writer_schema import Language, SchemaText

ORIGIN = Origin("orders", 1, 1_700_000_000_000_000)
OF_TEXT = KeptColumn("id", "_id_was_string", 1, is_done=True)


def drained(
    records: list[Any], kind: Any, kept: list[KeptColumn], growth: Growth = GROWTH, **columns: IcebergType
) -> ChunkRows:
    """Return what a drain makes of records of one field, which the audit finds right."""
    schema = {"type": "record", "name": "R", "fields": [{"name": name, "type": kind} for name in records[0]]}
    values = [io.BytesIO() for _ in records]
    for out, record in zip(values, records, strict=True):
        fastavro.schemaless_writer(out, fastavro.parse_schema(schema), record)
    known = KnownSchemas({None: avro_schema(SchemaText(Language.AVRO, json.dumps(schema)))}, is_framed=False)
    count = len(records)
    nothing: list[Any] = [None] * count
    chunk = Chunk(0, [*range(count)], [0] * count, nothing, [out.getvalue() for out in values], nothing)
    own = [NestedField(n, *column, required=False) for n, column in enumerate(columns.items(), 1)]
    table = arrow_schema(with_metadata_columns(Schema(*own)))
    letters, retyped = arrow_schema(dead_letter_schema()), frozenset(each.column for each in kept)
    kept_columns = frozenset(each.kept for each in kept)
    decoder = FlatDecoder(SchemaDecoder(known, retyped=retyped))
    made = RowMaker(decoder, ORIGIN, "b", table, letters, growth=growth, kept=kept_columns).make(chunk)
    check = RowCheck(PlainFlatDecoder(PlainSchemaDecoder(known)), ORIGIN, table, growth.ignores, kept_columns)
    assert check.compare(chunk, made.rows).differing.tolist() == []
    return made


def held(made: ChunkRows, *names: str) -> dict[int, tuple[Any, ...]]:
    """Return the rows' values by offset."""
    return {row["_kafka_offset"]: tuple(row[name] for name in names) for row in made.rows.to_pylist()}


def letters(made: ChunkRows) -> dict[int, str]:
    """Return the dead letters' fields by offset."""
    return {row["_kafka_offset"]: row["field"] for row in made.dead_letters.to_pylist()}


def test_what_does_not_fit_is_a_dead_letter() -> None:
    """Of whatever record; nothing is written into the column of before."""
    records = [{"id": text} for text in ("7", "x", "007", "8", "y")]
    made = drained(records, "string", [OF_TEXT], id=LongType(), _id_was_string=StringType())
    assert held(made, "id", "_id_was_string") == {0: (7, None), 3: (8, None)}
    assert letters(made) == {1: "id", 2: "id", 4: "id"}


def test_only_columns_that_were_given_another_type_take_what_says_the_same() -> None:
    """Text in a column that was always of numbers is none."""
    made = drained(
        [{"n": "7"}], "string", [OF_TEXT], n=LongType(), id=LongType(), _id_was_string=StringType()
    )
    assert letters(made) == {0: "n"}


def test_no_field_is_written_into_a_kept_column() -> None:
    """Whatever it is called."""
    records = [{"_id_was_string": "a"}, {"_id_was_string": None}]
    made = drained(records, ["null", "string"], [OF_TEXT], id=LongType(), _id_was_string=StringType())
    assert held(made, "id", "_id_was_string") == {1: (None, None)}
    assert letters(made) == {0: "_id_was_string"}


def test_a_letter_of_a_kept_column_is_of_its_own_record() -> None:
    """Whatever could be no row before it."""
    records = [{"id": "x", "_id_was_string": None}, {"id": "7", "_id_was_string": None}]
    records += [{"id": "8", "_id_was_string": "a"}, {"id": "9", "_id_was_string": None}]
    made = drained(records, ["null", "string"], [OF_TEXT], id=LongType(), _id_was_string=StringType())
    assert held(made, "id") == {1: (7,), 3: (9,)}
    assert letters(made) == {0: "id", 2: "_id_was_string"}


POINT = {"type": "record", "name": "P", "fields": [{"name": n, "type": ["null", "string"]} for n in "ab"]}


@pytest.mark.parametrize("new_fields", NewFields)
def test_a_struct_fits_as_a_whole(new_fields: NewFields) -> None:
    """One of its fields that has no column is counted, or makes it a dead letter."""
    growth = Growth(new_fields).ended() if new_fields is NewFields.ADD else Growth(new_fields)
    columns: dict[str, Any] = {}
    for number, (name, kind) in enumerate({"id": LongType(), "_id_was_string": StringType()}.items()):
        one = StructType(NestedField(20 + number, "a", kind, required=False))
        columns[name] = ListType(10 + number, one, element_required=False)
    points = [{"a": "7"}, {"a": "x"}, {"a": "8", "b": "z"}, {"a": "x", "b": "z"}]
    made = drained(
        [{"id": [each]} for each in points], {"type": "array", "items": POINT}, [OF_TEXT], growth, **columns
    )
    more = {2: ([{"a": 8}], None)} if growth.ignores else {}
    assert held(made, *columns) == {0: ([{"a": 7}], None)} | more
    assert dict(made.ignored) == ({"id.element.b": 1} if growth.ignores else {})
    no_column = {3: "id.element.a"} if growth.ignores else {2: "id.element.b", 3: "id.element.b"}
    assert letters(made) == {1: "id.element.a"} | no_column


def test_many_values_stay_in_the_order_of_their_records() -> None:
    """However many between them do not fit."""
    records = [{"id": f"{'x' * (n % 3 == 0)}{n}"} for n in range(400)]
    made = drained(records, "string", [OF_TEXT], id=LongType(), _id_was_string=StringType())
    wanted = [n for n in range(400) if n % 3]
    assert made.rows.column("id").to_pylist() == made.rows.column("_kafka_offset").to_pylist() == wanted
    assert [*letters(made)] == [*range(0, 400, 3)]


def test_no_json_is_written_into_a_kept_column() -> None:
    """Whoever guesses its name gets a dead letter; saying nothing under it is no harm."""
    values = [b'{"c":1}', b'{"_c":5}', b'{"c":2,"_c":null}', b'{"c":1.5}']
    chunk = Chunk(0, [*range(4)], [0] * 4, [None] * 4, values, [None] * 4)
    own = [
        NestedField(1, "c", LongType(), required=False),
        NestedField(2, "_c", DoubleType(), required=False),
    ]
    table = arrow_schema(with_metadata_columns(Schema(*own)))
    made = RowMaker(
        JSON.decoder, ORIGIN, "b", table, arrow_schema(dead_letter_schema()), kept=frozenset({"_c"})
    ).make(chunk)
    assert held(made, "c", "_c") == {0: (1, None), 2: (2, None)}
    assert letters(made) == {1: "_c", 3: "c"}


def test_what_fits_moves_into_the_new_column_and_the_rest_stays() -> None:
    """No value is in both, and none that is there is written over."""
    pipeline = PipelineConfig(name="a", topic="t", table="l.a")
    columns = {"c": [None, None, 3, None], "_c": [1.0, 2.5, 4.0, None], "n": [5, 6, 7, 8]}
    kinds = pa.schema([("c", pa.int64()), ("_c", pa.float64()), ("n", pa.int64())])
    made = _refitted(pa.table(columns, kinds), kept=KeptColumn("c", "_c", 1), pipeline=pipeline)
    moved = {"c": [1, None, 3, None], "_c": [None, 2.5, 4.0, None], "n": [5, 6, 7, 8]}
    assert made.equals(pa.table(moved, kinds))
