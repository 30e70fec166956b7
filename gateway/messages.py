"""Parses client messages; invalid input is rejected with an error.

A value is passed on as written, except for blanks: numbers keep every digit.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from hashlib import blake2b
from http import HTTPStatus
from typing import Any, NamedTuple, NoReturn
from zlib import crc32

import orjson

from spark_jobs.config.gateway import SLOTS, StreamSettings
from spark_jobs.formats.connect.events import DELETE, OPERATIONS

# The answers of the protocol: acknowledgements and rejections.


# With version 2, status and pong have the last number in Kafka in addition to the last accepted one.
VERSIONS = (1, 2)


class State(StrEnum):
    """The state of a gateway; the last one that applies."""

    READY = "ready"
    BUSY = "busy"
    DRAINING = "draining"
    SPOOLING = "spooling"


class Status(StrEnum):
    """The status of an acknowledged batch."""

    OK = "ok"
    BUFFERED = "buffered"
    PERSISTED = "persisted"
    DUPLICATE = "duplicate"
    FALLBACK = "fallback"


class Reason(StrEnum):
    """The reason why a batch was rejected."""

    BUFFER_FULL = "buffer_full"
    RATE_LIMITED = "rate_limited"
    INVALID_SEQUENCE = "invalid_sequence"
    INVALID_FORMAT = "invalid_format"
    INTERNAL_ERROR = "internal_error"
    SHUTTING_DOWN = "shutting_down"
    FENCED = "fenced"


_AGAIN_MS = {
    Reason.BUFFER_FULL: 1000,
    Reason.RATE_LIMITED: 1000,
    Reason.INTERNAL_ERROR: 2000,
    Reason.SHUTTING_DOWN: 1000,
}


@dataclass(frozen=True, slots=True)
class Ack:
    """The acknowledgement of a batch; ``status`` is where it is stored."""

    sequence: int
    status: Status
    processed: int = 0
    skipped: int = 0

    def to_json(self, batch_id: str | None = None) -> dict[str, Any]:
        """Return it as it is sent."""
        fields = {
            "type": "ack",
            "status": self.status,
            "sequenceNumber": self.sequence,
            "batchId": batch_id,
            "eventsProcessed": self.processed,
            "duplicatesSkipped": self.skipped,
        }
        return _without_none(fields)


@dataclass(frozen=True, slots=True)
class Nack:
    """The rejection of a batch; ``expected`` is the next sequence number, ``field`` the invalid field.

    ``gateway`` is the address of the source's gateway, if known.
    """

    reason: Reason
    message: str
    sequence: int | None = None
    retry_after_ms: int | None = None
    expected: int | None = None
    field: str | None = None
    gateway: str | None = None

    @property
    def should_retry(self) -> bool:
        """True if the same batch may be accepted later, or by another gateway."""
        return self.reason in _AGAIN_MS or self.gateway is not None

    @property
    def is_taken(self) -> bool:
        """True if its sequence number belongs to another batch."""
        return self.expected is not None and self.sequence is not None and self.expected > self.sequence

    def to_json(self, batch_id: str | None = None) -> dict[str, Any]:
        """Return it as it is sent."""
        details = {
            "message": self.message,
            "retryAfterMs": self.again_ms,
            "expected": self.expected,
            "field": self.field,
            "gateway": self.gateway,
        }
        fields = {
            "type": "nack",
            "reason": self.reason,
            "shouldRetry": self.should_retry,
            "sequenceNumber": self.sequence,
            "batchId": batch_id,
            "details": _without_none(details),
        }
        return _without_none(fields)

    @property
    def again_ms(self) -> int | None:
        """The milliseconds to wait before a retry; None if a retry cannot succeed."""
        return self.retry_after_ms or _AGAIN_MS.get(self.reason)


Answer = Ack | Nack


def _without_none(words: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in words.items() if value is not None}


def slot_of(source: str) -> int:
    """Return the slot of a source; must never change, since states are stored by slot."""
    return crc32(source.encode()) % SLOTS


MOST_EVENTS = 10_000
MOST_TEXT = 256
_MOST_SEQUENCE = (1 << 53) - 1  # what JavaScript counts exactly
_SHORT_DIGITS = 18
DIGEST_BYTES = 8
# Bytes that no UTF-8 has.
_NONE, _END = b"\xff", b"\xfe"


@dataclass(eq=False)
class RefusedError(Exception):
    """An invalid message; ``status`` is the HTTP status of its response."""

    message: str
    field: str | None = None
    status: HTTPStatus = HTTPStatus.BAD_REQUEST
    reason: Reason = Reason.INVALID_FORMAT

    def nack(self, sequence: int | None = None) -> Nack:
        """Return the rejection to send."""
        return Nack(self.reason, self.message, sequence, field=self.field)


class Event(NamedTuple):
    """An event: key and value for its Kafka record, and its id, if it has one."""

    key: bytes | None
    value: bytes | None
    id: str | None = None


@dataclass(frozen=True, slots=True)
class Batch:
    """Events of a source in order; without a ``sequence`` the next number is used.

    ``digest`` distinguishes its events from those of another batch with the same number.
    """

    source: str
    events: tuple[Event, ...]
    size_bytes: int
    sequence: int | None = None
    id: str | None = None
    digest: bytes = b""

    def __post_init__(self) -> None:
        """Compute the digest of the events."""
        if not self.digest:
            parts: list[bytes] = []
            for key, value, name in self.events:
                parts += (_NONE if key is None else key, _NONE if value is None else value)
                parts.append(_NONE if name is None else name.encode())
            hashed = blake2b(_END.join(parts), digest_size=DIGEST_BYTES)
            object.__setattr__(self, "digest", hashed.digest())


def parse(text: str | bytes) -> Any:
    """Parse a JSON document. Raises ``RefusedError``."""
    try:
        written = text.encode() if isinstance(text, str) else text
        read = orjson.loads(written)
        if orjson.dumps(read) == written:  # as browsers write it: no number and no field has changed
            return read
    except (ValueError, TypeError):
        pass  # numbers, nesting or invalid JSON: handled below
    try:
        return json.loads(text, parse_float=orjson.Fragment, parse_int=_whole, parse_constant=_refuse)
    except RecursionError:
        raise RefusedError("the JSON is nested too deeply") from None
    except ValueError as error:
        raise RefusedError(f"not valid JSON: {error}") from None


def parse_lines(body: bytes) -> list[Any]:
    """Parse a body with one JSON document per line. Raises ``RefusedError``."""
    return [parse(line) for line in body.splitlines() if line.strip()]


def read_batch(message: dict[str, Any], source: str, stream: StreamSettings, size_bytes: int) -> Batch:
    """Return the batch of a message. Raises ``RefusedError``."""
    sequence = message.get("sequenceNumber")
    if sequence is not None and not (type(sequence) is int and 0 < sequence <= _MOST_SEQUENCE):
        raise RefusedError("not a whole number of at least 1", "sequenceNumber")
    batch_id = read_text(message.get("batchId"), "batchId")
    if message.get("sourceId", source) != source:
        raise RefusedError("this connection belongs to another source", "sourceId")
    events = message.get("events")
    if type(events) is not list:
        raise RefusedError("not a JSON array", "events")
    if len(events) > MOST_EVENTS:
        raise too_large(f"the batch has more than {MOST_EVENTS:,} events", "events")
    return Batch(source, tuple(_events(events, stream, sequence)), size_bytes, sequence, batch_id)


def too_large(message: str, field: str | None = None) -> RefusedError:
    """Return the error for a message that is too large."""
    return RefusedError(message, field, HTTPStatus.REQUEST_ENTITY_TOO_LARGE)


def read_text(value: Any, field: str) -> str | None:
    """Return a short text, or None. Raises ``RefusedError``."""
    if value is None:
        return None
    if type(value) is not str or not 0 < len(value) <= MOST_TEXT or not value.isprintable():
        raise RefusedError(f"not a text of 1 to {MOST_TEXT} printable characters", field)
    return value


def read_source(value: Any) -> str:
    """Return a source's id, which is required. Raises ``RefusedError``."""
    source = read_text(value, "sourceId")
    if source is None:
        raise RefusedError("the field is missing", "sourceId")
    return source


