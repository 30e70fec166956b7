"""Decodes a chunk of JSON values to table rows: each value becomes a correct row or is unread.

A chunk goes to Arrow's reader as a whole, which is believed under guards; if it refuses that, in blocks; a
refused block is looked at record by record, and its good records are decoded once more, so that one bad
record costs its block and no more.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from spark_jobs.config.columns import GROWTH, Growth
from spark_jobs.formats.json.infer import observe
from spark_jobs.formats.json.native import Taken, take
from spark_jobs.formats.json.nesting import MAX_NESTING, SHORT_BYTES, is_too_deep
from spark_jobs.formats.json.parsing import BLANKS, ignored_in, parse_object
from spark_jobs.formats.lanes.packed_values import in_turn
from spark_jobs.schema.arrow_schema import column_of, fields_of, no_rows
from spark_jobs.schema.inference import MAX_NAME_BYTES, DeclaredType, Field, StructOf, count_columns, evolve
from spark_jobs.schema.unknown_fields import without_bursts
from spark_jobs.schema.writer_schema import ReadValues, Unread, UnreadableValueError
from spark_jobs.values.fitting import MisfitError, fit_record
from spark_jobs.values.literals import shortened
from spark_jobs.values.ranges import is_certain

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
    """Decode values to rows of ``schema``, a table's own columns; absent fields are null.

    A value is never None; an empty one is unread. Fields the schema lacks, at any depth, are reported
    in ``new_fields`` when a column can be added for them, else they make the record unread, or are
    counted in ``ignored``, as ``growth`` says; values of nothing but nulls, empty lists and empty objects
    are passed over. A double column holds the nearest double of a fraction, and of integers only those that
    are a double; a binary one the UTF-8 of a string. Fields ``elsewhere`` are passed over.
    """
    if not values:
        return ReadValues(no_rows(schema))
    taken = take(values, schema, ignores=growth.ignores, passed=elsewhere)
    if taken is None:
        return decode_in_python(values, schema, growth, elsewhere)
    left = np.flatnonzero(taken.left)
    if not len(left):
        return ReadValues(taken.table, ignored=taken.ignored)
    rest = decode_in_python([values[index] for index in left.tolist()], schema, growth, elsewhere)
    return rest if rest.new_fields is not None else _merged(taken, left, rest)


def _merged(taken: Taken, left: np.ndarray, rest: ReadValues) -> ReadValues:
    """Return the rows of both in the order of their values."""
    more = left[rest.indices] if len(rest.indices) else np.empty(0, np.int64)
    rows = np.concatenate([np.flatnonzero(taken.left == 0), more])
    order = np.argsort(rows)
    table = pa.concat_tables([taken.table, rest.table]).take(order)
    unread = tuple(replace(each, index=int(left[each.index])) for each in rest.unread)
    ignored = Counter(taken.ignored) + Counter(rest.ignored)
    return ReadValues(table, rows[order].tolist() if unread else None, unread, ignored)


def decode_in_python(
    values: Sequence[bytes], schema: pa.Schema, growth: Growth, elsewhere: frozenset[str]
) -> ReadValues:
    """Do the same without WebAssembly: what it leaves, and all where there is none."""
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
    """Decodes a chunk; ``read_as`` is None if a column's type requires the record-by-record reader."""

    schema: pa.Schema
    read_as: pa.Schema | None
    columns: tuple[Field, ...]
    growth: Growth
    elsewhere: frozenset[str]

    def at_once(self, values: Sequence[bytes]) -> ReadValues | None:
        """Decode values that are all good or have new fields; return None if some are bad."""
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
        """Decode values when some are bad."""
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
        ignored: dict[int, list[str]] = {}
        for index, value in enumerate(values):
            try:
                record = parse_object(value)
                good.append((index, fit(record)))
                ignored[index] = [*ignored_in(record, StructOf(self.columns))] if self.growth.ignores else []
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
        counts = Counter(name for index in rows for name in ignored[index])
        return ReadValues(table, rows, tuple(bad[index] for index in sorted(bad)), counts)

    def _build(
        self, values: Sequence[bytes], good: list[tuple[int, dict[str, Any]]], tables: list[pa.Table]
    ) -> list[int]:
        """Append tables of the good records, in order; return the indices of rejected records."""
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
    """Return a field's dotted name; long names are shortened unless they are columns."""
    return ".".join(shortened(step, MAX_NAME_BYTES) for step in path)


# The fast way: a whole chunk through Arrow's JSON reader, believed only under guards.
#
# Why the guards are enough: values are joined by newlines, and the reader refuses a raw newline inside a
# string, so no document crosses from one value into the next where ``}`` is followed by ``{``. Every value
# starts with ``{`` and ends with ``}``, hence holds one document at least; with as many rows as values it
# holds exactly one. The reader itself refuses repeated keys, lone surrogates, and integers that are fractions
# or past 64 bits; it lets pass invalid UTF-8 (found by validation), NaN and infinity (looked for here), and
# zones that are missing or too many (times are read as text and cast, which is strict).


_MAX_BLOCK_BYTES = 2**31 - 2
_OPEN, _CLOSE = ord("{"), ord("}")


@dataclass(frozen=True, slots=True)
class FastRead:
    """A chunk as rows; ``unknown`` counts non-empty values of fields outside the schema, by dotted name."""

    table: pa.Table
    unknown: Mapping[str, int]


def read_type(kind: pa.DataType) -> pa.DataType | None:
    """Return the type to request from the reader for a column, or None if it cannot read it exactly.

    It knows no maps, times, UUIDs; a decimal with an exponent of some million digits kills it.
    """
    if pa.types.is_struct(kind):
        inner = [(field.name, read_type(field.type) if field.nullable else None) for field in kind]
        return None if any(t is None for _, t in inner) else pa.struct(inner)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        element = read_type(kind.value_type) if kind.value_field.nullable else None
        return None if element is None else pa.list_(element)
    if kind in _READ_AS_THEY_ARE:
        return kind
    return pa.string() if kind in _READ_AS_TEXT else None


