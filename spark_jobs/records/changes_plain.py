"""Events read a second time, for ``audit`` alone: parsed as a whole, their rows by the plain decoders."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import orjson
import pyarrow as pa

from spark_jobs.config.columns import Growth
from spark_jobs.formats.connect.documents import NotReadError
from spark_jobs.formats.connect.events import (
    DELETE,
    TRUNCATE,
    WITH_A_ROW,
    Beside,
    Change,
    Events,
    beside,
    commit_position,
    identity_of,
    position,
    time_us,
    transaction,
)
from spark_jobs.formats.connect.keys import AS_WRITTEN, Spelling
from spark_jobs.formats.connect.plain_keys import plain_key, plain_object_key
from spark_jobs.formats.json.plain import UNREADABLE, read_exactly
from spark_jobs.protocol.errors import ConfigError
from spark_jobs.records.by_schema_plain import PlainSchemaDecoder
from spark_jobs.records.change_source import PlacedRows
from spark_jobs.records.changes import (
    UNUSABLE,
    EnvelopeDecoder,
    JsonChangesDecoder,
    Told,
    UpsertDecoder,
    changes_of,
    columns_beside,
    own_names,
)
from spark_jobs.records.decoder import PlainRows
from spark_jobs.records.json import PlainJsonDecoder
from spark_jobs.schema.arrow_schema import no_rows
from spark_jobs.schema.column_source import KnownSchemas

if TYPE_CHECKING:
    from spark_jobs.kafka.chunks import Chunk


@dataclass(frozen=True, slots=True)
class PlainChangesDecoder(ABC):
    """See ``ChangesDecoder``."""

    rows: PlainJsonDecoder
    placed: PlacedRows
    growth: Growth
    is_mirror: bool = False
    spelling: Spelling = AS_WRITTEN
    takes_tombstones: ClassVar[bool] = False

    def decode(self, records: Chunk, columns: pa.Schema) -> PlainRows:
        """See ``PlainDecoder``."""
        changes, _, passed = self._changes(records)
        of_rows = pa.schema([column for column in columns if column.name not in own_names(self.is_mirror)])
        alike: defaultdict[tuple[str | None, bool], list[int]] = defaultdict(list)
        for index, change in changes.items():
            alike[change.schema, change.is_whole].append(index)
        parts = []
        for (schema, is_whole), indices in alike.items():
            chunk = records.take(indices)
            chunk.values = [changes[index].row for index in indices]
            parts.append(_at(indices, self._plain(chunk, schema, of_rows, is_whole=is_whole)))
        rows = [row for part in parts for row in part.rows]
        order = np.argsort(np.array(rows, np.int64))
        table = pa.concat_tables([part.table for part in parts] or [no_rows(of_rows)]).take(pa.array(order))
        rows = [rows[at] for at in order]
        made = dict(zip(table.column_names, table.columns, strict=True))
        made |= columns_beside(changes, rows, records, is_mirror=self.is_mirror)
        rounded: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
        for part in parts:
            for column, at in part.rounded.items():
                rounded[column] += at
        return PlainRows(
            pa.Table.from_arrays([made[name] for name in columns.names], schema=columns),
            rows,
            sorted(row for part in parts for row in part.has_more),
            rounded,
            passed=passed,
        )

    @abstractmethod
    def _changes(self, records: Chunk) -> Told:
        """Return what records say; those that say nothing that can be a row may be left out."""

    def _respelled(self, records: Chunk, decoder: type[JsonChangesDecoder]) -> Told:
        """Return what the drain's decoder reads, with keys spelled by other code."""
        told = changes_of(records, decoder.change, self.spelling, is_mirror=self.is_mirror)
        for index, change in told.changes.items():
            if (key := records.keys[index]) is not None:
                told.changes[index] = replace(change, row_id=plain_key(key, self.spelling))
        return told

    def _plain(self, chunk: Chunk, schema: str | None, columns: pa.Schema, *, is_whole: bool) -> PlainRows:
        if schema is None:
            return self.rows.decode(chunk, columns)
        try:
            known = self.placed.schemas(schema, self.growth.ended(), is_whole=is_whole)
        except ConfigError as error:
            if error.code not in UNUSABLE:
                raise
            return PlainRows(no_rows(columns), [], [])
        return PlainSchemaDecoder(known or KnownSchemas()).decode(chunk, columns)


class PlainDebeziumDecoder(PlainChangesDecoder):
    """See ``DebeziumDecoder``."""

    __slots__ = ()

    def _changes(self, records: Chunk) -> Told:
        return changes_of(records, self._read, self.spelling, is_mirror=self.is_mirror)

    def _read(self, _: Events, records: Chunk, index: int) -> Change | Beside | None:
        value = records.values[index]
        try:
            return None if value is None else self._change(records.keys[index], value)
        except UNREADABLE as error:  # no row is made of it, and if there is one it has no basis
            raise NotReadError(str(error)) from error

    def _change(self, key: bytes | None, value: bytes) -> Change | Beside:
        event, schema = read_exactly(value), None
        if isinstance(event, dict) and event.keys() == {"schema", "payload"}:
            schema = None if event["schema"] is None else json.dumps(_object(event["schema"]), default=str)
            event = event["payload"]
        if event is None:
            return Beside.NOTHING
        event = _object(event)
        if (kind := beside(_Parsed(event))) is not None:
            return kind
        return plain_change(event, schema, None if key is None else plain_object_key(key, self.spelling))


class PlainUpsertDecoder(PlainChangesDecoder):
    """See ``UpsertDecoder``: what a record says beside its row is read as there."""

    __slots__ = ()
    takes_tombstones: ClassVar[bool] = True

    def _changes(self, records: Chunk) -> Told:
        return self._respelled(records, UpsertDecoder)


class PlainEnvelopeDecoder(PlainChangesDecoder):
    """See ``EnvelopeDecoder``: what a record says beside its row is read as there."""

    __slots__ = ()

    def _changes(self, records: Chunk) -> Told:
        return self._respelled(records, EnvelopeDecoder)


@dataclass(frozen=True, slots=True)
class _Parsed:
    """An event that was parsed as a whole."""

    names: dict[str, Any]

    def said(self, name: str) -> Any:
        """See ``Said``."""
        return self.names.get(name)


def plain_change(event: dict[str, Any], schema: str | None, identity: str | None) -> Change:
    """Return what an event says that was parsed as a whole. Raises what of ``UNREADABLE``."""
    source = {} if event.get("source") is None else _object(event["source"])
    operation = str(event.get("op"))
    if operation not in (*WITH_A_ROW, DELETE, TRUNCATE):
        raise NotReadError("no event of Debezium")
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


def _at(indices: list[int], plain: PlainRows) -> PlainRows:
    """Return the same by the indices of the records."""
    return replace(
        plain,
        rows=[indices[row] for row in plain.rows],
        has_more=[indices[row] for row in plain.has_more],
        rounded={column: [indices[row] for row in at] for column, at in plain.rounded.items()},
    )
