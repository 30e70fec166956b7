"""The same orders as JSON, Avro and Protobuf: what decoding a chunk of them takes, and a drain of a backlog.

Decoding is measured in this process, with all guards, chunk by chunk in an order that turns round: also two
schemas that alternate record by record, and chunks of which one value in a hundred cannot be read.
"""

from __future__ import annotations

import base64
import io
import json
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import fastavro
import pyarrow as pa
from google.protobuf import descriptor_pool, timestamp_pb2
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.message_factory import GetMessageClass
from pyiceberg.schema import Schema

from bench.drains import MeasuredDrain, run_drains
from bench.lab import Lab
from bench.records import JSON_SCHEMA, ORDERS, Shape, fill, generate, order_values
from spark_jobs.avro.schema import avro_schema
from spark_jobs.kafka.chunks import Chunk
from spark_jobs.protobuf.schema import protobuf_schema
from spark_jobs.protocol.schema_id import SchemaId, SchemaKey
from spark_jobs.records.by_schema import SchemaDecoder
from spark_jobs.records.decoder import Decoder
from spark_jobs.records.formats import JSON
from spark_jobs.schema.arrow_schema import arrow_schema
from spark_jobs.schema.known_schemas import KnownSchemas
from spark_jobs.schema.metadata_columns import ORIGIN_COLUMNS, with_metadata_columns
from spark_jobs.schema.writer_schema import Language, SchemaText

CHUNK_RECORDS = 5_000  # as a task's are
ROUNDS = 3
FIRST_RECORDS = 4_000  # the tables are made from these
GOALS = {
    "avro": 0.5,
    "protobuf": 0.55,
    "avro, two schemas / one": 1.3,
    "avro, 1 % unreadable / none": 1.5,
    "protobuf, 1 % unreadable / none": 1.5,
}
GOAL_DRAIN = 0.8
_TYPES = {
    pa.int64(): ("long", FieldDescriptorProto.TYPE_INT64),
    pa.float64(): ("double", FieldDescriptorProto.TYPE_DOUBLE),
    pa.string(): ("string", FieldDescriptorProto.TYPE_STRING),
    pa.bool_(): ("boolean", FieldDescriptorProto.TYPE_BOOL),
}
_AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": field.name, "type": _TYPES[field.type][0]}
        if field.type in _TYPES
        else {"name": field.name, "type": {"type": "long", "logicalType": "timestamp-micros"}}
        for field in JSON_SCHEMA
    ],
}
_FRAMES = b"\0\0\0\0\x01", b"\0\0\0\0\x02"


@dataclass(frozen=True, slots=True)
class FormatsResult:
    """CPU microseconds a record of decoding, by what was decoded; of drains, CPU a row by format."""

    records: int
    decode_us: Mapping[str, float]
    drain_us: Mapping[str, float]

    @property
    def ratios(self) -> dict[str, float]:
        """Return what the goals speak of: formats to JSON, the others to their own format."""
        us = self.decode_us
        return {
            name: us[name.split(" / ")[0]] / us["json" if " / " not in name else name.split(",")[0]]
            for name in GOALS
        }


def measure_formats(lab: Lab, records: int, *, rounds: int = ROUNDS) -> FormatsResult:
    """Decode chunks of each, then drain so many records of each format."""
    return FormatsResult(records, _decoded(records, rounds), _drained(lab, records))


def _decoded(records: int, rounds: int) -> dict[str, float]:
    cases = _cases()
    spent: defaultdict[str, float] = defaultdict(float)
    for turn in range(rounds):
        for first in range(0, records, CHUNK_RECORDS):
            plain = [json.loads(value) for value in order_values(first, CHUNK_RECORDS)]
            for name in list(cases)[:: -1 if turn % 2 else 1]:
                decoder, columns, written = cases[name]
                chunk = _chunk(written(plain))
                began = time.process_time()
                decoder.decode(chunk, columns)
                # The first of all pays for what is made once in a process.
                spent[name] += time.process_time() - began if first else 0.0
    return {name: seconds / (rounds * (records - CHUNK_RECORDS)) * 1e6 for name, seconds in spent.items()}


def _cases() -> dict[str, tuple[Decoder, pa.Schema, Callable[[list[dict[str, Any]]], list[bytes]]]]:
    """Return by name a decoder, a table's columns, and how orders are written for it."""
    avro = avro_schema(SchemaText(Language.AVRO, json.dumps(_AVRO)))
    another = avro_schema(SchemaText(Language.AVRO, json.dumps({**_AVRO, "doc": "the same again"})))
    protobuf = protobuf_schema(SchemaText(Language.PROTOBUF, _descriptor()))
    one, two = (SchemaKey(SchemaId(number)) for number in (1, 2))
    by_avro = SchemaDecoder(KnownSchemas({one: avro, two: another}))
    by_protobuf = SchemaDecoder(KnownSchemas({SchemaKey(SchemaId(1), (0,)): protobuf}, has_indexes=True))
    of_avro, of_protobuf = _columns(avro.columns.struct.fields), _columns(protobuf.columns.struct.fields)
    of_json = pa.schema([*JSON_SCHEMA, *(each for each in of_avro if each.name.startswith("_"))])
    return {
        "json": (JSON.decoder, of_json, lambda rows: [json.dumps(row).encode() for row in rows]),
        "avro": (by_avro, of_avro, _avro_framed),
        "avro, two schemas": (by_avro, of_avro, _alternating),
        "avro, 1 % unreadable": (by_avro, of_avro, lambda rows: _some_cut(_avro_framed(rows))),
        "protobuf": (by_protobuf, of_protobuf, _protobuf_framed),
        "protobuf, 1 % unreadable": (
            by_protobuf,
            of_protobuf,
            lambda rows: _some_cut(_protobuf_framed(rows)),
        ),
    }


