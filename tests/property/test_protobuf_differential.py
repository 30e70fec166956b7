"""Protobuf values of any schema, whole and damaged in every way, against readers that are not ours."""

from __future__ import annotations

import base64
import json
import random
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import any_pb2, descriptor_pool, duration_pb2, timestamp_pb2, wrappers_pb2
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.formats.protobuf.schema import ProtobufSchema, protobuf_schema
from spark_jobs.protocol.errors import ConfigError
from spark_jobs.schema.writer_schema import Language, SchemaText, UnreadableValueError
from tests.support.damage import EXAMPLES, SEEDS, VALUES, damaged
from tests.support.protobuf_generated import fill, random_file
from tests.support.protobuf_reference import Json, NoRowError, message_of, row_of

_HOSTILE = [
    *(
        b"\x80" * 9 + b"\1",
        b"\x80" * 9 + b"\2",
        b"\x80" * 10 + b"\1",
        b"\xff" * 9 + b"\1",
        b"\x82\x00",
        b"\x80\x80\x00",
    ),
    *(
        b"\xff\xff\xff\xff\x0f",
        b"\x80\x80\x80\x80\x10",
        b"\xff" * 8 + b"\x0f",
        b"\0",
        b"\x0b\x0c",
        b"\x0b",
        b"\x0c",
    ),
    *(b"\xc3\x28", b"\xed\xa0\x80", b"\x0a\0", b"\x12\0", b"\x08\x01", b"\x10\x7f"),
]


def made(chance: random.Random) -> tuple[ProtobufSchema, Any]:
    """Return a schema and the class of its messages by Google's own library."""
    file = random_file(chance)
    pool = descriptor_pool.DescriptorPool()
    for module in (timestamp_pb2, duration_pb2, wrappers_pb2, any_pb2):
        pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
    pool.Add(file)
    text = base64.b64encode(file.SerializeToString()).decode()
    ignores = chance.random() < 0.3
    schema = protobuf_schema(SchemaText(Language.PROTOBUF, text), message="Outer", ignores=ignores)
    return schema, GetMessageClass(pool.FindMessageTypeByName("made.Outer"))


def plain_rows(schema: ProtobufSchema, values: list[bytes]) -> list[dict[str, Any] | None]:
    """Return each value as its plain reader says, None where it is no row."""
    rows: list[dict[str, Any] | None] = []
    for value in values:
        try:
            rows.append(as_dicts(schema.read_plain(value)))
        except UnreadableValueError:
            rows.append(None)
    return rows


def read_rows(
    schema: ProtobufSchema, values: list[bytes], chance: random.Random
) -> list[dict[str, Any] | None]:
    """Return each value as it is read among the others, a list also where it is long beside them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("spark_jobs.formats.protobuf.block._FEWEST_LANES", chance.choice([1, 16]))
        read = schema.read(values)
    rows: list[dict[str, Any] | None] = [None] * len(values)
    kinds = read.table.schema
    indices = range(len(values)) if read.rows is None else read.rows
    assert sorted([*indices, *(each.index for each in read.unread)]) == list(range(len(values)))
    for index, row in zip(indices, read.table.to_pylist(), strict=True):
        rows[index] = {name: as_kind(item, kinds.field(name).type) for name, item in row.items()}
    return rows


def as_kind(item: Any, kind: pa.DataType) -> Any:
    """Return what Arrow gives as the reference has it: maps as dicts, in which no key is twice."""
    if item is None:
        return None
    if pa.types.is_map(kind):
        assert len(dict(item)) == len(item), item
        return {name: as_kind(each, kind.item_type) for name, each in item}
    if pa.types.is_list(kind):
        return [as_kind(each, kind.value_type) for each in item]
    if pa.types.is_struct(kind):
        return {field.name: as_kind(item[field.name], field.type) for field in kind}
    return item


def as_dicts(item: Any) -> Any:
    """Return what the plain reader gives, lists of pairs as dicts."""
    if isinstance(item, dict):
        return {name: as_dicts(each) for name, each in item.items()}
    if isinstance(item, list):
        if item and isinstance(item[0], tuple):
            assert len(dict(item)) == len(item), item
            return {name: as_dicts(each) for name, each in item}
        return [as_dicts(each) for each in item]
    return item


def same(left: Any, right: Any) -> bool:
    """Equal; an empty map of the plain reader's is an empty list, a text of JSON is what it says."""
    if isinstance(right, Json):
        return isinstance(left, str) and same(json.loads(left), right.content)
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[name], right[name]) for name in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, float):
        return repr(left) == repr(right)  # -0.0 is not 0.0, and NaN is NaN
    return bool(left == right) or (left in ({}, []) and right in ({}, []))


@settings(max_examples=EXAMPLES)
@given(SEEDS)
def test_every_value_is_a_right_row_or_unread(seed: int) -> None:
    """At once, among others, and by itself a value is the row that the reference says, or unread."""
    chance = random.Random(seed)
    schema, kind = made(chance)
    messages = [fill(kind(), chance) for _ in range(VALUES)]
    values = [message.SerializeToString(deterministic=True) for message in messages]
    for message, value in zip(messages, values, strict=True):
        assert message_of(kind, value).SerializeToString(deterministic=True) == value, message
    values += damaged(values, chance, _HOSTILE)
    chance.shuffle(values)
    wanted = [wanted_row(kind, value, ignores=schema.ignores) for value in values]
    for rows in (plain_rows(schema, values), read_rows(schema, values, chance)):
        for value, row, right in zip(values, rows, wanted, strict=True):
            assert (row is None) == (right is None), (value, row, right)
            assert right is None or same(row, right), (value, row, right)


def wanted_row(kind: Any, value: bytes, *, ignores: bool) -> dict[str, Any] | None:
    """Return a value's row, None where it is none; what the reference reads Google's library reads so too."""
    try:
        message = message_of(kind, value, ignores=ignores)
        row, whole = row_of(message), row_of(message, inside=None)
    except NoRowError:
        return None
    assert same(row_of(kind.FromString(value), inside=None), whole), value
    return row


@given(st.binary(max_size=200))
def test_any_text_is_a_schema_or_an_error_that_says_so(junk: bytes) -> None:
    """Also a descriptor with bytes that are none."""
    file = random_file(random.Random(len(junk))).SerializeToString()
    for data in (junk, file + junk):
        text = SchemaText(Language.PROTOBUF, base64.b64encode(data).decode())
        try:
            protobuf_schema(text, message="Outer").read([b"", junk])
        except ConfigError as error:
            codes = {"schema-unreadable", "schema-unsupported", "no-such-message"}
            assert error.code in codes, error  # noqa: PT017  (or none)
