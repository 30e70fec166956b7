"""The parts of a change event besides its row: operation, source position and transaction. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from typing import Any, Protocol

from spark_jobs.formats.connect.documents import (
    BareValueError,
    Document,
    Documents,
    KeyNotReadError,
    NotReadError,
)
from spark_jobs.formats.connect.keys import AS_WRITTEN, Spelling

# Events that are rows by themselves: a key, and the value it has from then on, or none.


UPSERT = "u"
# What Debezium's ExtractNewRecordState says of a row that is gone, where it is told to rewrite deletes.
_DELETED = re.compile(rb'"__deleted"\s*:\s*"?true')


def read_upsert(documents: Events, key: bytes | None, value: bytes | None, offset: int) -> Change:
    """Return a record as a change; a delete takes its fields from a key that is a JSON object.

    Raises ``NotReadError``.
    """
    of = None if key is None else documents.spelling.read(documents.keys, key)
    row_id = None if of is None else of.text
    if value is not None and not (
        b'"payload"' in value or _DELETED.search(value) or value.strip() == b"null"
    ):
        return Change(UPSERT, offset, None, None, row_id, value)  # a row, without a schema
    row = None if value is None else documents.value(value)
    if row is not None:
        is_deleted, written = row.value_of("__deleted") in ("true", True), row.whole.encode()
        if not is_deleted:
            return Change(UPSERT, offset, None, None, row_id, written, row.schema)
        if of is None:
            return Change(DELETE, offset, None, None, None, written, row.schema, is_whole=False)
    if of is None:
        raise NotReadError("neither a key nor a value")
    return Change(DELETE, offset, None, None, row_id, of.fields or b"{}", of.schema, is_whole=False)


# What Debezium writes that is no change of a row: known by what it says, passed over and counted.


_MESSAGE = "m"
_MARKER = frozenset({"status", "id", "event_count", "data_collections"})
_SCHEMA_CHANGE = frozenset({"source", "ddl"})


class NonChange(StrEnum):
    """Kind of an event that is not a row change, named after its term in a batch's balance."""

    HEARTBEAT = "heartbeats"
    MESSAGE = "messages"
    MARKER = "transaction_markers"
    SCHEMA_CHANGE = "schema_changes"
    NOTHING = "nulls"  # a tombstone as JSON's null, in its schema or without


def non_change(names: Collection[str], value_of: Callable[[str], Any]) -> NonChange | None:
    """Return the kind of a value that is not a row change, or None if it is or should be one.

    It has something under these names, which ``value_of`` gives.
    """
    operation = value_of("op")
    if operation is not None:
        return NonChange.MESSAGE if operation == _MESSAGE else None
    if [*names] == ["ts_ms"]:
        return NonChange.HEARTBEAT
    if {*names} >= _MARKER and value_of("status") in ("BEGIN", "END"):
        return NonChange.MARKER
    return NonChange.SCHEMA_CHANGE if {*names} >= _SCHEMA_CHANGE else None


DELETE, TRUNCATE, SNAPSHOT = "d", "t", "r"
WITH_A_ROW = ("c", "u", SNAPSHOT)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MOST = 1 << 63
_NUMBER = re.compile(r"-?[0-9]{1,19}")
# What says whose change an event is, where it is said: all of it is constant of one table of one source.
WHOSE = ("connector", "name", "db", "schema", "table", "collection")
NAMELESS = "{}"  # said by none of these: Flink's events have no source
MONGODB = "mongodb"
_STRUCT = "a struct as text, whose fields cannot be determined: have `key.converter` write JSON or Avro"


@dataclass(frozen=True, slots=True)
class Change:
    """One change event; ``row`` is the original JSON object, or the key's fields for a delete.

    ``sequence`` is None where the source says no position that is known here, ``commit_sequence`` where it
    does not say both: its own, and that of the last commit that was told before. ``row_id`` is the key as
    text, None where there is none. ``schema`` is the envelope's, None where values come without; ``is_whole``
    if the row has all columns. ``source`` says whose change it is, None where its envelope
    knows of none.
    """

    operation: str
    sequence: int | None
    timestamp_us: int | None
    transaction: str | None
    row_id: str | None
    row: bytes
    schema: str | None = None
    is_whole: bool = True
    commit_sequence: int | None = None
    source: str | None = None