def _columns(fields: Sequence[Any]) -> pa.Schema:
    whole = arrow_schema(with_metadata_columns(Schema(*fields)))
    return pa.schema([column for column in whole if column.name not in ORIGIN_COLUMNS])


def _chunk(values: list[bytes]) -> Chunk:
    count = len(values)
    nothing: list[Any] = [None] * count
    return Chunk(0, [*range(count)], [0] * count, nothing, [*values], nothing)


def _avro_framed(rows: list[dict[str, Any]]) -> list[bytes]:
    return [_FRAMES[0] + value for value in map(_avro, rows)]


def _alternating(rows: list[dict[str, Any]]) -> list[bytes]:
    return [_FRAMES[number % 2] + value for number, value in enumerate(map(_avro, rows))]


def _protobuf_framed(rows: list[dict[str, Any]]) -> list[bytes]:
    return [_FRAMES[0] + b"\0" + value for value in map(_protobuf, rows)]


def _some_cut(values: list[bytes]) -> list[bytes]:
    return [value[:-3] if number % 100 == 50 else value for number, value in enumerate(values)]


def _avro(row: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, _parsed(), {**row, "placed_at": _micros(row)})
    return out.getvalue()


def _protobuf(row: dict[str, Any]) -> bytes:
    message = _message_class()(**{name: value for name, value in row.items() if name != "placed_at"})
    message.placed_at.FromMicroseconds(_micros(row))
    return bytes(message.SerializeToString())


def _micros(row: dict[str, Any]) -> int:
    moment = timestamp_pb2.Timestamp()
    moment.FromJsonString(row["placed_at"])
    return int(moment.ToMicroseconds())


@cache
def _parsed() -> Any:
    return fastavro.parse_schema(_AVRO)


def _file() -> FileDescriptorProto:
    file = FileDescriptorProto(name="order.proto", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    message = file.message_type.add(name="Order")
    for number, field in enumerate(JSON_SCHEMA, 1):
        added = message.field.add(name=field.name, number=number, label=FieldDescriptorProto.LABEL_OPTIONAL)
        if field.type in _TYPES:
            added.type = _TYPES[field.type][1]
        else:
            added.type, added.type_name = FieldDescriptorProto.TYPE_MESSAGE, ".google.protobuf.Timestamp"
    return file


def _descriptor() -> str:
    return base64.b64encode(_file().SerializeToString()).decode()


@cache
def _message_class() -> Any:
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    pool.Add(_file())
    return GetMessageClass(pool.FindMessageTypeByName("Order"))


def avro_values(first: int, count: int) -> list[bytes]:
    """Return orders as Avro, without a frame."""
    return [_avro(json.loads(value)) for value in order_values(first, count)]


def protobuf_values(first: int, count: int) -> list[bytes]:
    """Return orders as Protobuf, without a frame."""
    return [_protobuf(json.loads(value)) for value in order_values(first, count)]


def _drained(lab: Lab, records: int) -> dict[str, float]:
    shapes = {
        "json": ORDERS,
        "avro": Shape("avro", JSON_SCHEMA, avro_values),
        "protobuf": Shape("protobuf", JSON_SCHEMA, protobuf_values),
    }
    files = {"avro": json.dumps(_AVRO), "protobuf": _descriptor()}
    paths = {}
    with lab.spark("spark-formats") as spark:
        for name, shape in shapes.items():
            topic = f"formats-{name}"
            generate(lab.bootstrap_servers, topic, FIRST_RECORDS, shape)
            value = {"format": name, **({"file": "schema"} if name in files else {})}
            paths[name] = lab.configure(topic, topic, spark, value=value, max_batch_records=records)
            if name in files:
                (paths[name].parent / "schema").write_text(files[name])
        run_drains(spark, *paths.values())
        for name, shape in shapes.items():
            fill(lab.bootstrap_servers, f"formats-{name}", 0, records, shape)
        drains = run_drains(spark, *paths.values()).drains
    return {name: _us_per_row(drained) for name, drained in zip(paths, drains, strict=True)}


def _us_per_row(drained: MeasuredDrain) -> float:
    tasks = sum(drained.cpu_us.values())
    return tasks / drained.rows
