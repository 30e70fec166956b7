"""Columns in one piece, and lists and maps made anew around other items, wherever an array was cut out."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.schema.arrow_schema import column_of


def one_array(values: pa.ChunkedArray) -> pa.Array:
    """Return a column's values in one piece."""
    joined = values.combine_chunks()
    return pa.concat_arrays(joined.chunks) if isinstance(joined, pa.ChunkedArray) else joined


def items_of(values: pa.Array) -> pa.Array:
    """Return the items of all of an array's lists, one after the other, as ``flatten`` gives them."""
    # Arrow makes an array anew where all lists are null, and knows how of no UUIDs.
    return column_of((), values.type.value_type) if values.null_count == len(values) else values.flatten()


def list_of(values: pa.Array, items: pa.Array, kind: pa.DataType | None = None) -> pa.Array:
    """Return a list array like ``values`` with these instead of its ``items_of``."""
    kind = kind or pa.list_(values.type.value_field.with_type(items.type))
    return pa.ListArray.from_arrays(_offsets(values), items, type=kind, mask=values.is_null())


def entries_of(values: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return the keys and the items of all of an array's maps, one after the other."""
    keys, items = items_of(_as_lists(values)).flatten()
    return keys, items


def map_of(values: pa.Array, keys: pa.Array, items: pa.Array, kind: pa.DataType | None = None) -> pa.Array:
    """Return a map array like ``values`` with these instead of its ``entries_of``."""
    kind = kind or pa.map_(
        values.type.key_field.with_type(keys.type), values.type.item_field.with_type(items.type)
    )
    return pa.MapArray.from_arrays(_offsets(_as_lists(values)), keys, items, type=kind, mask=values.is_null())


def _as_lists(values: pa.Array) -> pa.Array:
    return values.cast(pa.list_(pa.struct([values.type.key_field, values.type.item_field])))


def _offsets(values: pa.Array) -> pa.Array:
    lengths = pc.fill_null(pc.list_value_length(values), 0)
    return pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths).cast(pa.int32())])