class Event(Protocol):
    """An event's value, in any format."""

    def value_of(self, name: str) -> Any:
        """Return the value under a name as parsed JSON, or None if it is absent."""

    @property
    def schema(self) -> str | None:
        """Return the schema's text in Connect's JSON form, or None."""

    def text_of(self, name: str) -> bytes:
        """Return the value under a name as JSON text."""


@dataclass(frozen=True, slots=True)
class Events:
    """Reads the events of one chunk."""

    keys: Documents
    values: Documents
    spelling: Spelling = AS_WRITTEN

    def read(self, key: bytes | None, value: bytes) -> Change | NonChange:
        """Return a Debezium event as a change. Raises ``NotReadError``."""
        if (event := self.value(value)) is None:
            return NonChange.NOTHING
        return non_change(event.names, event.value_of) or change_of(
            event, None if key is None else self._identity(key)
        )

    def value(self, value: bytes) -> Document | None:
        """Return a document, or None for JSON's null. Raises ``NotReadError``."""
        try:
            return self.values.read(value)
        except BareValueError as bare:
            if bare.text == "null":
                return None
            raise

    def _identity(self, key: bytes) -> str:
        if (read := self.spelling.read(self.keys, key)).fields is None:
            raise KeyNotReadError(
                f"the key: {_STRUCT if key.startswith(b'Struct{') else 'not a JSON object'}"
            )
        return read.text


def change_of(event: Event, identity: str | None) -> Change:
    """Return a Debezium event with this key text as a change. Raises ``NotReadError``."""
    operation, source = event.value_of("op"), event.value_of("source")
    if operation is None:
        raise NotReadError("not a Debezium event: it has no op", "op")
    if operation not in (*WITH_A_ROW, DELETE, TRUNCATE):
        raise NotReadError(f"an event of another kind: {json.dumps(operation)}", "op")
    if type(source) is not dict and source is not None:
        raise NotReadError("it does not name its source", "source")
    # Flink writes none: its events are in the order of their offsets.
    block = source or {}
    is_document = block.get("connector") == MONGODB
    row, is_whole = _document(operation, event) if is_document else _row(operation, event, identity)
    return Change(
        operation,
        position(block),
        time_us(block),
        transaction(block, event.value_of("transaction")),
        identity,
        row,
        None if is_document else event.schema,
        is_whole,
        commit_position(block),
        identity_of(block),
    )


def _document(operation: str, event: Event) -> tuple[bytes, bool]:
    """Return a MongoDB document, which events contain as text and whose key has another name."""
    if operation not in WITH_A_ROW:
        return b"{}", False
    if type(after := event.value_of("after")) is not str:
        raise NotReadError("it has no document", "after")
    return after.encode(errors="surrogatepass"), True


def _row(operation: str, event: Event, identity: str | None) -> tuple[bytes, bool]:
    """Return the row after the change, and whether it has all columns."""
    if operation in WITH_A_ROW:
        if type(event.value_of("after")) is not dict:
            raise NotReadError("it has no row", "after")
        return event.text_of("after"), True
    if operation == TRUNCATE:
        return b"{}", False
    if identity is not None:
        return identity.encode(), False
    # A table without a key: its deletes are told with the whole row, or not at all.
    if type(event.value_of("before")) is not dict:
        raise NotReadError("a delete with neither a key nor a row", "before")
    return event.text_of("before"), False


def identity_of(source: Mapping[str, Any]) -> str:
    """Return the source's identity as JSON: connector, database and table."""
    return _identity(tuple(value if type(value := source.get(name)) is str else None for name in WHOSE))


