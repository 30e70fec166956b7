"""What clients bind to a statement: the only Arrow of others that is read, and no further than it goes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.types as kinds

from spark_jobs.protocol.errors import ConfigError

MOST_BYTES = 1_000_000
_VIEWS = (kinds.is_string_view, kinds.is_binary_view)
_FLAT = (
    *(kinds.is_null, kinds.is_boolean, kinds.is_integer, kinds.is_floating, kinds.is_decimal),
    *(kinds.is_string, kinds.is_large_string, kinds.is_binary, kinds.is_large_binary),
    *(kinds.is_fixed_size_binary, kinds.is_temporal),
)


def read_parameters(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> pa.Table:
    """Return what is bound, checked. Raises ``ConfigError`` (``unreadable-request``)."""
    try:
        whole = pa.Table.from_batches(_checked(schema, batches), schema)
        decoded = [c.cast(c.type.value_type) if kinds.is_dictionary(c.type) else c for c in whole.columns]
        for column in decoded:
            column[:1].to_pylist()  # a time beyond all years is a number of its type
    except (pa.ArrowException, ValueError, OverflowError, LookupError, OSError) as error:
        raise _unreadable("its parameters are damaged") from error
    return pa.table(decoded, names=[str(n) for n in range(len(decoded))])


def too_long() -> ConfigError:
    """Return the refusal of a statement that has too much in it."""
    return ConfigError(
        f"the statement has more than {MOST_BYTES:,} bytes with its parameters",
        code="unreadable-request",
        hint="Ask with a shorter one.",
    )


def _checked(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for field in schema:
        _check_kind(field.type)
    left = MOST_BYTES
    for batch in batches:
        # Nothing else is asked of it before: what it says of itself is where others' memory would be read.
        left -= batch.get_total_buffer_size() + 1
        if left >= 0:
            batch.validate(full=True)
            left -= sum(map(_values, batch.columns))
        if left < 0:
            raise too_long()
        yield batch


def _check_kind(kind: pa.DataType) -> None:
    """Refuse what holds one value in many places, which would be larger than what was sent."""
    if kinds.is_dictionary(kind):
        kind = kind.value_type
    if not any(is_it(kind) for is_it in _VIEWS):
        for part in _parts(kind):
            if not any(is_it(part) for is_it in _FLAT):
                raise _unreadable(f"a parameter is of type {part}")


def _parts(kind: pa.DataType) -> Iterator[pa.DataType]:
    if kinds.is_list(kind) or kinds.is_large_list(kind) or kinds.is_fixed_size_list(kind):
        yield from _parts(kind.value_type)
    elif kinds.is_struct(kind):
        for field in kind:
            yield from _parts(field.type)
    elif kinds.is_map(kind):
        yield from (*_parts(kind.key_type), *_parts(kind.item_type))
    else:
        yield kind


def _values(array: pa.Array) -> int:
    """How many it has, and what is inside them: of nulls and empty structs there are many without a byte."""
    kind = array.type
    if kinds.is_map(kind):
        return len(array) + _values(array.keys) + _values(array.items)
    if kinds.is_struct(kind):
        return len(array) + sum(_values(array.field(n)) for n in range(kind.num_fields))
    return len(array) + (_values(array.values) if kinds.is_nested(kind) else 0)


def _unreadable(why: str) -> ConfigError:
    return ConfigError(
        f"the request cannot be read: {why}",
        code="unreadable-request",
        hint="Bind numbers, texts, bytes, times, or lists, structs and maps of these.",
    )
