"""The fast way: a whole chunk through Arrow's JSON reader, believed only under guards.

Why the guards are enough: values are joined by newlines, and the reader refuses a raw newline inside a
string, so no document crosses from one value into the next where ``}`` is followed by ``{``. Every value
starts with ``{`` and ends with ``}``, hence holds one document at least; with as many rows as values it holds
exactly one. The reader itself refuses repeated keys, lone surrogates, and integers that are fractions or past
64 bits; it lets pass invalid UTF-8 (found by validation), NaN and infinity (looked for here), and zones that
are missing or too many (times are read as text and cast, which is strict).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from spark_jobs.formats.json.nesting import MAX_NESTING, SHORT_BYTES, is_too_deep
from spark_jobs.values.ranges import is_certain

_MAX_BLOCK_BYTES = 2**31 - 2
_OPEN, _CLOSE = ord("{"), ord("}")


@dataclass(frozen=True, slots=True)
class FastRead:
    """A chunk as rows; ``unknown``: fields outside the schema, by dotted name, and how many have a value."""

    table: pa.Table
    unknown: Mapping[str, int]


def read_type(kind: pa.DataType) -> pa.DataType | None:
    """Return the type to have the reader read for a column, or None when it cannot read one exactly.

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
    """Return the schema to give to the reader, or None when it cannot read some column exactly."""
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
    """All values as rows of ``schema``, or None when one of them may not be one. Never kills the process.

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
    """True if every value starts and ends like an object; one with blanks around it does not."""
    return _holds_objects(b"\n".join(values), _lengths(values))


def _lengths(values: Sequence[bytes]) -> np.ndarray:
    return np.fromiter(map(len, values), np.int64, len(values))


def _holds_objects(block: bytes, lengths: np.ndarray) -> bool:
    """The same of values joined by newlines: the block is looked at where each begins and ends."""
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
    """The fields of a schema or struct, at any depth, that are not known and say something."""
    for field, values in zip(found, columns, strict=True):
        column, here = values, (*path, field.name)
        if known.get_field_index(field.name) < 0:
            if _says_something(field.type):
                yield ".".join(here), len(column) - column.null_count
            continue
        kind, known_kind = field.type, known.field(field.name).type
        while pa.types.is_list(kind):
            kind, known_kind = kind.value_type, known_kind.value_type
            column, here = pc.list_flatten(column), (*here, "element")
        if pa.types.is_struct(kind):
            yield from _unknown(kind, column.flatten(), known_kind, here)


def _says_something(kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind):
        return any(_says_something(field.type) for field in kind)
    if pa.types.is_list(kind):
        return _says_something(kind.value_type)
    return not pa.types.is_null(kind)


def _conform(known: pa.Table, schema: pa.Schema) -> pa.Table:
    if not schema.names:
        return known  # it still knows how many rows it has
    # Also drops fields inside structs that the type does not have; nothing was said in them.
    return pa.Table.from_arrays(
        [known.column(field.name).cast(field.type) for field in schema], schema=schema
    )


def _depth(fields: Iterable[pa.Field]) -> int:
    """How deep the records of these fields nest."""
    deepest = 0
    for field in fields:
        kind, depth = field.type, 0
        while pa.types.is_list(kind):
            kind, depth = kind.value_type, depth + 1
        deepest = max(deepest, depth + (_depth(kind) if pa.types.is_struct(kind) else 0))
    return deepest + 1
