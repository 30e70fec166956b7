"""Rows of change events: each row by the row's decoder, and the event's own columns."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from spark_jobs.config.columns import GROWTH, Growth, Incompatible
from spark_jobs.config.sections import Envelope
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.config.value_format import ValueFormat
from spark_jobs.formats.connect.events import Change
from spark_jobs.formats.connect.keys import Spelling
from spark_jobs.formats.json.parsing import parse_object
from spark_jobs.protocol.errors import ConfigError, fault
from spark_jobs.records.by_schema import Part, SchemaDecoder, in_order
from spark_jobs.records.by_schema_plain import PlainSchemaDecoder
from spark_jobs.records.decoder import BadValue, Decoded, Encoded, Format, Phase, shaping_of
from spark_jobs.records.layouts.change_columns import ChangeColumns, PlacedRows
from spark_jobs.records.layouts.events import (
    AvroEvents,
    EventReader,
    JsonEvents,
    ReadChanges,
    ReadEvent,
    debezium,
    enveloped,
    upsert,
)
from spark_jobs.records.layouts.events_plain import (
    plain_change_in,
    plain_debezium,
    plain_documents_in,
    plain_enveloped,
    plain_upsert,
)
from spark_jobs.records.layouts.flat import JsonDecoder, PlainJsonDecoder, with_keys_and_headers
from spark_jobs.records.shape import add_keys_and_headers
from spark_jobs.schema.arrow_schema import arrow_schema, no_rows
from spark_jobs.schema.column_source import KnownSchemas, SeenColumns, field_names
from spark_jobs.schema.evidence import Evidence, FirstAndLast
from spark_jobs.schema.iceberg_types import (
    CHANGE_COLUMNS,
    COMMIT_SEQUENCE,
    METADATA_COLUMNS,
    MIRROR_COLUMNS,
    OPERATION,
    ROW_ID,
    SEQUENCE,
    SOURCE,
    TIME,
    TRANSACTION,
)
from spark_jobs.schema.placing import Rules

if TYPE_CHECKING:
    from pyiceberg.schema import Schema

    from spark_jobs.kafka.chunks import Chunk
    from spark_jobs.protocol.cdc import Cdc
    from spark_jobs.protocol.progress import ColumnMap

# Codes of a schema that no table is made of: its events become dead letters.
_UNUSABLE = frozenset({"schema-unreadable", "schema-unsupported"})
_READ: dict[Envelope, tuple[ReadEvent, ReadEvent]] = {
    Envelope.DEBEZIUM: (debezium, plain_debezium),
    Envelope.UPSERT: (upsert, plain_upsert),
    Envelope.SLUICE: (enveloped, plain_enveloped),
}


def changes(
    pipeline: PipelineConfig,
    schemas: KnownSchemas,
    rules: Rules,
    table: Schema | None,
    *,
    bound: ColumnMap,
    cdc: Cdc | None,
    own: Schema = CHANGE_COLUMNS,
) -> Format:
    """See ``format_of``; ``own`` are the rows' columns that come from the event."""
    spelling, shaping, beside = spelling_of(pipeline, cdc), shaping_of(pipeline), arrow_schema(own)
    rules = replace(rules, computed=rules.computed.union(own.column_names))
    is_debezium = pipeline.envelope is Envelope.DEBEZIUM
    placed = PlacedRows(table or own, bound, rules, is_debezium)
    # What was told before a rebuild took another type is a row still.
    every_type = frozenset[str]() if takes_all_types(pipeline) else None
    all_types = replace(placed, rules=replace(rules, takes_all_but=every_type))
    if pipeline.value.format is ValueFormat.AVRO:
        events: EventReader = AvroEvents(schemas, spelling, beside)
        again: EventReader = AvroEvents(schemas, spelling, beside, plain_documents_in, plain_change_in)
    else:
        events, again = (
            JsonEvents(read, spelling, beside) for read in _READ[pipeline.envelope or Envelope.DEBEZIUM]
        )
    fields = field_names(table, bound)
    seen = SeenColumns(pipeline.table_schema.growth, pipeline.is_exact, frozenset(shaping.columns))
    return Format(
        ChangesDecoder(JsonDecoder(shaping.elsewhere, fields), placed, events, cdc.source if cdc else None),
        PlainChangesDecoder(PlainJsonDecoder(shaping.elsewhere, fields), all_types, again),
        ChangeColumns(seen, rules, is_debezium, own),
        takes_tombstones=pipeline.envelope is Envelope.UPSERT,
    )


