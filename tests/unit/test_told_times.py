"""Times of formats with schemas in columns that a person declared: text, number, or cut; by both readers."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import fastavro
import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given
from hypothesis import strategies as st

from prove.lab.debezium_events import TIME, Column, Source
from spark_jobs.config.columns import ColumnSettings, Fit
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.config.value_format import Framing, ValueFormat, ValueSettings
from spark_jobs.formats.avro.schema import avro_schema
from spark_jobs.formats.json_schema.schema import json_schema
from spark_jobs.protocol.work import Layout, layout_named
from spark_jobs.schema.column_source import KnownSchemas
from spark_jobs.schema.writer_schema import Form, Language, SchemaText, WriterSchema, under
from tests.support.change_rows import Table
from tests.support.shaped import Shaped
from tests.unit.test_protobuf_schema import schema_of

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FIELD = {"name": "at", "type": {"type": "long", "logicalType": "timestamp-nanos"}}
AVRO = avro_schema(SchemaText(Language.AVRO, json.dumps({"type": "record", "name": "r", "fields": [FIELD]})))
PROTOBUF = schema_of("message M { google.protobuf.Timestamp at = 1; }", "M")
IN_JSON = {"type": "object", "properties": {"at": {"type": "string", "format": "date-time"}}}
JSON_SCHEMA = json_schema(SchemaText(Language.JSON_SCHEMA, json.dumps(IN_JSON)))
MANY = 100  # so many are read as a block
NANOS = st.integers(-(10**18), 4 * 10**18)


def text(nanos: int) -> str:
    """Return a time as ISO 8601 has it, with three, six or nine digits."""
    seconds, rest = divmod(nanos, 10**9)
    digits = f"{rest:09d}"
    for zeros in ("000000000", "000000", "000"):
        if digits.endswith(zeros):
            digits = digits[: -len(zeros)]
            break
    whole = (EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S")
    return whole + (f".{digits}" if digits else "") + "Z"


def in_avro(nanos: int) -> bytes:
    """Return a record of Avro."""
    file = io.BytesIO()
    fastavro.schemaless_writer(file, "long", nanos)
    return file.getvalue()


def in_protobuf(nanos: int) -> bytes:
    """Return a message."""
    seconds, rest = divmod(nanos, 10**9)
    inside: bytes = Timestamp(seconds=seconds, nanos=rest).SerializeToString()
    return bytes([0x0A, len(inside)]) + inside


def in_json(nanos: int) -> bytes:
    """Return an object."""
    return json.dumps({"at": text(nanos)}).encode()


FORMATS: dict[str, tuple[WriterSchema, Callable[[int], bytes], ValueFormat]] = {
    "avro": (AVRO, in_avro, ValueFormat.AVRO),
    "protobuf": (PROTOBUF, in_protobuf, ValueFormat.PROTOBUF),
    "json schema": (JSON_SCHEMA, in_json, ValueFormat.JSON_SCHEMA),
}


def read(schema: WriterSchema, values: list[bytes]) -> list[Any]:
    """Return what is read of each value, as a block, by itself and in an audit."""
    block: list[Any] = schema.read((values * MANY)[:MANY]).table.column("at").to_pylist()[: len(values)]
    assert block == [schema.read([value]).table.column("at")[0].as_py() for value in values]
    assert block == [schema.read_plain(value)["at"] for value in values]
    return block


@pytest.mark.parametrize("way", FORMATS)
@given(every=st.lists(NANOS, min_size=1, max_size=4))
def test_a_declared_text_has_all_digits(way: str, every: list[int]) -> None:
    """Before 1970 too."""
    schema, write, _ = FORMATS[way]
    told = under(schema, (("at", Form.TEXT),))
    assert read(told, [write(nanos) for nanos in every]) == [text(nanos) for nanos in every]


@pytest.mark.parametrize("way", ["avro", "protobuf"])
@given(every=st.lists(NANOS, min_size=1, max_size=4))
def test_a_declared_number_is_the_sources(way: str, every: list[int]) -> None:
    """Nanoseconds since 1970."""
    schema, write, _ = FORMATS[way]
    assert read(under(schema, (("at", Form.NUMBER),)), [write(nanos) for nanos in every]) == every


@pytest.mark.parametrize("way", FORMATS)
@given(every=st.lists(NANOS, min_size=1, max_size=4))
def test_a_truncated_time_is_rounded_down(way: str, every: list[int]) -> None:
    """To the microsecond, and audits find it right."""
    schema, write, kind = FORMATS[way]
    columns = {"at": ColumnSettings(type="timestamptz", fit=Fit.TRUNCATE)}
    value = ValueSettings(format=kind, file="a", framing=Framing.NONE)
    pipeline = PipelineConfig(name="a", topic="t", table="l.a", columns=columns, value=value)
    made = Shaped(pipeline, KnownSchemas({None: schema}, is_framed=False)).make(*map(write, every))
    assert made.rows.column("at").to_pylist() == [EPOCH + timedelta(microseconds=ns // 1000) for ns in every]


SOURCE = Source(
    {
        "id": Column("int32", optional=False),
        "zoned": Column("string", f"{TIME}ZonedTimestamp"),
        "clock": Column("int64", f"{TIME}MicroTime"),
        "nanos": Column("int64", f"{TIME}NanoTimestamp"),
    }
)
HOURS = -30 * 3_600_000_000
EVENT = {"id": 1, "zoned": "2024-02-29T12:00:00.1234567+01:00", "clock": HOURS, "nanos": -1}


@pytest.mark.parametrize("layout", [layout_named("changes"), layout_named("mirror")])
@pytest.mark.parametrize("count", [1, MANY])
@pytest.mark.parametrize("is_there", [False, True])
def test_events_of_debezium_have_declared_columns(layout: Layout, count: int, *, is_there: bool) -> None:
    """Before there is a table and after; without them each is a bad value that names the ways in."""
    columns = {name: ColumnSettings(type="string") for name in ("zoned", "clock")}
    table = Table(layout=layout, columns=columns)
    plain = {"id": 2, "zoned": "2024-02-29T12:00:00Z", "clock": 1, "nanos": 1}
    if is_there:
        table.drain([(SOURCE.key(2), SOURCE.event("c", plain))])
    events: list[Any] = [
        (SOURCE.key(number), SOURCE.event("c", {**EVENT, "id": number})) for number in range(count)
    ]
    decoded = table.drain(events)
    rows = decoded.table.to_pylist()
    assert ([*decoded.bad], len(rows)) == ([], count)
    told = {(row["zoned"], row["clock"], row["nanos"]) for row in rows}
    assert told == {("2024-02-29T12:00:00.1234567+01:00", "-30:00:00", -1)}
    undeclared = Table(layout=layout).drain([(SOURCE.key(2), SOURCE.event("c", plain)), *events])
    assert len(undeclared.bad) == count
    assert "declare the column string" in undeclared.bad[0].error