def _events(events: Sequence[Any], stream: StreamSettings, sequence: int | None) -> Iterator[Event]:
    for at, event in enumerate(events):
        try:
            yield _event(event, stream, sequence)
        except RefusedError as error:
            where = f"events[{at}]" if error.field is None else f"events[{at}].{error.field}"
            raise RefusedError(error.message, where) from None


def _event(event: Any, stream: StreamSettings, sequence: int | None) -> Event:
    if type(event) is not dict:
        raise RefusedError("not a JSON object")
    event_id = read_text(event.get("id"), "id")
    key = _key(event, stream)
    value = event.get("value") if stream.envelope is None else _enveloped(event, key, sequence)
    try:
        return Event(_key_bytes(key), None if value is None else orjson.dumps(value), event_id)
    except (TypeError, ValueError) as error:
        raise RefusedError(f"cannot be written as JSON: {error}") from None


def _key(event: dict[str, Any], stream: StreamSettings) -> Any:
    key, value = event.get("key"), event.get("value")
    return value.get(stream.key, key) if stream.key is not None and type(value) is dict else key


def _key_bytes(key: Any) -> bytes | None:
    if key is None:
        return None
    return key.encode() if type(key) is str else orjson.dumps(key)


def _enveloped(event: dict[str, Any], key: Any, sequence: int | None) -> dict[str, Any]:
    operation, value = event.get("operation"), event.get("value")
    if operation not in OPERATIONS:
        raise RefusedError(f"not one of {', '.join(OPERATIONS)}", "operation")
    if key is None:
        raise RefusedError("the field is missing", "key")
    if operation != DELETE and type(value) is not dict:
        raise RefusedError("not a JSON object", "value")
    time = event.get("timestamp")
    if time is not None and not _is_time(time):
        raise RefusedError("neither milliseconds nor an ISO 8601 time with a zone", "timestamp")
    return {"operation": operation, "key": key, "value": value, "timestamp": time, "sequence": sequence}


def _is_time(value: Any) -> bool:
    if type(value) is int:
        return True
    try:
        return type(value) is str and datetime.fromisoformat(value).tzinfo is not None
    except ValueError:
        return False


def _whole(digits: str) -> Any:
    return int(digits) if len(digits) <= _SHORT_DIGITS else orjson.Fragment(digits)


def _refuse(text: str) -> NoReturn:
    raise RefusedError(f"not valid JSON: {text}")
