"""Avro values of any schema, whole and damaged in every way, against readers that are not ours."""

from __future__ import annotations

import io
import json
import random
from typing import TYPE_CHECKING, Any

import fastavro
import pyarrow as pa
import pytest
from fastavro.schema import UnknownType
from hypothesis import given, settings
from pyiceberg.schema import Schema

from spark_jobs.formats.avro.schema import AvroSchema, avro_schema
from spark_jobs.protocol.errors import ConfigError
from spark_jobs.schema.arrow_schema import arrow_schema, column_of
from spark_jobs.schema.writer_schema import Language, SchemaText, UnreadableValueError
from tests.support.avro_generated import RandomSchema
from tests.support.avro_reference import Json, NoRowError, Reference
from tests.support.damage import EXAMPLES, SEEDS, VALUES, damaged

if TYPE_CHECKING:
    from collections.abc import Sequence


def _written(parsed: Any, value: Any) -> bytes:
    file = io.BytesIO()
    fastavro.schemaless_writer(file, parsed, value)
    return file.getvalue()


_HOSTILE = [
    *(_written("long", each) for each in (2**60, 2**40, -(2**40), -(2**63), 2**63 - 1, 2**31, -1, 3)),
    *(b"\x80" * 9 + b"\0", b"\x81" * 9 + b"\1", b"\x80" * 9 + b"\2", b"\xff" * 12, b"\x82\x00", b"\x02"),
    *(b"\x01\x02", b"\xc3\x28", b"\xed\xa0\x80"),
]


@settings(max_examples=EXAMPLES)
@given(SEEDS)
def test_every_value_is_a_right_row_or_unread(seed: int) -> None:
    """At once, among others, and by itself a value is the row that the reference says, or unread."""
    chance = random.Random(seed)
    made = RandomSchema(chance)
    try:
        parsed = fastavro.parse_schema(made.text)
    except UnknownType:  # defined in a branch that a second one of its name took the place of
        return
    schema = _supported(made.text)
    if schema is None:
        return
    reference = Reference(made.text, made.named)
    drawn = [made.value() for _ in range(VALUES)]
    values = [_written(parsed, each) for each in drawn]
    for each, written in zip(drawn, values, strict=True):
        assert _is_same(reference.value(written), each), (each, written)
    values += damaged(values, chance, _HOSTILE)
    chance.shuffle(values)
    wanted = _wanted(reference, values)
    good, plain = _plain_rows(schema, values, wanted)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("spark_jobs.formats.avro.block._FEWEST_LANES", chance.choice([1, 16]))
        read = schema.read(values)
    assert [*range(len(values))] == sorted([*good, *(each.index for each in read.unread)])
    assert good == (read.rows if read.rows is not None else [*range(len(values))])
    _assert_same(read.table, plain)


def _supported(text: Any) -> AvroSchema | None:
    try:
        return avro_schema(SchemaText(Language.AVRO, json.dumps(text)))
    except ConfigError as error:
        if error.code != "schema-unsupported":
            raise
        return None


def _wanted(reference: Reference, values: Sequence[bytes]) -> list[dict[str, Any] | None]:
    """Return each value's row, None where it is none; what the reference reads fastavro reads so too."""
    bare = json.loads(json.dumps(reference.schema), object_hook=_without_logical_types)
    parsed = fastavro.parse_schema(bare)
    rows: list[dict[str, Any] | None] = []
    for each in values:
        try:
            value = reference.value(each)
            assert _is_same(fastavro.schemaless_reader(io.BytesIO(each), parsed), _untagged(value)), each
            rows.append(reference.row(value))
        except NoRowError:
            rows.append(None)
    return rows


def _without_logical_types(schema: dict[str, Any]) -> dict[str, Any]:
    return {name: item for name, item in schema.items() if name != "logicalType"}


def _untagged(value: Any) -> Any:
    """Return a value without the names of unions' branches."""
    match value:
        case tuple():
            return _untagged(value[1])
        case dict():
            return {name: _untagged(each) for name, each in value.items()}
        case list():
            return [_untagged(each) for each in value]
    return value


def _plain_rows(
    schema: AvroSchema, values: Sequence[bytes], wanted: Sequence[dict[str, Any] | None]
) -> tuple[list[int], pa.Table]:
    """Return which values are rows, by themselves, and the rows: those that are wanted."""
    columns = arrow_schema(Schema(*schema.columns.struct.fields))
    rows, good = [], []
    for index, (value, right) in enumerate(zip(values, wanted, strict=True)):
        try:
            made = schema.read_plain(value)
        except UnreadableValueError as error:
            assert right is None, (value, error)  # noqa: PT017
            continue
        assert right is not None, (value, made)
        assert _is_as_expected(made, right), (value, made, right)
        rows.append(made)
        good.append(index)
    arrays = [column_of([row[column.name] for row in rows], column.type) for column in columns]
    return good, pa.Table.from_arrays(arrays, schema=columns)


def _assert_same(read: pa.Table, plain: pa.Table) -> None:
    assert read.schema.equals(plain.schema, check_metadata=True)
    read.validate(full=True)
    assert read.num_rows == plain.num_rows
    for one, other in zip(read.to_pylist(), plain.to_pylist(), strict=True):
        assert _is_same(one, other), (one, other)


def _is_same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return repr(one) == repr(other)
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_is_same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_is_same, one, other))
    return type(one) is type(other) and one == other


def _is_as_expected(made: Any, expected: Any) -> bool:
    """A map has pairs; a text of JSON is what it says."""
    if isinstance(expected, Json):
        return isinstance(made, str) and _is_same(json.loads(made), expected.content)
    if isinstance(expected, dict):
        if isinstance(made, list):
            made = dict(made) if len(dict(made)) == len(made) else {}
        return (
            isinstance(made, dict)
            and [*made] == [*expected]
            and all(_is_as_expected(made[key], expected[key]) for key in made)
        )
    if isinstance(expected, list):
        return len(made) == len(expected) and all(map(_is_as_expected, made, expected))
    return _is_same(made, expected)
