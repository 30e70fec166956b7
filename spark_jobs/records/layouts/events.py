"""Reads records as changes, each format by its own reader; ``events_plain`` is the independent one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from spark_jobs.formats.connect.avro_documents import AvroDocument, documents_of
from spark_jobs.formats.connect.documents import Documents, KeyNotReadError, NotReadError
from spark_jobs.formats.connect.events import (
    NAMELESS,
    TRUNCATE,
    Change,
    Events,
    NonChange,
    change_of,
    non_change,
    read_enveloped,
    read_upsert,
)
from spark_jobs.formats.connect.keys import Spelling
from spark_jobs.formats.json.parsing import parse_object
from spark_jobs.records.by_schema import SchemaDecoder, framed_values
from spark_jobs.records.decoder import BadValue, Encoded, Phase
from spark_jobs.records.shape import NO_TIMESTAMP, is_unshowable
from spark_jobs.schema.column_source import KnownSchemas
from spark_jobs.schema.writer_schema import UnreadableValueError

if TYPE_CHECKING:
    import pyarrow as pa

    from spark_jobs.kafka.chunks import Chunk
    from spark_jobs.protocol.offsets import SchemaKey

_OWN_NAME = b'"_cdc_'


class ReadChanges(NamedTuple):
    """Results by record index: changes, invalid records, and events that are not row changes, by kind."""

    changes: dict[int, Change]
    bad: list[BadValue]
    passed: defaultdict[str, list[int]]


# What one record says in JSON, None of one that says nothing. Raises ``NotReadError``.
ReadEvent = Callable[[Events, "Chunk", int], Change | NonChange | None]


def debezium(documents: Events, records: Chunk, index: int) -> Change | NonChange | None:
    """Read an event with or without a schema; a tombstone repeats the delete before it."""
    value = records.values[index]
    return None if value is None else documents.read(records.keys[index], value)


def upsert(documents: Events, records: Chunk, index: int) -> Change:
    """Read a key and its new value; a tombstone is a delete."""
    return read_upsert(documents, records.keys[index], records.values[index], records.offsets[index])


def enveloped(documents: Events, records: Chunk, index: int) -> Change | None:
    """Read an event of a gateway, which always has a value."""
    value = records.values[index]
    return None if value is None else read_enveloped(documents, records.keys[index], value)


@dataclass(frozen=True, slots=True)
class JsonEvents:
    """JSON records, read one by one."""

    read: ReadEvent
    spelling: Spelling
    own: pa.Schema

    def read_changes(self, records: Chunk) -> ReadChanges:
        """Return the changes that the records contain."""
        documents = Events(Documents(), Documents(), self.spelling)
        result = ReadChanges({}, [], defaultdict(list))
        for index in range(len(records.offsets)):
            try:
                change = self.read(documents, records, index)
                if isinstance(change, NonChange):
                    result.passed[change].append(index)
                elif change is not None:
                    _refuse_own_names(change, self.own.names)
                    change = _timed(change, records, index)
                    result.changes[index] = _keyed(change) if self.spelling.is_compared else change
            except NotReadError as error:
                result.bad.append(_unread(index, error))
        return result

    def new_schemas(self, records: Chunk) -> tuple[SchemaKey, ...]:  # noqa: ARG002  (as of Avro)
        """Return nothing: schemas inside events have no id."""
        return ()


# The documents that values, or keys, are, by index, and those that cannot be read.
ReadDocuments = Callable[[Encoded, KnownSchemas], tuple[dict[int, AvroDocument], list[BadValue]]]


def documents_in(encoded: Encoded, schemas: KnownSchemas) -> tuple[dict[int, AvroDocument], list[BadValue]]:
    """Read many documents at once."""
    framed = framed_values(encoded, schemas)
    found: dict[int, AvroDocument] = {}
    bad = [BadValue(encoded.rows[at], Phase.SCHEMA, None, why) for at, why in framed.unframed.items()]
    for key, indices in framed.indices.items():
        rows = [encoded.rows[at] for at in indices.tolist()]
        schema = schemas.by_key.get(key)
        if schema is None:
            bad += [BadValue(row, Phase.SCHEMA, None, schemas.why_none(key)) for row in rows]
            continue
        read, unread = documents_of(schema).read(framed.values[key])
        bad += [BadValue(rows[each.index], Phase.DECODE, each.field, each.error) for each in unread]
        found |= {rows[at]: document for at, document in read.items()}
    return found, bad


def change_in(event: AvroDocument, key: str | None, spelling: Spelling) -> Change:
    """Return an event with this key as a change; the key becomes its JSON text."""
    return change_of(event, None if key is None else spelling.of(key))


@dataclass(frozen=True, slots=True)
class AvroEvents:
    """Debezium events in Avro: each is converted to its JSON document and read as that."""

    schemas: KnownSchemas
    spelling: Spelling
    own: pa.Schema
    documents: ReadDocuments = documents_in
    change: Callable[[AvroDocument, str | None, Spelling], Change] = change_in

    def read_changes(self, records: Chunk) -> ReadChanges:
        """Return the changes that the records contain."""
        values, bad = self.documents(Encoded.there(records), self.schemas)
        keys, bad_keys = self.documents(Encoded.keys(records), self._of_keys)
        wrong = {each.index: each.of_key(each.index) for each in bad_keys}
        result = ReadChanges({}, bad, defaultdict(list))
        for index, event in values.items():
            if (kind := non_change(event.names, event.value_of)) is not None:
                result.passed[kind].append(index)
            elif index in wrong:
                bad.append(wrong[index])
            else:
                try:
                    change = self.change(event, _identity(keys.get(index)), self.spelling)
                    result.changes[index] = _keyed(change) if self.spelling.is_compared else change
                except NotReadError as error:
                    bad.append(_unread(index, error))
        return result

    def new_schemas(self, records: Chunk) -> tuple[SchemaKey, ...]:
        """Return the unknown schemas that the records name."""
        of_values = SchemaDecoder(self.schemas).new(Encoded.there(records))
        return of_values + SchemaDecoder(self._of_keys).new(Encoded.keys(records))

    @property
    def _of_keys(self) -> KnownSchemas:
        return self.schemas.keys or KnownSchemas()


EventReader = JsonEvents | AvroEvents


def _timed(change: Change, records: Chunk, index: int) -> Change:
    """Return the change with its record's timestamp if it has no time of its own."""
    time_ms = records.timestamps_ms[index]
    is_told = change.timestamp_us is not None or change.source not in {None, NAMELESS}
    if is_told or time_ms == NO_TIMESTAMP or is_unshowable([time_ms])[0]:
        return change
    return replace(change, timestamp_us=time_ms * 1000)


def _keyed(change: Change) -> Change:
    """Return the change with its row's key; a truncate has none. Raises ``KeyNotReadError``."""
    if change.operation == TRUNCATE:
        return replace(change, row_id="")
    if change.row_id is None:
        raise KeyNotReadError("a change event has no key, so its row cannot be identified")
    return change


def _unread(index: int, error: NotReadError) -> BadValue:
    phase = Phase.KEY if isinstance(error, KeyNotReadError) else Phase.DECODE
    return BadValue(index, phase, error.field, str(error))


def _refuse_own_names(change: Change, own: Sequence[str]) -> None:
    """Raise ``NotReadError`` if a row without a schema has a field named like a column of its event."""
    if change.schema is None and _OWN_NAME in change.row:
        with suppress(UnreadableValueError):  # which the row's decoder says
            for taken in parse_object(change.row).keys() & {*own}:
                raise NotReadError("the column describes the event", taken)


def _identity(key: AvroDocument | None) -> str | None:
    """Return a record's key as text, or None. Raises ``KeyNotReadError``."""
    try:
        return None if key is None else key.whole
    except NotReadError as error:
        raise KeyNotReadError(f"the key: {error}") from error
