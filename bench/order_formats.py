"""The orders of ``bench.records`` in Avro and Protobuf, and their schemas."""

from __future__ import annotations

import base64
import io
import json
from functools import cache
from typing import Any

import fastavro
import pyarrow as pa
from google.protobuf import descriptor_pool, timestamp_pb2
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.message_factory import GetMessageClass

from bench.records import JSON_SCHEMA, order_values

_TYPES = {
    pa.int64(): ("long", FieldDescriptorProto.TYPE_INT64),
    pa.float64(): ("double", FieldDescriptorProto.TYPE_DOUBLE),
    pa.string(): ("string", FieldDescriptorProto.TYPE_STRING),
    pa.bool_(): ("boolean", FieldDescriptorProto.TYPE_BOOL),
}
AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": field.name, "type": _TYPES[field.type][0]}
        if field.type in _TYPES
        else {"name": field.name, "type": {"type": "long", "logicalType": "timestamp-micros"}}
        for field in JSON_SCHEMA
    ],
}


def avro_value(row: dict[str, Any]) -> bytes:
    """Return an order from its JSON form in Avro."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, _parsed(), {**row, "placed_at": _micros(row)})
    return out.getvalue()


def protobuf_value(row: dict[str, Any]) -> bytes:
    """Return an order from its JSON form in Protobuf."""
    message = _message_class()(**{name: value for name, value in row.items() if name != "placed_at"})
    message.placed_at.FromMicroseconds(_micros(row))
    return bytes(message.SerializeToString())


def _micros(row: dict[str, Any]) -> int:
    moment = timestamp_pb2.Timestamp()
    moment.FromJsonString(row["placed_at"])
    return int(moment.ToMicroseconds())


@cache
def _parsed() -> Any:
    return fastavro.parse_schema(AVRO)


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


def descriptor() -> str:
    """Return the message's file as Python's serializers register it."""
    return base64.b64encode(_file().SerializeToString()).decode()


@cache
def _message_class() -> Any:
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    pool.Add(_file())
    return GetMessageClass(pool.FindMessageTypeByName("Order"))


def avro_values(first: int, count: int) -> list[bytes]:
    """Return orders as Avro, without a frame."""
    return [avro_value(json.loads(value)) for value in order_values(first, count)]


def protobuf_values(first: int, count: int) -> list[bytes]:
    """Return orders as Protobuf, without a frame."""
    return [protobuf_value(json.loads(value)) for value in order_values(first, count)]
