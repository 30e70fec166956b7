"""Events of Kafka Connect's Avro converters, made from events of its JSON converter.

So that tests have them without a Connect. Confluent's converter and Apicurio's go by the same rules
(``AvroData``), which are followed here; the bytes are fastavro's. ``prove`` has Apicurio's own write a real
database's changes.
"""

from __future__ import annotations

import io
import json
from base64 import b64decode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import requests
from fastavro import parse_schema, schemaless_writer

from prove.lab.kafka_server import Record

# Registers a schema under a subject and returns its id.
Register = Callable[[str, str], int]

_TYPES = {
    "int8": "int",
    "int16": "int",
    "int32": "int",
    "int64": "long",
    "float": "float",
    "float32": "float",
    "double": "double",
    "float64": "double",
    "boolean": "boolean",
    "string": "string",
    "bytes": "bytes",
}
_LOGICAL = {
    "org.apache.kafka.connect.data.Date": "date",
    "org.apache.kafka.connect.data.Time": "time-millis",
    "org.apache.kafka.connect.data.Timestamp": "timestamp-millis",
}
_DECIMAL = "org.apache.kafka.connect.data.Decimal"
_NO_PRECISION = 64  # what the converters say where Connect says none


def registering(url: str) -> Register:
    """Return a function that registers schemas at a registry."""

    def register(subject: str, text: str) -> int:
        with requests.Session() as session:
            session.trust_env = False  # a proxy is no way to loopback
            answer = session.post(f"{url}/subjects/{subject}/versions", json={"schema": text}, timeout=30)
        assert answer.ok, f"the registry refuses {subject}: {answer.text}"
        return int(answer.json()["id"])

    return register


@dataclass(slots=True)
class AvroConverter:
    """Writes keys and values after the id of their schema."""

    register: Register
    _ids: dict[tuple[str, str], int] = field(default_factory=dict)
    _parsed: dict[str, Any] = field(default_factory=dict)

    def record(self, topic: str, record: Record) -> Record:
        """Return a record with its key and value in Avro."""
        key, value = self.convert(topic, "key", record.key), self.convert(topic, "value", record.value)
        return replace(record, key=key, value=value)

    def convert(self, topic: str, part: str, document: bytes | None) -> bytes | None:
        """Return a JSON document with its schema in Avro; ``part`` is key or value."""
        if document is None:
            return None
        whole = json.loads(document)
        subject, written = f"{topic}-{part}", json.dumps(avro_schema(whole["schema"]))
        if (subject, written) not in self._ids:
            self._ids[subject, written] = self.register(subject, written)
            self._parsed[written] = parse_schema(without_meaning(json.loads(written)))
        out = io.BytesIO(b"\0" + self._ids[subject, written].to_bytes(4))
        out.seek(0, io.SEEK_END)
        schemaless_writer(out, self._parsed[written], datum(whole["schema"], whole["payload"]))
        return out.getvalue()


def avro_schema(schema: Mapping[str, Any], known: set[str] | None = None) -> Any:
    """Return the converters' schema of Connect's schema; a ``known`` record is only named."""
    known = set() if known is None else known
    made = _type(schema, known)
    if not schema.get("optional"):
        return made
    return [made, "null"] if schema.get("default") is not None else ["null", made]


def _type(schema: Mapping[str, Any], known: set[str]) -> Any:
    said = {
        "connect.version": schema.get("version"),
        "connect.parameters": schema.get("parameters"),
        "connect.default": schema.get("default"),
        "connect.name": schema.get("name"),
        "connect.doc": None if schema["type"] == "struct" else schema.get("doc"),
        "connect.type": schema["type"] if schema["type"] in ("int8", "int16") else None,
        "logicalType": _LOGICAL.get(str(schema.get("name"))),
    }
    if schema.get("name") == _DECIMAL:
        precision = int(schema["parameters"].get("connect.decimal.precision", _NO_PRECISION))
        scale = int(schema["parameters"]["scale"])
        said |= {"logicalType": "decimal", "precision": precision, "scale": scale}
    said = {name: item for name, item in said.items() if item is not None}
    match schema["type"]:
        case "struct":
            namespace, _, name = str(schema.get("name", "ConnectDefault")).rpartition(".")
            if (full := f"{namespace}.{name}".lstrip(".")) in known:
                return full
            known.add(full)
            fields = [_field(each, known) for each in schema["fields"]]
            where = {"namespace": namespace} if namespace else {}
            doc = {"doc": schema["doc"]} if "doc" in schema else {}
            return {"type": "record", "name": name, **where, **doc, "fields": fields, **said}
        case "array":
            return {"type": "array", "items": avro_schema(schema["items"], known), **said}
        case "map":
            return {"type": "map", "values": avro_schema(schema["values"], known), **said}
    base = _TYPES[schema["type"]]
    return {"type": base, **said} if said else base


def _field(schema: Mapping[str, Any], known: set[str]) -> dict[str, Any]:
    default = {"default": None} if schema.get("optional") and schema.get("default") is None else {}
    doc = {"doc": schema["doc"]} if "doc" in schema else {}
    return {"name": schema["field"], "type": avro_schema(schema, known), **doc, **default}


def datum(schema: Mapping[str, Any], value: Any) -> Any:
    """Return a JSON value in the form that fastavro takes."""
    if value is not None:
        match schema["type"]:
            case "struct":
                return {each["field"]: datum(each, value.get(each["field"])) for each in schema["fields"]}
            case "array":
                return [datum(schema["items"], each) for each in value]
            case "map":
                return {name: datum(schema["values"], each) for name, each in value.items()}
            case "bytes":
                return b64decode(value)
            case "float" | "float32" | "double" | "float64":
                return float(value)
    return value


def without_meaning(schema: Any) -> Any:
    """Return an Avro schema without logical types."""
    if isinstance(schema, list):
        return [without_meaning(each) for each in schema]
    if isinstance(schema, dict):
        return {name: without_meaning(each) for name, each in schema.items() if name != "logicalType"}
    return schema
