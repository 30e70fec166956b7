"""Values with schemas in columns that were given another type: each in one of them, as the audit reads it."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import DoubleType, IcebergType, ListType, LongType, NestedField, StringType, StructType

from spark_jobs.audit.row_check import RowCheck
from spark_jobs.config.columns import GROWTH, Growth, NewFields
from spark_jobs.formats.avro.schema import avro_schema
from spark_jobs.kafka.chunks import Chunk
from spark_jobs.protocol.kept import KeptColumn
from spark_jobs.records.by_schema import SchemaDecoder
from spark_jobs.records.by_schema_plain import PlainSchemaDecoder
from spark_jobs.records.decoder import Terms
from spark_jobs.records.layouts.flat import FlatDecoder, PlainFlatDecoder
from spark_jobs.records.row_maker import ChunkRows, RowMaker
from spark_jobs.records.shape import Origin
from spark_jobs.schema.arrow_schema import arrow_schema
from spark_jobs.schema.column_source import KnownSchemas
from spark_jobs.schema.metadata_columns import dead_letter_schema, with_metadata_columns
from spark_jobs.schema.writer_schema import Language, SchemaText

ORIGIN = Origin("orders", 1, 1_700_000_000_000_000)
OF_TEXT = KeptColumn("id", "_id_was_string", 1, {0: 3}, {}, is_done=True)


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
    letters, terms = arrow_schema(dead_letter_schema()), Terms(growth, tuple(kept), 1)
    made = RowMaker(FlatDecoder(SchemaDecoder(known)), ORIGIN, "b", table, letters, terms=terms).make(chunk)
    kept_columns = frozenset(each.kept for each in kept)
    check = RowCheck(PlainFlatDecoder(PlainSchemaDecoder(known)), ORIGIN, table, growth.ignores, kept_columns)
    assert check.compare(chunk, made.rows).differing.tolist() == []
    return made


def held(made: ChunkRows, *names: str) -> dict[int, tuple[Any, ...]]:
    """Return the rows' values by offset."""
    return {row["_kafka_offset"]: tuple(row[name] for name in names) for row in made.rows.to_pylist()}


def letters(made: ChunkRows) -> dict[int, str]:
    """Return the dead letters' fields by offset."""
    return {row["_kafka_offset"]: row["field"] for row in made.dead_letters.to_pylist()}


def test_what_does_not_fit_stays_in_the_column_of_before() -> None:
    """Of records from before the change; later ones are dead letters."""
    records = [{"id": text} for text in ("7", "x", "007", "8", "y")]
    made = drained(records, "string", [OF_TEXT], id=LongType(), _id_was_string=StringType())
    assert held(made, "id", "_id_was_string") == {
        0: (7, None),
        1: (None, "x"),
        2: (None, "007"),
        3: (8, None),
    }
    assert letters(made) == {4: "id"}


def test_a_value_falls_through_every_type_that_its_column_had() -> None:
    """To none that it had only before the record."""
    kept = [OF_TEXT, KeptColumn("id", "_id_was_double", 1, {0: 5}, {0: 0})]
    records = [{"id": text} for text in ("7", "1.5", "x", "1.5", "x")]
    columns: dict[str, Any] = {
        "id": LongType(),
        "_id_was_double": DoubleType(),
        "_id_was_string": StringType(),
    }
    made = drained(records, "string", kept, **columns)
    assert held(made, *columns) == {
        0: (7, None, None),
        1: (None, 1.5, None),
        2: (None, None, "x"),
        3: (None, 1.5, None),
    }
    assert letters(made) == {4: "id"}


def test_no_field_is_written_into_a_kept_column() -> None:
    """Whatever it is called."""
    records = [{"_id_was_string": "a"}, {"_id_was_string": None}]
    made = drained(records, ["null", "string"], [OF_TEXT], id=LongType(), _id_was_string=StringType())
    assert held(made, "id", "_id_was_string") == {1: (None, None)}
    assert letters(made) == {0: "_id_was_string"}


POINT = {"type": "record", "name": "P", "fields": [{"name": n, "type": ["null", "string"]} for n in "ab"]}


@pytest.mark.parametrize("new_fields", NewFields)
def test_a_struct_is_kept_as_a_whole(new_fields: NewFields) -> None:
    """One of its fields that has no column is counted, or makes it a dead letter, in either column."""
    growth = Growth(new_fields).ended() if new_fields is NewFields.ADD else Growth(new_fields)
    columns: dict[str, Any] = {}
    for number, (name, kind) in enumerate({"id": LongType(), "_id_was_string": StringType()}.items()):
        one = StructType(NestedField(20 + number, "a", kind, required=False))
        columns[name] = ListType(10 + number, one, element_required=False)
    points = [{"a": "7"}, {"a": "x"}, {"a": "8", "b": "z"}, {"a": "x", "b": "z"}, {"a": "w"}]
    kept = [replace(OF_TEXT, until={0: 4})]
    made = drained(
        [{"id": [each]} for each in points], {"type": "array", "items": POINT}, kept, growth, **columns
    )
    more = {2: ([{"a": 8}], None), 3: (None, [{"a": "x"}])} if growth.ignores else {}
    assert held(made, *columns) == {0: ([{"a": 7}], None), 1: (None, [{"a": "x"}])} | more
    assert dict(made.ignored) == ({"id.element.b": 2} if growth.ignores else {})
    no_column = {} if growth.ignores else {2: "id.element.b", 3: "id.element.b"}
    assert letters(made) == {4: "id.element.a"} | no_column


def test_many_values_are_each_in_one_column() -> None:
    """In the order of their records."""
    records = [{"id": f"{'x' * (n % 3 == 0)}{n}"} for n in range(400)]
    all_old = [KeptColumn("id", "_id_was_string", 1, {0: 400}, {})]
    made = drained(records, "string", all_old, id=LongType(), _id_was_string=StringType())
    ids = np.asarray(made.rows.column("id").is_valid())
    assert np.flatnonzero(~ids).tolist() == [*range(0, 400, 3)]
    assert np.array_equal(ids, np.asarray(made.rows.column("_id_was_string").is_null()))
    assert made.rows.column("id").drop_null() == pa.chunked_array([[n for n in range(400) if n % 3]])