@lru_cache(64)
def _identity(names: tuple[str | None, ...]) -> str:
    named = {name: value for name, value in zip(WHOSE, names, strict=True) if value is not None}
    return json.dumps(named, separators=(",", ":"))


def position(source: Mapping[str, Any]) -> int | None:
    """Return the event's log position, which orders the events of one source.

    An incremental snapshot has it in the pair of ``sequence`` alone: the last commit's, its own.
    """
    try:
        own = json.loads(source["sequence"])[1]
        found = source.get("lsn") if own is None else int(own)
    except (KeyError, TypeError, ValueError, IndexError, RecursionError):
        found = source.get("lsn")
    if type(found) is str:  # YugabyteDB's: in order where it is a number
        found = int(found) if _NUMBER.fullmatch(found) else None
        if found is None:
            return None
    if type(found) is int and -_MOST <= found < _MOST:
        return found
    if "lsn" in source:
        raise NotReadError("it has no position", "source.sequence")
    return None


def commit_position(source: Mapping[str, Any]) -> int | None:
    """Return the last commit's position, the first of the pair in ``sequence``, if both are set."""
    try:
        commit, own = (int(each) for each in json.loads(source["sequence"]))
    except (KeyError, TypeError, ValueError, RecursionError):
        return None
    return commit if max(abs(commit), abs(own)) < _MOST else None


def time_us(source: Mapping[str, Any]) -> int | None:
    """Return the time at which the source changed the row."""
    micros, millis = source.get("ts_us"), source.get("ts_ms")
    time = micros if type(micros) is int else millis * 1000 if type(millis) is int else None
    return None if time is None else check_time(time, "source.ts_ms")


def check_time(micros: int, field: str) -> int:
    """Return microseconds since the epoch if a timestamp can hold them. Raises ``NotReadError``."""
    try:
        EPOCH + timedelta(microseconds=micros)
    except OverflowError as error:
        raise NotReadError("outside the years 1 to 9999", field) from error
    return micros


def transaction(source: Mapping[str, Any], block: Any) -> str | None:
    """Return the id that all events of a transaction share; PostgreSQL's ``transaction.id`` is not."""
    own = source.get("txId")
    if own is None and type(block) is dict:
        own = block.get("id")
    if own is None:
        return None
    if type(own) not in {int, str}:
        raise NotReadError("neither a whole number nor a text", "transaction.id")
    try:
        str(own).encode()
    except UnicodeEncodeError as error:
        raise NotReadError("half of a surrogate pair", "transaction.id") from error
    return str(own)


# Events as a gateway's clients write them: what is done to which row, without a position.


OPERATIONS = (*WITH_A_ROW, DELETE)
_MICROSECOND = EPOCH.resolution


def read_enveloped(documents: Events, key: bytes | None, value: bytes) -> Change:
    """Return a record as a change; a delete takes its fields from the event's key if it is an object.

    Raises ``NotReadError``.
    """
    event = documents.values.read(value)
    operation = event.value_of("operation")
    if operation not in OPERATIONS:
        raise NotReadError("not a gateway event: it has no operation", "operation")
    part, is_whole = ("key", False) if operation == DELETE else ("value", True)
    is_row = type(event.value_of(part)) is dict
    if is_whole and not is_row:
        raise NotReadError("it has no row", "value")
    row_id = None if key is None else documents.spelling.read(documents.keys, key).text
    time, row = _time_us(event.value_of("timestamp")), event.text_of(part) if is_row else b"{}"
    return Change(operation, None, time, None, row_id, row, is_whole=is_whole)


def _time_us(value: Any) -> int | None:
    if value is None:
        return None
    try:
        if type(value) is int:
            return check_time(value * 1000, "timestamp")
        return check_time((datetime.fromisoformat(value) - EPOCH) // _MICROSECOND, "timestamp")
    except (TypeError, ValueError, OverflowError) as error:
        if isinstance(error, NotReadError):
            raise
        raise NotReadError("neither milliseconds nor a time with its zone", "timestamp") from error