_READ_AS_THEY_ARE = (
    pa.int64(), pa.int32(), pa.float64(), pa.float32(), pa.bool_(), pa.string(), pa.large_string(),
)  # fmt: skip
_READ_AS_TEXT = (
    pa.timestamp("us", "UTC"), pa.timestamp("us"), pa.date32(), pa.binary(), pa.large_binary(),
)  # fmt: skip


def read_schema(schema: pa.Schema) -> pa.Schema | None:
    """Return the schema to give to the reader, or None if it cannot read some column exactly."""
    columns = [(field.name, read_type(field.type) if field.nullable else None) for field in schema]
    return None if any(kind is None for _, kind in columns) else pa.schema(columns)


def read_chunk(
    values: Sequence[bytes],
    schema: pa.Schema,
    read_as: pa.Schema,
    *,
    are_exact: bool = False,
    passed: Collection[str] = (),
) -> FastRead | None:
    """Return all values as rows of ``schema``, or None if one may not be a row. Never kills the process.

    ``are_exact``: it is known that no integer among them is rounded by a column of floating point. Fields
    that are ``passed`` over are not unknown.
    """
    lengths = _lengths(values)
    long = np.flatnonzero(lengths > SHORT_BYTES).tolist()
    if lengths.sum() + len(values) > _MAX_BLOCK_BYTES or any(is_too_deep(values[index]) for index in long):
        return None
    block = b"\n".join(values)
    if not _holds_objects(block, lengths):
        return None
    try:
        raw = _read_block(block, read_as)
        if raw.num_rows != len(values) or _depth(raw.schema) > MAX_NESTING:
            return None
        raw.validate()  # of lists of other fields it loses the nulls before the first value
        known = raw.select(read_as.names)
        known.validate(full=True)
        rest = raw.select([name for name in raw.column_names if name not in passed]) if passed else raw
        unknown = dict(_unknown(rest.schema, rest.columns, read_as))
        table = _conform(known, schema)
    except pa.ArrowMemoryError:
        raise
    except (pa.ArrowException, UnicodeDecodeError):
        return None
    # Arrow's cast takes year 0 too.
    if not all(is_certain(chunk, are_exact=are_exact) for column in table.columns for chunk in column.chunks):
        return None
    return FastRead(table, unknown)


def are_objects(values: Sequence[bytes]) -> bool:
    """True if every value starts with ``{`` and ends with ``}``; surrounding blanks make it False."""
    return _holds_objects(b"\n".join(values), _lengths(values))


def _lengths(values: Sequence[bytes]) -> np.ndarray:
    return np.fromiter(map(len, values), np.int64, len(values))


def _holds_objects(block: bytes, lengths: np.ndarray) -> bool:
    """True if values joined by newlines all look like objects, judged at the boundaries only."""
    letters = np.frombuffer(block, np.uint8)
    ends = np.cumsum(lengths + 1) - 1
    is_filled = lengths.min() > 0  # else what stands there is another value's
    return bool(
        is_filled and (letters[ends - lengths] == _OPEN).all() and (letters[ends - 1] == _CLOSE).all()
    )


def _read_block(block: bytes, read_as: pa.Schema) -> pa.Table:
    return pj.read_json(
        pa.BufferReader(block),
        # The tasks of a job share the cores already.
        read_options=pj.ReadOptions(use_threads=False, block_size=len(block) + 1),
        parse_options=pj.ParseOptions(explicit_schema=read_as, unexpected_field_behavior="infer"),
    )


def _unknown(
    found: Any, columns: Iterable[Any], known: Any, path: tuple[str, ...] = ()
) -> Iterator[tuple[str, int]]:
    """Return the number of non-empty values of unknown fields, at any depth of a schema or struct."""
    for field, values in zip(found, columns, strict=True):
        column, here = values, (*path, field.name)
        if known.get_field_index(field.name) < 0:
            if count := int(_filled(column).sum()):
                yield ".".join(here), count
            continue
        kind, known_kind = field.type, known.field(field.name).type
        while pa.types.is_list(kind):
            kind, known_kind = kind.value_type, known_kind.value_type
            column, here = pc.list_flatten(column), (*here, "element")
        if pa.types.is_struct(kind):
            yield from _unknown(kind, column.flatten(), known_kind, here)


def _filled(column: pa.ChunkedArray) -> np.ndarray:
    """Return True for values that contain anything but null, empty lists and empty objects."""
    filled: np.ndarray = np.zeros(len(column), bool)
    if pa.types.is_struct(column.type):
        for each in column.flatten():
            filled |= _filled(each)
    elif pa.types.is_list(column.type):
        filled[pc.list_parent_indices(column).to_numpy()[_filled(pc.list_flatten(column))]] = True
    else:
        filled |= column.is_valid().to_numpy()
    return filled


def _conform(known: pa.Table, schema: pa.Schema) -> pa.Table:
    if not schema.names:
        return known  # it still knows how many rows it has
    # Also drops fields inside structs that the type does not have; nothing was said in them.
    return pa.Table.from_arrays(
        [known.column(field.name).cast(field.type) for field in schema], schema=schema
    )


def _depth(fields: Iterable[pa.Field]) -> int:
    """Return the nesting depth of records with these fields."""
    deepest = 0
    for field in fields:
        kind, depth = field.type, 0
        while pa.types.is_list(kind):
            kind, depth = kind.value_type, depth + 1
        deepest = max(deepest, depth + (_depth(kind) if pa.types.is_struct(kind) else 0))
    return deepest + 1