mirrored = partial(changes, own=MIRROR_COLUMNS)


def spelling_of(pipeline: PipelineConfig, cdc: Cdc | None = None) -> Spelling:
    """Return the canonical form of event keys; in a mirror, names follow the order of its key."""
    order = (cdc.key if cdc else None) or pipeline.mirror.key
    is_said = "format" in pipeline.record_key.model_fields_set
    return Spelling(tuple(order), is_said, pipeline.layout.keeps_newest)


def takes_all_types(pipeline: PipelineConfig) -> bool:
    """True if a column accepts all types that its source ever used, as those of a mirror do.

    But for a mirror that has a column for each of the types.
    """
    return pipeline.layout.keeps_newest and pipeline.table_schema.incompatible is not Incompatible.NEW_COLUMN


@dataclass(frozen=True, slots=True)
class ChangesDecoder:
    """Decodes rows without a schema by ``rows``, others by their schema into the columns of ``placed``.

    A drain stops at what others tell than ``whose`` changes a mirror has: their rows add and break nothing.
    """

    rows: JsonDecoder
    placed: PlacedRows
    events: EventReader
    whose: str | None = None

    def decode(self, records: Chunk, columns: pa.Schema, growth: Growth = GROWTH) -> Decoded:
        """See ``Decoder``; no column of changes changes its type."""
        named = () if growth.has_ended else self.events.new_schemas(records)
        if named:
            return Decoded(no_rows(columns), [], new_fields=Evidence(schemas=named))
        changes, bad, passed = self._read_changes(records)
        is_old = SOURCE in self.events.own.names and SOURCE not in columns.names
        if is_old and any(each.source for each in changes.values()):
            return Decoded(no_rows(columns), [], new_fields=Evidence())  # of a version that had it not
        of_rows = _of_rows(columns, self.events)
        parts: list[Part] = []
        new: list[Evidence] = []
        for (schema, is_whole), indices in _alike(changes).items():
            try:
                decoded = self._decoded(
                    _encoded(records, indices, changes), schema, of_rows, growth, is_whole=is_whole
                )
            except ConfigError as error:
                if error.code not in _UNUSABLE:
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
        together = add_keys_and_headers(together, records, _of_rows(columns, self.events, ()))
        return together.beside(_event_columns(changes, together.indices, records, self.events), columns)

    def observe(self, records: Chunk, growth: Growth = GROWTH) -> Evidence:
        """See ``Decoder``: observes fields of rows without a schema, and the schemas of others."""
        changes, bad, _ = self._read_changes(records)
        seen = Evidence(undecodable=len(bad), schemas=self.events.new_schemas(records))
        for (schema, _), indices in _alike(changes).items():
            if schema is None:
                seen = seen.merge(self.rows.observe(_rows_of(records, indices, changes), growth))
            else:
                places = [(int(records.partitions[index]), records.offsets[index]) for index in indices]
                times = [int(records.timestamps_ms[index]) for index in indices]
                last = max((time, *place) for time, place in zip(times, places, strict=True))
                seen = seen.merge(
                    Evidence(records=len(indices), texts={schema: FirstAndLast(min(places), last)})
                )
        return seen.within(growth.max_fields_seen)

    def _read_changes(self, records: Chunk) -> ReadChanges:
        result = self.events.read_changes(records)
        for index, change in result.changes.items() if self.whose is not None else ():
            if change.source is not None and change.source != self.whose:
                result.changes[index] = replace(change, row=b"{}", schema=None)
        return result

    def _decoded(
        self, values: Encoded, schema: str | None, columns: pa.Schema, growth: Growth, *, is_whole: bool
    ) -> Decoded:
        if schema is None:
            decoded = self.rows.read(values, columns, growth)
            _refuse_unscaled(decoded, values.items, columns)
            return decoded
        known = self.placed.schemas(schema, growth, is_whole=is_whole)
        if known is None:
            return Decoded(no_rows(columns), [], new_fields=Evidence())
        converts = self.placed.rules.takes_all_but is not None
        return SchemaDecoder(known, converts=converts).read(values, columns, growth)


