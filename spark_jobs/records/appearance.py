"""Describes the appearance of unreadable values, for the person who owns the topic."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from pyiceberg.schema import Schema

from spark_jobs.config.columns import GROWTH, Growth
from spark_jobs.config.sections import Envelope
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.config.value_format import Framing, ValueFormat
from spark_jobs.protocol.errors import SluiceError, fault
from spark_jobs.schema.arrow_schema import arrow_schema
from spark_jobs.schema.iceberg_types import ORIGIN_COLUMNS, with_metadata_columns

if TYPE_CHECKING:
    from spark_jobs.kafka.chunks import Chunk
    from spark_jobs.records.decoder import Decoder

ASK_THE_REGISTRY = (
    "Only the registry knows whether that is Avro, Protobuf or JSON Schema: `./sluice init --registry URL`"
    " asks it. Or write `value: {format: avro, registry: main}`, and check it with `./sluice check`"
)
_MOST_SCHEMA_IDS = 5
_NO_COLUMNS = pa.schema(
    [
        column
        for column in arrow_schema(with_metadata_columns(Schema(), key_is_binary=True))
        if column.name not in ORIGIN_COLUMNS
    ]
)
_FRAME_BYTES = 5  # a zero byte, then the schema's id in four
_CONTROLS = frozenset(range(32)) - frozenset(b"\t\n\r")
_BEGINNINGS = {
    b"Obj\x01": "Avro files, each with its schema",
    b"\x1f\x8b": "compressed by gzip",
    b"\x28\xb5\x2f\xfd": "compressed by zstd",
    b"\x04\x22\x4d\x18": "compressed by lz4",
    b"\x82SNAPPY\x00": "compressed by snappy",
    b"<": "XML or HTML",
    b"\xc3\x01": "Avro single objects: two bytes, a schema's fingerprint, then the value",
}
_EVENTS = "events of Debezium (layout: changes)"
_JSON = {
    dict: "JSON objects",
    list: "JSON arrays; only objects can become rows",
    str: "JSON, but strings",
}
_OTHER_JSON = "JSON numbers, booleans or null"
_BINARY = "neither text nor a known format"
_FRAMED = "framed by a schema registry: a zero byte, a schema id, then the value"
_APICURIO = "framed by Apicurio's own serializers: a zero byte, an id of eight bytes, then the value"
_GLUE = "framed by AWS Glue's serializers: two bytes, a schema's UUID, then the value"
_APICURIO_BYTES, _GLUE_BYTES = 9, 18
_FRAME_OF = {
    Framing.CONFLUENT: _FRAMED,
    Framing.APICURIO: _APICURIO,
    Framing.APICURIO_GLOBAL: _APICURIO,
    Framing.GLUE: _GLUE,
}
_OTHER_FRAMES = {
    _APICURIO: "Write `framing: apicurio_global` under `value:` (`apicurio` if the producers set"
    " `apicurio.registry.use-id=contentId`), with a registry of `kind: apicurio`. Or let the producers write"
    " ids of four bytes.",
    _GLUE: "Write `framing: glue` under `value:`, with a registry of `kind: glue`.",
    _BEGINNINGS[b"\xc3\x01"]: "Configure the producers to write Confluent's frames, or values without a frame"
    " whose one schema is set in `value:`.",
}


def appearance(values: Sequence[bytes]) -> str:
    """Return counts of values by appearance, most frequent first; empty without values."""
    kinds = Counter(map(_kind, values))
    ids = sorted({int.from_bytes(each[1:_FRAME_BYTES]) for each in values if _kind(each) == _FRAMED})
    more = [f"{len(ids) - _MOST_SCHEMA_IDS:,} more"] if len(ids) > _MOST_SCHEMA_IDS else []
    named = f" (schema id {', '.join([*map(str, ids[:_MOST_SCHEMA_IDS]), *more])})"
    descriptions = {kind: f"{kind}{named if kind == _FRAMED else ''}" for kind in kinds}
    if len(kinds) == 1:
        return f"all {len(values):,} inspected values are {''.join(descriptions.values())}"
    return "; ".join(f"{n:,} of {len(values):,} are {descriptions[kind]}" for kind, n in kinds.most_common())


def frequent_reason(decoder: Decoder, chunks: Sequence[Chunk], growth: Growth = GROWTH) -> str:
    """Return the most frequent reason of unreadable values; empty if it is unknown."""
    reasons: Counter[str] = Counter()
    for chunk in chunks:
        present = chunk.take([at for at, value in enumerate(chunk.values) if value is not None])
        if present.offsets:
            reasons.update(bad.error for bad in decoder.decode(present, _NO_COLUMNS, growth.ended()).bad)
    return reasons.most_common(1)[0][0] if reasons else ""


def unreadable_chunks(
    pipeline: PipelineConfig,
    decoder: Decoder,
    chunks: Sequence[Chunk],
    *,
    count: int = 0,
    most: int | None = None,
) -> SluiceError:
    """Return the error for a topic whose first ``most`` of ``count`` values, or all, are unreadable."""
    values = values_of(chunks)
    has_keys = any(key is not None for chunk in chunks for key in chunk.keys)
    reason = frequent_reason(decoder, chunks, pipeline.table_schema.growth)
    return first_batch_unreadable(
        pipeline, count or len(values), values[:most], has_keys=has_keys, reason=reason
    )


def values_of(chunks: Iterable[Chunk]) -> list[bytes]:
    """Return the values in order, without tombstones."""
    return [value for chunk in chunks for value in chunk.values if value is not None]


def first_batch_unreadable(
    pipeline: PipelineConfig, count: int, values: Sequence[bytes], *, has_keys: bool, reason: str = ""
) -> SluiceError:
    """Return the error for a topic whose first ``count`` values are all unreadable."""
    if pipeline.layout.keeps_newest and not has_keys:
        return fault("mirror-without-key", count=count, topic=pipeline.topic)
    looks = appearance(values)
    written = pipeline.value.format
    nouns = "is a JSON object" if written is ValueFormat.JSON else f"can be read as {written}"
    if pipeline.envelope is not None:
        nouns = f"is an event ({pipeline.envelope})"
    return fault(
        "first-batch-unreadable.values",
        count=count,
        nouns=nouns,
        seen=f": {looks}" if looks else "",
        refused=f". Most frequent reason: {reason}" if reason else "",
        advice=_advice(pipeline, values),
        owner=pipeline.name,
        topic=pipeline.topic,
    )


def _advice(pipeline: PipelineConfig, values: Sequence[bytes]) -> str:  # noqa: PLR0911  (a line for each)
    """Return the part to correct: the format, or the schema."""
    value = pipeline.value
    kinds = Counter(map(_kind, values)).most_common(1)
    frame = _FRAME_OF.get(value.framing) if value.format.has_schema else None
    if kinds and kinds[0][0] != frame and (other := _OTHER_FRAMES.get(kinds[0][0])):
        return other
    is_framed = any(_kind(each) in {_FRAMED, frame} for each in values)
    if pipeline.envelope is Envelope.DEBEZIUM and value.format is ValueFormat.JSON:
        in_avro = "If they are Avro, write `value: {format: avro, registry: main}`, and `key:` likewise."
        return (
            in_avro
            if is_framed
            else "If the connector removes the envelope, and deletes have no value or"
            " `__deleted`, write `cdc: {envelope: upsert}`."
        )
    if value.format.has_schema and value.is_framed and values and not is_framed:
        return "Correct the settings under `value:`. For values without a schema id set `framing: none`."
    if value.is_by_version and is_framed:
        return "Remove `framing: none` under `value:`: the values contain their schema ids."
    if value.format.has_schema:
        return "Correct the schema under `value:`, or the format."
    if is_framed:
        return f"{ASK_THE_REGISTRY}."
    return "Set their format with `value: {format: …}`. The default is JSON objects."


def _kind(value: bytes) -> str:
    known = (kind for beginning, kind in _BEGINNINGS.items() if value.startswith(beginning))
    if (kind := next(known, None)) is not None:
        return kind
    if value.startswith(bytes(_FRAME_BYTES)) and len(value) > _APICURIO_BYTES:
        return _APICURIO
    if value[:2] in (b"\x03\x00", b"\x03\x05") and len(value) > _GLUE_BYTES:
        return _GLUE
    # Ids count up from 1: a second zero byte tells a frame from binary data that begins with one.
    if len(value) > _FRAME_BYTES and value.startswith(b"\0\0"):
        return _FRAMED
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return _BINARY
    return _BINARY if _CONTROLS & set(value) else _kind_of_text(text.strip())


def _kind_of_text(text: str) -> str:
    if text.startswith("\ufeff"):
        return "text with a byte order mark, which JSON does not allow"
    if not text:
        return "empty"
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        return "text that is not JSON"
    if is_event(parsed):
        return _EVENTS
    return next((kind for type_, kind in _JSON.items() if isinstance(parsed, type_)), _OTHER_JSON)


def is_event(parsed: object) -> bool:
    """True if a JSON value looks like a Debezium change event."""
    payload = parsed.get("payload", parsed) if isinstance(parsed, dict) else None
    if not isinstance(payload, dict) or "op" not in payload:
        return False
    return isinstance(payload.get("source"), dict) or payload.keys() >= {"before", "after"}
