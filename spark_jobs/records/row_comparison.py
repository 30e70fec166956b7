"""Whether two columns of rows hold the same values."""

from __future__ import annotations

from math import isnan
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from numpy.typing import NDArray


def equal_values(
    left: pa.ChunkedArray, right: pa.ChunkedArray, *, is_nothing_null: bool = False
) -> NDArray[np.bool_]:
    """Return row by row whether they are equal: null to null, NaN to NaN, nested ones as Python sees them.

    With ``is_nothing_null`` a null on the left equals what says nothing on the right: ``{}`` and ``[[]]``
    were drained as null before their column had a type.
    Both zeros are one value, as in SQL: only a partitioning by floats told them apart, and none is made.
    """
    if pa.types.is_nested(left.type):
        pairs = zip(left.to_pylist(), right.to_pylist(), strict=True)
        return np.fromiter(
            (a == b or _is_alike(a, b, is_nothing_null) for a, b in pairs), dtype=bool, count=len(left)
        )
    # Arrow compares the bytes of a UUID, and no UUIDs.
    kind = right.type.storage_type if isinstance(right.type, pa.BaseExtensionType) else right.type
    equal = pc.fill_null(pc.equal(left.cast(kind), right.cast(kind)), fill_value=False)
    both_null = pc.and_(pc.is_null(left), pc.is_null(right))
    if pa.types.is_floating(kind):
        no_number = pc.and_(pc.is_nan(left), pc.is_nan(right))
        equal = pc.or_(equal, pc.fill_null(no_number, fill_value=False))
    same: NDArray[np.bool_] = pc.or_(equal, both_null).to_numpy()
    return same


def without_field(column: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    """Return a column of structs without one of their fields."""
    kept = [field for field in column.type if field.name != name]
    parts = [
        pa.StructArray.from_arrays(
            [pc.struct_field(chunk, field.name) for field in kept], fields=kept, mask=chunk.is_null()
        )
        for chunk in column.chunks
    ]
    return pa.chunked_array(parts, pa.struct(kept))


def _is_map(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], tuple)


def _is_alike(left: Any, right: Any, is_nothing_null: bool) -> bool:
    """Equal but for lists that are null or empty, and for the order of a map's entries.

    PyIceberg reads a null list of structs as an empty one; not every reader keeps entries in their order.
    """
    if _is_map(left) and _is_map(right):
        left, right = dict(left), dict(right)
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(
            _is_alike(left[name], right[name], is_nothing_null) for name in left
        )
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        pairs = zip(left, right, strict=False)
        return len(left) == len(right) and all(_is_alike(*pair, is_nothing_null) for pair in pairs)
    nothing: tuple[Any, ...] = (None, [])
    if isinstance(left, float) and isinstance(right, float) and isnan(left):
        return isnan(right)
    if is_nothing_null and left is None:
        return _says_nothing(right)
    return bool(left == right) or (left in nothing and right in nothing)


def _says_nothing(value: Any) -> bool:
    inside = value.values() if isinstance(value, dict) else value
    return value is None or (isinstance(value, dict | list) and all(map(_says_nothing, inside)))
