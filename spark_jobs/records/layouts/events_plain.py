"""Independent reader of events, for ``audit`` only: parses whole events, with its own canonical keys."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from typing import Any

import orjson

from spark_jobs.formats.connect.avro_documents import AvroDocument, documents_of
from spark_jobs.formats.connect.documents import NotReadError
from spark_jobs.formats.connect.events import (
    DELETE,
    TRUNCATE,
    WITH_A_ROW,
    Change,
    Events,
    NonChange,
    commit_position,
    identity_of,
    non_change,
    position,
    time_us,
    transaction,
)
from spark_jobs.formats.connect.keys import Spelling
from spark_jobs.formats.connect.plain_keys import plain_key, plain_object_key
from spark_jobs.formats.json.plain import UNREADABLE, read_exactly
from spark_jobs.kafka.chunks import Chunk
from spark_jobs.records.by_schema import framed_values
from spark_jobs.records.decoder import BadValue, Encoded, Phase
from spark_jobs.records.layouts.events import enveloped, upsert
from spark_jobs.schema.column_source import KnownSchemas
from spark_jobs.schema.writer_schema import UnreadableValueError


def plain_debezium(documents: Events, records: Chunk, index: int) -> Change | NonChange | None:
    """See ``debezium``."""
    key, value = records.keys[index], records.values[index]
    try:
        return None if value is None else _change(key, value, documents.spelling)
    except UNREADABLE as error:  # no row is made of it, and if there is one it has no basis
        raise NotReadError(str(error)) from error


def plain_upsert(documents: Events, records: Chunk, index: int) -> Change:
    """See ``upsert``: the parts besides the row are read by it."""
    return _respelled(upsert(documents, records, index), records.keys[index], documents.spelling)


def plain_enveloped(documents: Events, records: Chunk, index: int) -> Change | None:
    """See ``enveloped``: the parts besides the row are read by it."""
    change = enveloped(documents, records, index)
    return change and _respelled(change, records.keys[index], documents.spelling)


def _respelled(change: Change, key: bytes | None, spelling: Spelling) -> Change:
    return change if key is None else replace(change, row_id=plain_key(key, spelling))


def _change(key: bytes | None, value: bytes, spelling: Spelling) -> Change | NonChange:
    event, schema = read_exactly(value), None
    if isinstance(event, dict) and event.keys() == {"schema", "payload"}:
        schema = None if event["schema"] is None else json.dumps(_object(event["schema"]), default=str)
        event = event["payload"]
    if event is None:
        return NonChange.NOTHING
    event = _object(event)
    if (kind := non_change(event, event.get)) is not None:
        return kind
    return _plain_change(event, schema, None if key is None else plain_object_key(key, spelling))


def plain_documents_in(
    encoded: Encoded, schemas: KnownSchemas
) -> tuple[dict[int, AvroDocument], list[BadValue]]:
    """See ``documents_in``: each document is read by the one-by-one reader."""
    framed = framed_values(encoded, schemas)
    found: dict[int, AvroDocument] = {}
    for key, indices in framed.indices.items():
        if (schema := schemas.by_key.get(key)) is not None:
            documents = documents_of(schema)
            for at, value in zip(indices.tolist(), framed.values[key], strict=True):
                with suppress(UnreadableValueError):
                    found[encoded.rows[at]] = documents.read_plain(value)
    return found, [BadValue(row, Phase.DECODE, None, "") for row in encoded.rows if row not in found]


def plain_change_in(event: AvroDocument, key: str | None, spelling: Spelling) -> Change:
    """See ``change_in``."""
    try:
        values = {name: event.value_of(name) for name in event.names}
        return _plain_change(values, event.schema, None if key is None else plain_key(key.encode(), spelling))
    except UNREADABLE as error:  # as above
        raise NotReadError(str(error)) from error


def _plain_change(event: dict[str, Any], schema: str | None, identity: str | None) -> Change:
    """Return an event that was parsed whole as a change. Raises one of ``UNREADABLE``."""
    source = {} if event.get("source") is None else _object(event["source"])
    operation = str(event.get("op"))
    if operation not in (*WITH_A_ROW, DELETE, TRUNCATE):
        raise NotReadError("not a Debezium event")
    row: Any = {}
    if source.get("connector") == "mongodb":
        schema, row = (
            None,
            read_exactly(str(event["after"]).encode(errors="surrogatepass"))
            if operation in WITH_A_ROW
            else {},
        )
    elif operation in WITH_A_ROW:
        row = event.get("after")
    elif operation == DELETE:
        row = event.get("before") if identity is None else read_exactly(identity.encode())
    return Change(
        operation,
        position(source),
        time_us(source),
        transaction(source, event.get("transaction")),
        identity,
        orjson.dumps(_object(row), default=lambda number: orjson.Fragment(str(number))),
        schema,
        operation in WITH_A_ROW,
        commit_position(source),
        identity_of(source),
    )


def _object(value: Any) -> dict[str, Any]:
    if type(value) is not dict:
        raise NotReadError("no object")
    return value
