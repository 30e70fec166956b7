"""Events of Debezium in Avro: each made the document that it would be in JSON, and read on as that is."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from spark_jobs.formats.connect.avro_documents import AvroDocument, documents_of
from spark_jobs.formats.connect.documents import KeyNotReadError, NotReadError
from spark_jobs.formats.connect.events import Change, beside, change_of
from spark_jobs.formats.connect.plain_keys import plain_key
from spark_jobs.formats.json.plain import UNREADABLE
from spark_jobs.records.by_schema import SchemaDecoder, framed_values
from spark_jobs.records.changes import ChangesDecoder, Told, keyed
from spark_jobs.records.changes_plain import PlainChangesDecoder, plain_change
from spark_jobs.records.decoder import BadValue, Phase
from spark_jobs.records.framing import Encoded
from spark_jobs.schema.column_source import KnownSchemas
from spark_jobs.schema.metadata_columns import KEY
from spark_jobs.schema.writer_schema import UnreadableValueError

if TYPE_CHECKING:
    from spark_jobs.kafka.chunks import Chunk
    from spark_jobs.protocol.schema_id import SchemaKey

_NO_SCHEMAS = KnownSchemas()


@dataclass(frozen=True, slots=True)
class AvroChangesDecoder(ChangesDecoder):
    """Many values at once; a key becomes the text that it is in JSON, so that headers name it alike."""

    schemas: KnownSchemas = _NO_SCHEMAS

    def changes(self, records: Chunk) -> Told:
        """See ``ChangesDecoder``."""
        values, bad = _documents(_values(records), self.schemas)
        keys, bad_keys = _documents(_keys(records), _of_keys(self.schemas))
        wrong = {each.index: _of_key(each) for each in bad_keys}
        changes: dict[int, Change] = {}
        passed: defaultdict[str, list[int]] = defaultdict(list)
        for index, event in values.items():
            if (kind := beside(event)) is not None:
                passed[kind].append(index)
                continue
            if index in wrong:
                bad.append(wrong[index])
                continue
            try:
                key = _identity(keys.get(index))
                change = change_of(event, None if key is None else self.spelling.of(key))
                changes[index] = keyed(change) if self.is_mirror else change
            except NotReadError as error:
                phase = Phase.KEY if isinstance(error, KeyNotReadError) else Phase.DECODE
                bad.append(BadValue(index, phase, error.field, str(error)))
        return Told(changes, bad, passed)

    def new_schemas(self, records: Chunk) -> tuple[SchemaKey, ...]:
        """See ``ChangesDecoder``."""
        of_values = SchemaDecoder(self.schemas).new(_values(records))
        return of_values + SchemaDecoder(_of_keys(self.schemas)).new(_keys(records))


@dataclass(frozen=True, slots=True)
class PlainAvroChangesDecoder(PlainChangesDecoder):
    """See ``AvroChangesDecoder``: values and keys one by one, by their plain reader."""

    schemas: KnownSchemas = _NO_SCHEMAS

    def _changes(self, records: Chunk) -> Told:
        values = dict(_plain_documents(_values(records), self.schemas))
        keys = dict(_plain_documents(_keys(records), _of_keys(self.schemas)))
        told = Told({}, [], defaultdict(list))
        for index, event in values.items():
            if (kind := beside(event)) is not None:
                told.passed[kind].append(index)
            elif records.keys[index] is None or index in keys:
                try:
                    said = {name: event.said(name) for name in event.names}
                    key = _identity(keys.get(index))
                    identity = None if key is None else plain_key(key.encode(), self.spelling)
                    change = plain_change(said, event.schema, identity)
                    told.changes[index] = keyed(change) if self.is_mirror else change
                except UNREADABLE:
                    continue  # no row is made of it, and if there is one it has no basis
        return told


def _identity(key: AvroDocument | None) -> str | None:
    """Return a record's key as text, None where there is none. Raises ``KeyNotReadError``."""
    try:
        return None if key is None else key.whole
    except NotReadError as error:
        raise KeyNotReadError(f"the key: {error}") from error


def _of_key(bad: BadValue) -> BadValue:
    phase = Phase.KEY if bad.phase is Phase.DECODE else bad.phase
    return replace(bad, phase=phase, field=bad.field or KEY, error=f"the key: {bad.error}")


def _values(records: Chunk) -> Encoded:
    return Encoded.values(records, [row for row, value in enumerate(records.values) if value is not None])


def _keys(records: Chunk) -> Encoded:
    return Encoded.keys(records, [row for row, key in enumerate(records.keys) if key is not None])


def _of_keys(schemas: KnownSchemas) -> KnownSchemas:
    return schemas.keys or _NO_SCHEMAS


def _documents(encoded: Encoded, schemas: KnownSchemas) -> tuple[dict[int, AvroDocument], list[BadValue]]:
    """Return values, or keys, by the indices of their records, and those that cannot be read."""
    framed = framed_values(encoded, schemas)
    found: dict[int, AvroDocument] = {}
    bad = [BadValue(encoded.rows[at], Phase.SCHEMA, None, why) for at, why in framed.unframed.items()]
    for key, indices in framed.indices.items():
        rows = [encoded.rows[at] for at in indices.tolist()]
        schema = schemas.by_key.get(key)
        if schema is None:
            bad += [BadValue(row, Phase.SCHEMA, None, schemas.why_none(key)) for row in rows]
            continue
        read = documents_of(schema).read(framed.values[key])
        bad += [BadValue(rows[each.index], Phase.DECODE, each.field, each.error) for each in read.unread]
        found |= {rows[at]: document for at, document in read}
    return found, bad


def _plain_documents(encoded: Encoded, schemas: KnownSchemas) -> Iterator[tuple[int, AvroDocument]]:
    framed = framed_values(encoded, schemas)
    for key, indices in framed.indices.items():
        if (schema := schemas.by_key.get(key)) is not None:
            documents = documents_of(schema)
            for at, value in zip(indices.tolist(), framed.values[key], strict=True):
                with suppress(UnreadableValueError):
                    yield encoded.rows[at], documents.read_plain(value)
