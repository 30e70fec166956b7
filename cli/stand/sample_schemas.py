"""Sample topics of ``demo --formats``: planes in Avro and airports in Protobuf, framed with schema ids.

The second half of each is written by a newer version of its schema.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import fastavro
import requests
from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor_pb2 import FileDescriptorSet

from cli.stand.sample_data import SampleTopic
from spark_jobs.formats.protobuf.compiling import compiled
from spark_jobs.protocol.errors import fault
from spark_jobs.schema.writer_schema import Language, SchemaText

REGISTER_SECONDS = 30.0
PLANES, AIRPORTS = 3_322, 1_458

_PLANE: list[dict[str, Any]] = [
    {"name": "tailnum", "type": "string", "doc": "as it stands on the plane"},
    {"name": "year", "type": ["null", "int"], "doc": "in which it was built"},
    *({"name": name, "type": "string"} for name in ("type", "manufacturer", "model")),
    *({"name": name, "type": "int"} for name in ("engines", "seats")),
]
_ENGINE: list[dict[str, Any]] = [
    {"name": "engine", "type": "string"},
    {"name": "speed", "type": ["null", "int"], "doc": "mph"},
]
_AIRPORT = """\
syntax = "proto3";
package nyc;

message Airport {
  string faa = 1;
  string name = 2;
  double lat = 3;
  double lon = 4;
  int32 alt = 5;  // feet
%s}
"""
_ZONE = "  optional string tzone = 6;\n"


@dataclass(frozen=True, slots=True)
class _Versions:
    """Encoder of a topic's rows: the first half by the ``old`` schema, the rest by the ``new`` one."""

    records: int
    old: Callable[[Mapping[str, Any]], bytes]
    new: Callable[[Mapping[str, Any]], bytes]

    def __call__(self, row: Mapping[str, Any], position: int) -> bytes:
        return (self.new if position >= self.records // 2 else self.old)(row)


def samples_with_schemas(url: str) -> tuple[SampleTopic, ...]:
    """Register the schemas and return the topics whose values use them.

    The order is always the same, and so are the ids that a registry gives which was empty.
    """
    planes = _Versions(PLANES, _avro(url, _PLANE), _avro(url, [*_PLANE, *_ENGINE]))
    airports = _Versions(AIRPORTS, _protobuf(url, _AIRPORT % ""), _protobuf(url, _AIRPORT % _ZONE))
    return (
        SampleTopic("planes", 2, PLANES, "data/planes.csv", "tailnum", planes),
        SampleTopic("airports", 1, AIRPORTS, "data/airports.csv", "faa", airports),
    )


def _avro(url: str, fields: list[dict[str, Any]]) -> Callable[[Mapping[str, Any]], bytes]:
    schema = {"type": "record", "name": "Plane", "namespace": "nyc", "fields": fields}
    frame = _frame(_register(url, "planes-value", Language.AVRO, json.dumps(schema)))
    parsed = fastavro.parse_schema(schema)

    def write(row: Mapping[str, Any]) -> bytes:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, parsed, row)
        return frame + out.getvalue()

    return write


def _protobuf(url: str, text: str) -> Callable[[Mapping[str, Any]], bytes]:
    # After the id: which message of the file, its first.
    frame = _frame(_register(url, "airports-value", Language.PROTOBUF, text)) + b"\0"
    (file,) = FileDescriptorSet.FromString(compiled(SchemaText(Language.PROTOBUF, text))).file
    (make,) = message_factory.GetMessages([file], descriptor_pool.DescriptorPool()).values()
    names = [field.name for field in make.DESCRIPTOR.fields]

    def write(row: Mapping[str, Any]) -> bytes:
        present = {name: row[name] for name in names if row[name] is not None}
        return frame + bytes(make(**present).SerializeToString())

    return write


def _frame(schema_id: int) -> bytes:
    return b"\0" + schema_id.to_bytes(4)


def _register(url: str, subject: str, language: Language, text: str) -> int:
    """Register the schema, unless it is registered, and return its id."""
    try:
        answer = requests.post(
            f"{url}/subjects/{subject}/versions",
            json={"schema": text, "schemaType": language},
            timeout=REGISTER_SECONDS,
        )
        answer.raise_for_status()
        return int(answer.json()["id"])
    except requests.RequestException as error:
        raise fault("registry-away.sample-data", subject=subject, why=error) from error
