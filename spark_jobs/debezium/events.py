"""What a change event says beside its row: what was done, where and in which transaction. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Protocol

from spark_jobs.debezium.beside import Beside, Said, beside
from spark_jobs.debezium.documents import BareValueError, Documents, KeyNotReadError, NotReadError
from spark_jobs.debezium.keys import AS_WRITTEN, Spelling

DELETE, TRUNCATE, SNAPSHOT = "d", "t", "r"
WITH_A_ROW = ("c", "u", SNAPSHOT)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_US = round((datetime.min.replace(tzinfo=UTC) - EPOCH).total_seconds()) * 1_000_000
_LAST_US = round((datetime.max.replace(tzinfo=UTC, microsecond=0) - EPOCH).total_seconds()) * 1_000_000
_MOST = 1 << 63
_NUMBER = re.compile(r"-?[0-9]{1,19}")
# What says whose change an event is, where it is said: all of it is constant of one table of one source.
WHOSE = ("connector", "name", "db", "schema", "table", "collection")
NAMELESS = "{}"  # said by none of these: Flink's events have no source
MONGODB = "mongodb"
_STRUCT = "a struct as text, of which no field is told for sure: have `key.converter` write JSON or Avro"


@dataclass(frozen=True, slots=True)
class Change:
    """One event; ``row`` is a JSON object as it was written, of a delete the key's fields alone.

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


class Event(Said, Protocol):
    """An event's value, whatever it is written in."""

    @property
    def schema(self) -> str | None:
        """Return the schema's text as Connect's JSON has it, None where there is none."""

    def written(self, name: str) -> bytes:
        """Return what stands under a name as JSON writes it."""


@dataclass(frozen=True, slots=True)
class Events:
    """Reads the events of one chunk."""

    keys: Documents
    values: Documents
    spelling: Spelling = AS_WRITTEN

    def read(self, key: bytes | None, value: bytes) -> Change | Beside:
        """Return what an event of Debezium says. Raises ``NotReadError``."""
        try:
            event = self.values.read(value)
        except BareValueError as bare:
            if bare.text == "null":
                return Beside.NOTHING
            raise
        return beside(event) or change_of(event, None if key is None else self._identity(key))

    def _identity(self, key: bytes) -> str:
        if (read := self.spelling.read(self.keys, key)).fields is None:
            raise KeyNotReadError(
                f"the key: {_STRUCT if key.startswith(b'Struct{') else 'not a JSON object'}"
            )
        return read.text


def change_of(event: Event, identity: str | None) -> Change:
    """Return what an event of Debezium says, of this key as text. Raises ``NotReadError``."""
    operation, source = event.said("op"), event.said("source")
    if operation is None:
        raise NotReadError("no event of Debezium: it has no op", "op")
    if operation not in (*WITH_A_ROW, DELETE, TRUNCATE):
        raise NotReadError(f"an event of another kind: {json.dumps(operation)}", "op")
    if type(source) is not dict and source is not None:
        raise NotReadError("it does not say where it comes from", "source")
    # Flink writes none: its events are in the order of their offsets.
    told = source or {}
    is_document = told.get("connector") == MONGODB
    row, is_whole = _document(operation, event) if is_document else _row(operation, event, identity)
    return Change(
        operation,
        position(told),
        time_us(told),
        transaction(told, event.said("transaction")),
        identity,
        row,
        None if is_document else event.schema,
        is_whole,
        commit_position(told),
        identity_of(told),
    )


def _document(operation: str, event: Event) -> tuple[bytes, bool]:
    """Return a document of MongoDB, which is told as text; its key has another name there."""
    if operation not in WITH_A_ROW:
        return b"{}", False
    if type(after := event.said("after")) is not str:
        raise NotReadError("it has no document", "after")
    return after.encode(errors="surrogatepass"), True


def _row(operation: str, event: Event, identity: str | None) -> tuple[bytes, bool]:
    """Return the row after the change, and whether it has all columns."""
    if operation in WITH_A_ROW:
        if type(event.said("after")) is not dict:
            raise NotReadError("it has no row", "after")
        return event.written("after"), True
    if operation == TRUNCATE:
        return b"{}", False
    if identity is not None:
        return identity.encode(), False
    # A table without a key: its deletes are told with the whole row, or not at all.
    if type(event.said("before")) is not dict:
        raise NotReadError("a delete with neither a key nor a row", "before")
    return event.written("before"), False


def identity_of(source: Mapping[str, Any]) -> str:
    """Return whose change it is, as JSON: what is said of connector, database and table."""
    return _identity(tuple(said if type(said := source.get(name)) is str else None for name in WHOSE))


@lru_cache(64)
def _identity(told: tuple[str | None, ...]) -> str:
    named = {name: said for name, said in zip(WHOSE, told, strict=True) if said is not None}
    return json.dumps(named, separators=(",", ":"))


def position(source: Mapping[str, Any]) -> int | None:
    """Return the log position of the event itself, by which those of one source are in order.

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
    """Return the first of the pair in ``sequence``, where both are said: the last commit's."""
    try:
        commit, own = (int(each) for each in json.loads(source["sequence"]))
    except (KeyError, TypeError, ValueError, RecursionError):
        return None
    return commit if max(abs(commit), abs(own)) < _MOST else None


def time_us(source: Mapping[str, Any]) -> int | None:
    """Return when the source changed the row."""
    micros, millis = source.get("ts_us"), source.get("ts_ms")
    time = micros if type(micros) is int else millis * 1000 if type(millis) is int else None
    return None if time is None else check_time(time, "source.ts_ms")


def check_time(micros: int, field: str) -> int:
    """Return microseconds since the epoch that a timestamp can show. Raises ``NotReadError``."""
    if not _FIRST_US <= micros <= _LAST_US:
        raise NotReadError("outside the years 1 to 9999", field)
    return micros


def transaction(source: Mapping[str, Any], told: Any) -> str | None:
    """Return what all events of a transaction share: PostgreSQL's ``transaction.id`` differs for each."""
    own = source.get("txId")
    if own is None and type(told) is dict:
        own = told.get("id")
    if own is None:
        return None
    if type(own) not in {int, str}:
        raise NotReadError("neither a whole number nor a text", "transaction.id")
    try:
        str(own).encode()
    except UnicodeEncodeError as error:
        raise NotReadError("half of a surrogate pair", "transaction.id") from error
    return str(own)
