"""Events as rows: what each says of its row by the row's own decoder, and what it says beside it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, ClassVar, NamedTuple, NoReturn

import numpy as np
import pyarrow as pa

from spark_jobs.config.columns import Growth
from spark_jobs.formats.connect.documents import Documents, KeyNotReadError, NotReadError
from spark_jobs.formats.connect.events import (
    NAMELESS,
    TRUNCATE,
    Beside,
    Change,
    Events,
    read_enveloped,
    read_upsert,
)
from spark_jobs.formats.connect.keys import AS_WRITTEN, Spelling
from spark_jobs.formats.json.parsing import NotAnObjectError, parse_object
from spark_jobs.protocol.errors import ConfigError, fault
from spark_jobs.records.by_schema import Part, SchemaDecoder, in_order
from spark_jobs.records.change_source import PlacedRows
from spark_jobs.records.decoder import BadValue, Decoded, Phase
from spark_jobs.records.json import JsonDecoder
from spark_jobs.records.shape import NO_TIMESTAMP, is_unshowable
from spark_jobs.schema.arrow_schema import arrow_schema, no_rows
from spark_jobs.schema.evidence import Evidence, Seen
from spark_jobs.schema.metadata_columns import (
    CHANGE_COLUMNS,
    CHANGE_NAMES,
    COMMIT_SEQUENCE,
    MIRROR_COLUMNS,
    MIRROR_NAMES,
    OPERATION,
    ROW_ID,
    SEQUENCE,
    SOURCE,
    TIME,
    TRANSACTION,
)

if TYPE_CHECKING:
    from spark_jobs.kafka.chunks import Chunk
    from spark_jobs.protocol.kept import KeptColumn
    from spark_jobs.protocol.schema_id import SchemaKey

# Codes of a schema that no table is made of: its events become dead letters.
UNUSABLE = frozenset({"schema-unreadable", "schema-unsupported"})
_OWN_NAME = b'"_cdc_'


class Told(NamedTuple):
    """What records say, by index: changes, what can be no row, and what is beside changes by its kind."""

    changes: dict[int, Change]
    bad: list[BadValue]
    passed: defaultdict[str, list[int]]


@dataclass(frozen=True, slots=True)
class ChangesDecoder(ABC):
    """Rows without a schema by ``rows``; those with one by it, in the columns that ``placed`` says.

    A drain stops at what others tell than ``whose`` changes a mirror has: their rows add and break nothing.
    """

    rows: JsonDecoder
    placed: PlacedRows
    is_mirror: bool = False
    spelling: Spelling = AS_WRITTEN
    whose: str | None = None
    takes_tombstones: ClassVar[bool] = False

    @property
    def growth(self) -> Growth:
        """See ``Decoder``."""
        return self.rows.growth

    def under(self, growth: Growth) -> ChangesDecoder:
        """See ``Decoder``."""
        return replace(self, rows=self.rows.under(growth))

    def keeping(self, kept: Sequence[KeptColumn], generation: int) -> ChangesDecoder:  # noqa: ARG002
        """See ``Decoder``; no column of changes is given another type."""
        return self

    def decode(self, records: Chunk, columns: pa.Schema) -> Decoded:
        """See ``Decoder``."""
        named = () if self.growth.has_ended else self.new_schemas(records)
        if named:
            return Decoded(no_rows(columns), [], new_fields=Evidence(schemas=named))
        changes, bad, passed = self._changes(records)
        if self.is_mirror and SOURCE not in columns.names and any(each.source for each in changes.values()):
            return Decoded(no_rows(columns), [], new_fields=Evidence())  # of a version that had it not
        of_rows = pa.schema([column for column in columns if column.name not in own_names(self.is_mirror)])
        parts: list[Part] = []
        new: list[Evidence] = []
        for (schema, is_whole), indices in _alike(changes).items():
            chunk = _rows_of(records, indices, changes)
            try:
                decoded = self._decoded(chunk, schema, of_rows, is_whole=is_whole)
            except ConfigError as error:
                if error.code not in UNUSABLE:
                    raise
                bad += [BadValue(index, Phase.SCHEMA, None, error.message) for index in indices]
                continue
            if decoded.new_fields is not None:
                new.append(decoded.new_fields)
                continue
            at = np.asarray(indices, np.int64)
            own = [replace(each, index=indices[each.index]) for each in decoded.bad]
            rows = at[np.asarray(decoded.indices, np.int64)]
            parts.append(Part(decoded.table, rows, own, Counter(decoded.ignored)))
        if new:
            return Decoded(no_rows(columns), [], new_fields=reduce(Evidence.merge, new))
        together = replace(in_order(parts, bad, len(records.offsets), of_rows), passed=passed)
        beside = columns_beside(changes, together.indices, records, is_mirror=self.is_mirror)
        return together.beside(beside, columns)

    def observe(self, records: Chunk) -> Evidence:
        """See ``Decoder``: fields of rows without a schema, and the schemas of others."""
        changes, bad, _ = self._changes(records)
        seen = Evidence(undecodable=len(bad), schemas=self.new_schemas(records))
        for (schema, _), indices in _alike(changes).items():
            if schema is None:
                seen = seen.merge(self.rows.observe(_rows_of(records, indices, changes)))
            else:
                places = [(int(records.partitions[index]), records.offsets[index]) for index in indices]
                times = [int(records.timestamps_ms[index]) for index in indices]
                last = max((time, *place) for time, place in zip(times, places, strict=True))
                seen = seen.merge(Evidence(records=len(indices), texts={schema: Seen(min(places), last)}))
        return seen.within(self.growth.max_fields_seen)

    def _changes(self, records: Chunk) -> Told:
        told = self.changes(records)
        for index, change in told.changes.items() if self.whose is not None else ():
            if change.source is not None and change.source != self.whose:
                told.changes[index] = replace(change, row=b"{}", schema=None)
        return told

    @abstractmethod
    def changes(self, records: Chunk) -> Told:
        """Return what records say."""

    def new_schemas(self, records: Chunk) -> tuple[SchemaKey, ...]:  # noqa: ARG002
        """Return which schemas the records name that are not known."""
        return ()

    def _decoded(self, chunk: Chunk, schema: str | None, columns: pa.Schema, *, is_whole: bool) -> Decoded:
        if schema is None:
            decoded = self.rows.decode(chunk, columns)
            _refuse_unscaled(decoded, chunk, columns)
            return decoded
        known = self.placed.schemas(schema, self.growth, is_whole=is_whole)
        if known is None:
            return Decoded(no_rows(columns), [], new_fields=Evidence())
        converts = self.placed.rules.takes_all_but is not None
        return SchemaDecoder(known, self.growth, converts=converts).decode(chunk, columns)


class JsonChangesDecoder(ChangesDecoder):
    """Records in JSON, each read by itself."""

    __slots__ = ()

    def changes(self, records: Chunk) -> Told:
        """See ``ChangesDecoder``."""
        return changes_of(records, self.change, self.spelling, is_mirror=self.is_mirror)

    @staticmethod
    @abstractmethod
    def change(documents: Events, records: Chunk, index: int) -> Change | Beside | None:
        """Return what a record says, None for one that says nothing. Raises ``NotReadError``."""


class DebeziumDecoder(JsonChangesDecoder):
    """Events of Debezium, with schemas and without; a tombstone repeats what the delete before it said."""

    __slots__ = ()

    @staticmethod
    def change(documents: Events, records: Chunk, index: int) -> Change | Beside | None:
        """See ``JsonChangesDecoder``."""
        value = records.values[index]
        return None if value is None else documents.read(records.keys[index], value)


class UpsertDecoder(JsonChangesDecoder):
    """Keys and the values that they have from then on; a tombstone is the delete."""

    __slots__ = ()
    takes_tombstones: ClassVar[bool] = True

    @staticmethod
    def change(documents: Events, records: Chunk, index: int) -> Change:
        """See ``JsonChangesDecoder``."""
        return read_upsert(documents, records.keys[index], records.values[index], records.offsets[index])


class EnvelopeDecoder(JsonChangesDecoder):
    """Events of a gateway, which writes none without a value."""

    __slots__ = ()

    @staticmethod
    def change(documents: Events, records: Chunk, index: int) -> Change | None:
        """See ``JsonChangesDecoder``."""
        value = records.values[index]
        return None if value is None else read_enveloped(documents, records.keys[index], value)


def timed(change: Change, records: Chunk, index: int) -> Change:
    """Return the change with when its record was written, where nobody says when it was changed."""
    time_ms = records.timestamps_ms[index]
    is_told = change.timestamp_us is not None or change.source not in {None, NAMELESS}
    if is_told or time_ms == NO_TIMESTAMP or is_unshowable([time_ms])[0]:
        return change
    return replace(change, timestamp_us=time_ms * 1000)


def changes_of(
    records: Chunk,
    read: Callable[[Events, Chunk, int], Change | Beside | None],
    spelling: Spelling,
    *,
    is_mirror: bool,
) -> Told:
    """Return what records say."""
    documents = Events(Documents(), Documents(), spelling)
    told = Told({}, [], defaultdict(list))
    for index in range(len(records.offsets)):
        try:
            change = read(documents, records, index)
            if isinstance(change, Beside):
                told.passed[change].append(index)
            elif change is not None:
                _refuse_own_names(change, own_names(is_mirror))
                change = timed(change, records, index)
                told.changes[index] = keyed(change) if is_mirror else change
        except NotReadError as error:
            phase = Phase.KEY if isinstance(error, KeyNotReadError) else Phase.DECODE
            told.bad.append(BadValue(index, phase, error.field, str(error)))
    return told


def _alike(changes: Mapping[int, Change]) -> dict[tuple[str | None, bool], list[int]]:
    """Return which changes are read alike: by their schema, and whether their rows have all columns."""
    alike: defaultdict[tuple[str | None, bool], list[int]] = defaultdict(list)
    for index, change in changes.items():
        alike[change.schema, change.schema is None or change.is_whole].append(index)
    return alike


def _rows_of(records: Chunk, indices: Sequence[int], changes: Mapping[int, Change]) -> Chunk:
    chunk = records.take(indices)
    chunk.values = [changes[index].row for index in indices]
    return chunk


def own_names(is_mirror: bool) -> frozenset[str]:
    """Return the columns that rows have of their events."""
    return MIRROR_NAMES if is_mirror else CHANGE_NAMES


def keyed(change: Change) -> Change:
    """Return the change with whose row it is of; a truncate has none. Raises ``KeyNotReadError``."""
    if change.operation == TRUNCATE:
        return replace(change, row_id="")
    if change.row_id is None:
        raise KeyNotReadError("a change without a key: nobody knows whose row it is")
    return change


def _refuse_own_names(change: Change, own: frozenset[str]) -> None:
    """Raise ``NotReadError`` for a row without a schema whose field is called as a column of its event."""
    if change.schema is None and _OWN_NAME in change.row:
        with suppress(NotAnObjectError):  # which the row's decoder says
            for taken in own.intersection(parse_object(change.row)):
                raise NotReadError("the column says something of the event", taken)


def _refuse_unscaled(decoded: Decoded, chunk: Chunk, columns: pa.Schema) -> None:
    """Raise ``ConfigError`` where a decimal's bytes have no scale beside them: any number could be meant."""
    for bad in decoded.bad:
        if bad.field is None or bad.field not in columns.names:
            continue
        kind, row = columns.field(bad.field).type, chunk.values[bad.index]
        if pa.types.is_decimal(kind) and row is not None:
            value = parse_object(row).get(bad.field)
            if type(value) is str:
                _refuse_decimal(bad.field, value, kind)


def _refuse_decimal(column: str, value: str, kind: pa.DataType) -> NoReturn:
    raise fault("debezium-decimal-without-schema", value=value, column=column, declared=str(kind))


def columns_beside(
    changes: Mapping[int, Change], rows: Sequence[int], records: Chunk, *, is_mirror: bool
) -> dict[str, pa.Array]:
    """Return what the changes at these indices say beside their rows, by column."""
    every = [changes[row] for row in rows]
    places = [
        records.offsets[row] if each.sequence is None else each.sequence
        for row, each in zip(rows, every, strict=True)
    ]
    items = {
        SEQUENCE: places,
        TIME: [each.timestamp_us for each in every],
        OPERATION: [each.operation for each in every],
        ROW_ID: [each.row_id for each in every],
        TRANSACTION: [each.transaction for each in every],
        COMMIT_SEQUENCE: [each.commit_sequence for each in every],
        SOURCE: [each.source for each in every],
    }
    own = arrow_schema(MIRROR_COLUMNS if is_mirror else CHANGE_COLUMNS)
    return {field.name: pa.array(items[field.name], field.type) for field in own}
