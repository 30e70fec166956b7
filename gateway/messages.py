"""What clients send, read: nothing in a frame can do more than be refused.

A value goes on as it was written but for blanks: numbers keep every digit.
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

# The words of the protocol: what is answered to a batch, and why one is turned away.


# Of the second a status and a pong say what Kafka has beside what was accepted.
VERSIONS = (1, 2)


class State(StrEnum):
    """What a gateway does; of several the last that holds."""

    READY = "ready"
    BUSY = "busy"
    DRAINING = "draining"
    SPOOLING = "spooling"


class Status(StrEnum):
    """What became of a batch."""

    OK = "ok"
    BUFFERED = "buffered"
    PERSISTED = "persisted"
    DUPLICATE = "duplicate"
    FALLBACK = "fallback"


class Reason(StrEnum):
    """Why a batch was not taken."""

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
    """A batch is where ``status`` says."""

    sequence: int
    status: Status
    processed: int = 0
    skipped: int = 0

    def to_json(self, batch_id: str | None = None) -> dict[str, Any]:
        """Return it as it is sent."""
        told = {
            "type": "ack",
            "status": self.status,
            "sequenceNumber": self.sequence,
            "batchId": batch_id,
            "eventsProcessed": self.processed,
            "duplicatesSkipped": self.skipped,
        }
        return _known(told)


@dataclass(frozen=True, slots=True)
class Nack:
    """A batch is nowhere; ``expected`` is the sequence that would be taken, ``field`` what is wrong.

    ``gateway`` is where the source belongs, if that is known.
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
        """True if the same batch may be taken later, or elsewhere."""
        return self.reason in _AGAIN_MS or self.gateway is not None

    @property
    def is_taken(self) -> bool:
        """True if its number is another batch's."""
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
        told = {
            "type": "nack",
            "reason": self.reason,
            "shouldRetry": self.should_retry,
            "sequenceNumber": self.sequence,
            "batchId": batch_id,
            "details": _known(details),
        }
        return _known(told)

    @property
    def again_ms(self) -> int | None:
        """Return when to try again, None where that helps nothing."""
        return self.retry_after_ms or _AGAIN_MS.get(self.reason)


Answer = Ack | Nack


def _known(words: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in words.items() if value is not None}


def slot_of(source: str) -> int:
    """Return the slot of a source: the same in every version, since states lie by it."""
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
    """A message that says nothing that can be taken; ``status`` is what a POST of it is answered with."""

    message: str
    field: str | None = None
    status: HTTPStatus = HTTPStatus.BAD_REQUEST
    reason: Reason = Reason.INVALID_FORMAT

    def nack(self, sequence: int | None = None) -> Nack:
        """Return what is answered."""
        return Nack(self.reason, self.message, sequence, field=self.field)


class Event(NamedTuple):
    """A record to be: key and value as Kafka gets them, and the event's id, if it has one."""

    key: bytes | None
    value: bytes | None
    id: str | None = None


@dataclass(frozen=True, slots=True)
class Batch:
    """Events of a source in their order; without a ``sequence`` the next one is meant.

    ``digest`` tells its events from others of the same number, when they lie elsewhere too.
    """

    source: str
    events: tuple[Event, ...]
    size_bytes: int
    sequence: int | None = None
    id: str | None = None
    digest: bytes = b""

    def __post_init__(self) -> None:
        """Make its digest of its events."""
        if not self.digest:
            told: list[bytes] = []
            for key, value, name in self.events:
                told += (_NONE if key is None else key, _NONE if value is None else value)
                told.append(_NONE if name is None else name.encode())
            made = blake2b(_END.join(told), digest_size=DIGEST_BYTES)
            object.__setattr__(self, "digest", made.digest())


def parse(text: str | bytes) -> Any:
    """Return a document. Raises ``RefusedError``."""
    try:
        written = text.encode() if isinstance(text, str) else text
        read = orjson.loads(written)
        if orjson.dumps(read) == written:  # as browsers write it: no number and no field is another one now
            return read
    except (ValueError, TypeError):
        pass  # of numbers, nesting, or what is no JSON: told below
    try:
        return json.loads(text, parse_float=orjson.Fragment, parse_int=_whole, parse_constant=_refuse)
    except RecursionError:
        raise RefusedError("the JSON is nested too deeply") from None
    except ValueError as error:
        raise RefusedError(f"not valid JSON: {error}") from None


def parse_lines(body: bytes) -> list[Any]:
    """Return the documents of a body with one a line. Raises ``RefusedError``."""
    return [parse(line) for line in body.splitlines() if line.strip()]


def read_batch(message: dict[str, Any], source: str, stream: StreamSettings, size_bytes: int) -> Batch:
    """Return the batch that a message is. Raises ``RefusedError``."""
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
    """Return why what is sent is not taken."""
    return RefusedError(message, field, HTTPStatus.REQUEST_ENTITY_TOO_LARGE)


def read_text(value: Any, field: str) -> str | None:
    """Return a short text. Raises ``RefusedError``."""
    if value is None:
        return None
    if type(value) is not str or not 0 < len(value) <= MOST_TEXT or not value.isprintable():
        raise RefusedError(f"not a text of 1 to {MOST_TEXT} printable characters", field)
    return value


def read_source(value: Any) -> str:
    """Return a source's id, which there must be. Raises ``RefusedError``."""
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
        return Event(_written_key(key), None if value is None else orjson.dumps(value), event_id)
    except (TypeError, ValueError) as error:
        raise RefusedError(f"cannot be written as JSON: {error}") from None


def _key(event: dict[str, Any], stream: StreamSettings) -> Any:
    key, value = event.get("key"), event.get("value")
    return value.get(stream.key, key) if stream.key is not None and type(value) is dict else key


def _written_key(key: Any) -> bytes | None:
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
