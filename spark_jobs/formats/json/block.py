"""A chunk of JSON values as rows of a table: every value becomes a right row or is unread, none is changed.

A chunk goes to Arrow's reader as a whole; if that refuses it, in blocks; a refused block is looked at record
by record, and its good records are decoded once more, so that one bad record costs its block and no more.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from spark_jobs.config.columns import GROWTH, Growth
from spark_jobs.formats.json.arrow_reader import are_objects, read_chunk, read_schema
from spark_jobs.formats.json.infer import observe
from spark_jobs.formats.json.parsing import BLANKS, parse_object
from spark_jobs.formats.lanes.packed_values import in_turn
from spark_jobs.schema.arrow_schema import column_of, fields_of, no_rows
from spark_jobs.schema.evidence import Kind
from spark_jobs.schema.inference import MAX_NAME_BYTES, DeclaredType, Field, count_columns, evolve
from spark_jobs.schema.unknown_fields import unknown_fields, without_bursts
from spark_jobs.schema.writer_schema import ReadValues, Unread, UnreadableValueError
from spark_jobs.values.fitting import MisfitError, fit_record
from spark_jobs.values.literals import shortened

# A call of the reader costs as much as 200 records, a record looked at by itself as much as 10.
_BLOCK_RECORDS = 250
# Zeros behind a microsecond's digits, or before an exponent, which the reader does not take for none.
_ZEROS = re.compile(rb":[0-9]{2}\.[0-9]{6}0+[Z\"+-]|[^0-9.]0(?:\.0+)?[eE]\+?[0-9]{3}")


def decode_chunk(
    values: Sequence[bytes],
    schema: pa.Schema,
    growth: Growth = GROWTH,
    *,
    elsewhere: frozenset[str] = frozenset(),
) -> ReadValues:
    """Decode values into rows of ``schema``, a table's own columns; null where a record has no such field.

    A value is never None; an empty one is unread. Fields the schema lacks, at any depth, are reported
    in ``new_fields`` when a column can be added for them, else they make the record unread, or are
    counted in ``ignored``, as ``growth`` says; where they hold nothing but nulls, empty lists and empty
    objects they are passed over. A double column holds the
    nearest double of a fraction, and of integers only those that are a double; a binary one the UTF-8 of a
    string. Fields ``elsewhere`` are passed over.
    """
    if not values:
        return ReadValues(no_rows(schema))
    passed = tuple(Field(name, DeclaredType("any")) for name in sorted(elsewhere - {*schema.names}))
    columns = (*fields_of(schema), *passed)
    decoder = _Decoder(schema, read_schema(schema), columns, growth, elsewhere)
    decoded = decoder.at_once(values)
    if decoded is None and not are_objects(values):
        values = [value.strip(BLANKS) for value in values]
        decoded = decoder.at_once(values)
    return decoded or decoder.in_blocks(values)


@dataclass(frozen=True, slots=True)
class _Decoder:
    """``read_as`` is None when a column is of a type that only the way record by record can make."""

    schema: pa.Schema
    read_as: pa.Schema | None
    columns: tuple[Field, ...]
    growth: Growth
    elsewhere: frozenset[str]

    def at_once(self, values: Sequence[bytes]) -> ReadValues | None:
        """Decode values of which all are good, or have new fields; None when there are bad ones."""
        read = (
            None
            if self.read_as is None
            else read_chunk(values, self.schema, self.read_as, passed=self.elsewhere)
        )
        if read is None:
            return None
        if read.unknown and not self.growth.ignores:
            return self._new_fields(values)
        return ReadValues(read.table, ignored=read.unknown)

    def in_blocks(self, values: Sequence[bytes]) -> ReadValues:
        """Decode values of which some are bad."""
        parts = []
        for start in range(0, len(values), _BLOCK_RECORDS):
            block = values[start : start + _BLOCK_RECORDS]
            part = self.at_once(block) or self._record_by_record(block)
            if part.new_fields is not None:
                return part
            parts.append((len(block), part))
        return in_turn(parts)

    def _new_fields(self, values: Sequence[bytes]) -> ReadValues | None:
        if count_columns(self.columns) >= self.growth.room:
            return None
        evidence = observe(values, max_fields=self.growth.max_fields_seen).without(self.elsewhere)
        taken = without_bursts(evidence, self.columns, self.growth.room)
        if not evolve(self.columns, taken, max_columns=self.growth.room):
            return None
        return ReadValues(no_rows(self.schema), [], new_fields=evidence)

    def _record_by_record(self, values: Sequence[bytes]) -> ReadValues:
        fit = fit_record(self.schema, self.growth, self.elsewhere)
        bad: dict[int, Unread] = {}
        unknown: list[bytes] = []
        good: list[tuple[int, dict[str, Any]]] = []
        for index, value in enumerate(values):
            try:
                good.append((index, fit(parse_object(value))))
            except UnreadableValueError as error:
                bad[index] = Unread(index, error.field and _shown(error.field), str(error))
            except MisfitError as misfit:
                bad[index] = Unread(index, _shown(*misfit.path), misfit.message)
                if misfit.is_unknown:
                    unknown.append(value)
        if unknown and (new := self._new_fields(unknown)):
            return new
        tables: list[pa.Table] = []
        for index in self._build(values, good, tables):
            bad[index] = Unread(index, None, "the decoder refused it")
        rows = [index for index, _ in good if index not in bad]
        table = pa.concat_tables(tables) if tables else no_rows(self.schema)
        ignored = self._ignored([values[index] for index in rows]) if self.growth.ignores else {}
        return ReadValues(table, rows, tuple(bad[index] for index in sorted(bad)), ignored)

    def _ignored(self, values: Sequence[bytes]) -> dict[str, int]:
        seen = observe(values, max_fields=self.growth.max_fields_seen)
        if seen.undecodable:  # numbers past all doubles, which say something: as their text
            as_text = [json.dumps(parse_object(value)).encode() for value in values]
            seen = observe(as_text, max_fields=self.growth.max_fields_seen)
        return {
            ".".join(path): each.count(*Kind) - each.count(Kind.NULL)
            for path, each in unknown_fields(self.columns, seen)
        }

    def _build(
        self, values: Sequence[bytes], good: list[tuple[int, dict[str, Any]]], tables: list[pa.Table]
    ) -> list[int]:
        """Append tables of the good records, in order; return the indices of those the reader refuses."""
        if not good:
            return []
        table = self._table_of(values, good)
        if table is not None:
            tables.append(table)
            return []
        if len(good) == 1:
            return [good[0][0]]
        middle = len(good) // 2
        return self._build(values, good[:middle], tables) + self._build(values, good[middle:], tables)

    def _table_of(self, values: Sequence[bytes], good: list[tuple[int, dict[str, Any]]]) -> pa.Table | None:
        # The reader refuses fields that are ignored and of two kinds.
        is_strict = not self.growth.ignores and not self.elsewhere
        if self.read_as is not None and is_strict:
            checked = [values[index] for index, _ in good]
            read = read_chunk(checked, self.schema, self.read_as, are_exact=True)
            if read is not None and not read.unknown:
                return read.table
            if not all(map(_ZEROS.search, checked)):
                return None
        try:
            columns = [column_of([row[f.name] for _, row in good], f.type) for f in self.schema]
            return pa.Table.from_arrays(columns, schema=self.schema)
        except pa.ArrowInvalid:
            return None


def _shown(*path: str) -> str:
    """Return the dotted name of a field; a column's is never shortened, another key may be."""
    return ".".join(shortened(step, MAX_NAME_BYTES) for step in path)
