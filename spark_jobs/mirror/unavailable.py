"""Finds unchanged values that an event does not contain.

PostgreSQL keeps long values beside the row, and its log has them only where they were written. Debezium puts
a placeholder there; the value is in an earlier row of the key, or, where the key changed, of the old one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import TYPE_CHECKING
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from spark_jobs.protocol.cdc import Position

_TEXT = "__debezium_unavailable_value"
_UUID = UUID("b68a35a7-17ad-35b3-af2a-ae46edb4545a")
_CODES = [ord(letter) for letter in _TEXT]
_DAYS = [date(1970, 1, 1) + timedelta(code) for code in _CODES]


@dataclass(frozen=True, slots=True)
class Telling:
    """A row that may contain values of its key: an event, or a row of the mirror.

    ``index`` is its place among the rows that were looked up. ``commit`` and ``sequence`` are where its
    source stood, ``commit`` None where that is not told. ``old_key`` is the key that its own had before,
    where that changed with it. ``lacks`` are the columns that it does not tell. A delete tells that there was
    no row from there on. Where its source stood says nothing of rows of another ``identity`` of it but that
    they are later, or earlier.
    """

    index: int
    key: str
    partition: int
    commit: int | None
    sequence: int
    old_key: str | None
    lacks: frozenset[str]
    is_delete: bool = False
    identity: int = 0

    @property
    def stood(self) -> tuple[int, int]:
        """Position of its source, comparable with that of any other row."""
        return self.identity, self.sequence


class NotToldYetError(Exception):
    """The partition of a row's old key has not been read up to the key's change."""


def is_unavailable(column: pa.ChunkedArray) -> NDArray[np.bool_]:
    """Return the mask of values that are Debezium's placeholder for the column's type."""
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _equal(column, pa.scalar(_TEXT, kind))
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return _equal(column, pa.scalar(_TEXT.encode(), kind))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        placeholders = _list_placeholders(kind.value_type)
        return np.fromiter((each in placeholders for each in column.to_pylist()), bool, len(column))
    return np.zeros(len(column), bool)


def can_be_unavailable(kind: pa.DataType) -> bool:
    """True if events may leave out unchanged values of this type."""
    return bool(pa.types.is_nested(kind) or pa.types.is_string(kind) or pa.types.is_binary(kind))


def source_of(
    row: Telling,
    column: str,
    tellings: Mapping[str, Sequence[Telling]],
    positions: Mapping[int, Position],
) -> Telling | None:
    """Return the row with ``row``'s value of a column; None if none of ``tellings`` has it.

    ``tellings`` are the rows of each key, in any order, of all events down to some point and none before it.
    ``positions`` are by partition what was read with the batch. What counts is where the source stood: a row
    whose key changed may be read before the rows of its old key. Raises ``NotToldYetError`` then.
    """
    while column in row.lacks:
        if row.old_key is not None and not _is_read(row, tellings.get(row.old_key, ()), positions):
            raise NotToldYetError(row.key)
        before = _before(row, tellings)
        if before is None or before.is_delete:
            return None
        row = before
    return row


def keys_to_look_up(rows: Iterable[Telling]) -> set[str]:
    """Return the keys that the rows' values may be found under."""
    return {row.old_key or row.key for row in rows if row.lacks}


def _is_read(row: Telling, of_old_key: Sequence[Telling], positions: Mapping[int, Position]) -> bool:
    """True if the old key's partitions were read up to the position of the change.

    Where nothing is known of the old key, it may be of any partition.
    """
    if row.commit is None:
        return True
    place = (row.identity, row.commit, row.sequence)
    partitions = {each.partition for each in of_old_key} or {*positions}
    known = [positions[partition] for partition in partitions if partition in positions]
    return bool(known) and all((each.identity, each.commit, each.sequence) >= place for each in known)


def _before(row: Telling, tellings: Mapping[str, Sequence[Telling]]) -> Telling | None:
    """Return the newest row of the key or old key before ``row`` in the source's log."""
    of_key = tellings.get(row.old_key or row.key, ())
    if row.commit is None and not any(each.stood == row.stood for each in of_key):
        # Where sources say no position it is the offset, which says nothing of other partitions; but where
        # the old key's end is told at the same place.
        of_key = [each for each in of_key if each.partition == row.partition]
    earlier = [each for each in of_key if each.stood < row.stood]
    # A row that was made whole stands beside its event.
    return max(earlier, key=lambda each: (*each.stood, not each.lacks), default=None)


def _equal(column: pa.ChunkedArray, value: pa.Scalar) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = pc.fill_null(pc.equal(column, value), pa.scalar(value=False)).to_numpy()
    return found


def _list_placeholders(kind: pa.DataType) -> list[list[object]]:
    if pa.types.is_string(kind):
        # In the place of numbers or dates a rebuild writes their texts.
        return [[_TEXT], [*map(str, _CODES)], [day.isoformat() for day in _DAYS]]
    if pa.types.is_fixed_size_binary(kind) or isinstance(kind, pa.UuidType):
        return [[_UUID.bytes], [_UUID]]
    return [[*_DAYS]] if pa.types.is_date(kind) else [[*_CODES]]  # numbers of any type are equal