@dataclass(frozen=True, slots=True)
class PlainChangesDecoder:
    """See ``ChangesDecoder``."""

    rows: PlainJsonDecoder
    placed: PlacedRows
    events: EventReader

    def decode(self, records: Chunk, columns: pa.Schema) -> Decoded:
        """See ``PlainDecoder``."""
        changes, _, passed = self.events.read_changes(records)
        of_rows = _of_rows(columns, self.events)
        rows: list[int] = []
        tables, more = [no_rows(of_rows)], list[int]()
        rounded: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
        for (schema, is_whole), indices in _alike(changes).items():
            plain = self._plain(_encoded(records, indices, changes), schema, of_rows, is_whole=is_whole)
            tables.append(plain.table)
            rows += [indices[row] for row in plain.indices]
            more += [indices[row] for row in plain.has_more]
            for column, at in plain.rounded.items():
                rounded[column] += [indices[row] for row in at]
        table = pa.concat_tables(tables)
        plain = Decoded(table, rows, has_more=more, rounded=rounded, passed=passed)
        plain = plain.only(np.argsort(np.array(rows, np.int64)).tolist())
        plain = with_keys_and_headers(plain, records, _of_rows(columns, self.events, ()))
        return plain.beside(_event_columns(changes, plain.indices, records, self.events), columns)

    def _plain(self, values: Encoded, schema: str | None, columns: pa.Schema, *, is_whole: bool) -> Decoded:
        if schema is None:
            return self.rows.read(values, columns)
        try:
            known = self.placed.schemas(schema, GROWTH.ended(), is_whole=is_whole)
        except ConfigError as error:
            if error.code not in _UNUSABLE:
                raise
            return Decoded(no_rows(columns), [])
        return PlainSchemaDecoder(known or KnownSchemas()).read(values, columns)


def _of_rows(columns: pa.Schema, events: EventReader, beside: Sequence[str] = METADATA_COLUMNS) -> pa.Schema:
    """Return the columns of rows, without those of the event or next to values."""
    others = frozenset(events.own.names).union(beside)
    return pa.schema([column for column in columns if column.name not in others])


def _alike(changes: Mapping[int, Change]) -> dict[tuple[str | None, bool], list[int]]:
    """Group changes that are read alike: by schema, and by whether their rows have all columns."""
    alike: defaultdict[tuple[str | None, bool], list[int]] = defaultdict(list)
    for index, change in changes.items():
        alike[change.schema, change.schema is None or change.is_whole].append(index)
    return alike


def _encoded(records: Chunk, indices: Sequence[int], changes: Mapping[int, Change]) -> Encoded:
    return Encoded(records, indices, [changes[index].row for index in indices])


def _rows_of(records: Chunk, indices: Sequence[int], changes: Mapping[int, Change]) -> Chunk:
    chunk = records.take(indices)
    chunk.values = [changes[index].row for index in indices]
    return chunk


def _refuse_unscaled(decoded: Decoded, values: Sequence[bytes], columns: pa.Schema) -> None:
    """Raise ``ConfigError`` if a decimal's bytes come without a scale: any number could be meant."""
    for bad in decoded.bad:
        if bad.field is None or bad.field not in columns.names:
            continue
        kind = columns.field(bad.field).type
        if pa.types.is_decimal(kind):
            value = parse_object(values[bad.index]).get(bad.field)
            if type(value) is str:
                raise fault(
                    "debezium-decimal-without-schema", value=value, column=bad.field, declared=str(kind)
                )


def _event_columns(
    changes: Mapping[int, Change], rows: Sequence[int], records: Chunk, events: EventReader
) -> dict[str, pa.Array]:
    """Return the events' own columns of the changes at these indices."""
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
    return {field.name: pa.array(items[field.name], field.type) for field in events.own}
