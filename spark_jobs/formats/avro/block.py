"""Reads many Avro values at once: each step of the schema is applied to all of them, in NumPy arrays.

A value is believed when every step was one that its own bytes allow, and the last ended where it ends: what
another value holds does not matter to it. The others are in doubt, and read by themselves; so are those with
a type inside itself, and the few that go on in a long list when the others have ended.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any

import numpy as np
import pyarrow as pa

from spark_jobs.formats.avro.columns import DURATION, MOST_DIGITS, has_columns, top_fields
from spark_jobs.formats.avro.plain import CONVERSIONS, TEXTS
from spark_jobs.formats.avro.types import Field, Kind, Leaf, Type, Union, is_null
from spark_jobs.formats.lanes.lanes import Lanes, Presence, Rows, Take, signed
from spark_jobs.formats.lanes.packed_values import binary_column, words_at
from spark_jobs.formats.tree import Array, Map, Record
from spark_jobs.values.ranges import bounds

# So many values take as long read by themselves.
FEWEST_VALUES = 60
_FEWEST_LANES = 16
_NUMBERS = frozenset({"int", "long", "enum"})
_SIZES = {"boolean": 1, "float": 4, "double": 8}


def taker(root: Type) -> Take:
    """Return the reader of a schema's values, for a ``BlockReader``."""
    fields = top_fields(root)

    def take(lanes: Lanes) -> Callable[[Rows, pa.Schema], list[pa.Array]]:
        steps = [_step(each.type) for each in fields]
        for step in steps:
            step.take(lanes)
        lanes.finish()
        return partial(_columns, fields, steps)

    return take


class _Step(ABC):
    """One type of the schema and its values read so far, in reading order."""

    @abstractmethod
    def take(self, lanes: Lanes) -> None:
        """Read the next value of each lane."""

    @abstractmethod
    def column(self, rows: Rows, target: pa.DataType) -> pa.Array:
        """Return some of the values read so far as a column."""


def _step(kind: Type) -> _Step:  # noqa: PLR0911  (a line for each type)
    match kind:
        case Leaf(Kind.NULL | Kind.EMPTY):
            return _Nothing()
        case Leaf() if kind.base in _NUMBERS:
            return _Number(kind)
        case Leaf() if kind.base in ("bytes", "string"):
            return _Text(kind)
        case Leaf():
            return _Piece(kind, _SIZES.get(kind.base, kind.size))
        case Array(items):
            return _List(_step(items))
        case Map(values):
            return _Map(_step(values))
        case Union():
            return _Union(kind, [_step(branch.type) for branch in kind.branches])
        case Record(fields):
            return _Record(kind, [_step(each.type) for each in fields])
    return _Again()


def _columns(fields: Sequence[Field], steps: Sequence[_Step], rows: Rows, targets: Any) -> list[pa.Array]:
    written = [(each, step) for each, step in zip(fields, steps, strict=True) if not is_null(each.type)]
    return [step.column(rows, target.type) for (_, step), target in zip(written, targets, strict=True)]


class _Nothing(_Step):
    def take(self, lanes: Lanes) -> None:
        """Read nothing: a null takes no bytes."""

    def column(self, rows: Rows, target: pa.DataType) -> pa.Array:
        return rows.array(np.ones(len(rows.values), bool), target)


class _Again(_Nothing):
    """A recursive type; its values are read one by one."""

    def take(self, lanes: Lanes) -> None:
        lanes.doubt(np.ones(len(lanes), bool))

    def column(self, rows: Rows, target: pa.DataType) -> pa.Array:
        return pa.nulls(len(rows.values), target)


@dataclass
class _Number(_Step):
    leaf: Leaf
    numbers: list[np.ndarray] = field(default_factory=list)

    def take(self, lanes: Lanes) -> None:
        self.numbers.append(lanes.longs())

    def take_many(self, lanes: Lanes, counts: np.ndarray) -> np.ndarray:
        """Read ``counts[i]`` values from lane i and return the number read."""
        numbers, counts = lanes.many_numbers(counts)
        self.numbers.append(signed(numbers))
        return counts

    def column(self, rows: Rows, target: pa.DataType) -> pa.Array:
        return _number_column(self.leaf, rows.taken(self.numbers), rows, target)


@dataclass
class _Piece(_Step):
    """Bytes of a fixed length."""

    leaf: Leaf
    size: int
    begins: list[np.ndarray] = field(default_factory=list)

    def take(self, lanes: Lanes) -> None:
        self.begins.append(lanes.pieces(self.size))

    def take_many(self, lanes: Lanes, counts: np.ndarray) -> np.ndarray:
        """Read ``counts[i]`` values from lane i and return the number read."""
        begins, counts = lanes.many_pieces(counts, self.size)
        self.begins.append(begins)
        return counts

    def column(self, rows: Rows, target: pa.DataType) -> pa.Array:
        begins = rows.taken(self.begins)
        sizes = np.full(len(begins), self.size)
        if rows.is_null is not None:
            sizes[rows.is_null] = 0
        return _piece_column(self.leaf, begins, sizes, rows, target)


@dataclass
class _Text(_Step):
    """Bytes preceded by their length."""

    leaf: Leaf
    begins: list[np.ndarray] = field(default_factory=list)
    sizes: list[np.ndarray] = field(default_factory=list)

    def take(self, lanes: Lanes) -> None:
        self.sizes.append(lanes.longs())
        self.begins.append(lanes.pieces(self.sizes[-1]))

    def column(self, rows: Rows, target: pa.DataType) -> pa.Array:
        return _piece_column(self.leaf, rows.taken(self.begins), rows.taken(self.sizes), rows, target)


@dataclass
class _Record(_Step):
    record: Record[Field]
    steps: Sequence[_Step]

    def take(self, lanes: Lanes) -> None:
        for step in self.steps:
            step.take(lanes)

    def column(self, rows: Rows, target: pa.DataType) -> pa.Array:
        if not has_columns(self.record):
            return rows.array(np.ones(len(rows.values), bool), target)
        inside = _columns(self.record.fields, self.steps, rows, target)
        return pa.StructArray.from_arrays(inside, fields=list(target), mask=rows.nulls)


@dataclass
class _Union(_Step):
    union: Union
    steps: Sequence[_Step]
    chosen: list[np.ndarray] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._there = [Presence() for _ in self.steps]

    def take(self, lanes: Lanes) -> None:
        chosen = lanes.longs()
        lanes.doubt((chosen < 0) | (chosen >= len(self.steps)))
        self.chosen.append(chosen)
        for branch, (there, step) in enumerate(zip(self._there, self.steps, strict=True)):
            there.take(lanes, chosen == branch, step.take)

    def column(self, rows: Rows, target: pa.DataType) -> pa.Array:
        only = self.union.only
        if only is not None:
            return self._member(self.union.branches.index(only), rows, target)
        members = [branch for branch, each in enumerate(self.union.branches) if not is_null(each.type)]
        inside = [self._member(branch, rows, each.type) for branch, each in zip(members, target, strict=True)]
        is_null_here = ~np.isin(rows.taken(self.chosen), members)
        if rows.is_null is not None:
            is_null_here |= rows.is_null
        return pa.StructArray.from_arrays(inside, fields=list(target), mask=pa.array(is_null_here))

    def _member(self, branch: int, rows: Rows, target: pa.DataType) -> pa.Array:
        return self.steps[branch].column(self._there[branch].rows(rows), target)


@dataclass
class _List(_Step):
    """Lists; ``owners`` holds, for each item, the index of the list that it belongs to."""

    item: _Step
    owners: list[np.ndarray] = field(default_factory=list)
    read: int = 0

    def take(self, lanes: Lanes) -> None:
        going = np.arange(len(lanes))
        for block in count():
            blocks = lanes.of(going)
            items = self._block_of(blocks)
            if isinstance(self.item, _Number | _Piece):
                self.owners.append(self.read + np.repeat(going, self.item.take_many(blocks, items)))
            else:
                self._take_items(blocks, items, self.read + going)
            lanes.put(going, blocks)
            going = going[(items > 0) & blocks.is_sure]
            if not len(going) or (block and _left_alone(lanes, going)):
                break
        self.read += len(lanes)

    def _take_items(self, lanes: Lanes, counts: np.ndarray, owners: np.ndarray) -> None:
        for number in range(int(counts.max(initial=0))):
            having = np.flatnonzero((counts > number) & lanes.is_sure)
            if not len(having) or (number and _left_alone(lanes, having)):
                break
            some = lanes.of(having)
            self.item.take(some)
            some.doubt(some.at > some.end)
            lanes.put(having, some)
            self.owners.append(owners[having])

    @staticmethod
    def _block_of(lanes: Lanes) -> np.ndarray:
        """Read the number of items that follow; mark a lane if the number exceeds its bytes."""
        numbers = lanes.longs()
        with_size = np.flatnonzero(numbers < 0)
        if len(with_size):
            some = lanes.of(with_size)
            some.longs()  # the block's bytes, for those who pass over it
            lanes.put(with_size, some)
        left = lanes.end - lanes.at
        lanes.doubt((numbers > left) | (numbers < -left))
        return np.where(lanes.is_sure, np.abs(numbers), 0)

    def column(self, rows: Rows, target: pa.DataType) -> pa.Array:
        offsets, inside = rows.items(self.owners, self.read)
        items = self.item.column(inside, target.value_type)
        return pa.ListArray.from_arrays(offsets, items, type=target, mask=rows.nulls)


def _left_alone(lanes: Lanes, rows: np.ndarray) -> bool:
    """True if too few lanes are left to go on in parallel; they are marked for the one-by-one reader."""
    if len(rows) >= _FEWEST_LANES:
        return False
    lanes.is_sure[rows] = False
    return True


class _Map(_List):
    def __init__(self, value: _Step) -> None:
        self.key = _Text(Leaf(Kind.STRING, "string"))
        self.value = value
        super().__init__(_Record(Record(()), (self.key, value)))

    def column(self, rows: Rows, target: pa.DataType) -> pa.Array:
        offsets, inside = rows.items(self.owners, self.read)
        keys = self.key.column(inside, target.key_type)
        inside.doubt_repeated(keys, offsets)
        items = self.value.column(inside, target.item_type)
        keys = keys.fill_null("")  # of a row in doubt
        return pa.MapArray.from_arrays(offsets, keys, items, type=target, mask=rows.nulls)


# Values without others inside, which lanes have passed over, as columns of the table's types.
#
# Each takes what it was told where its values are, and which of them the rows are; a row whose value no
# column can hold is put in doubt.


_INT_BITS, _LONG_BYTES = 32, 8
_UUID_BYTES = 16
_DASHES = np.array([8, 13, 18, 23])
_DIGITS = np.array([at for at in range(36) if at not in _DASHES])
_NO_DIGIT = 255
_HEX = np.full(256, _NO_DIGIT, np.uint8)
for _digit in b"0123456789abcdefABCDEF":
    _HEX[_digit] = int(chr(_digit), 16)


def _number_column(leaf: Leaf, numbers: np.ndarray, rows: Rows, target: pa.DataType) -> pa.Array:
    """Return a column of a type that is written as an integer."""
    if leaf.as_text:
        return rows.looked_at(rows.array(numbers), TEXTS[leaf.kind], target)
    unit = 1
    match leaf.kind:
        case Kind.LONG:
            return rows.array(numbers)
        case Kind.ENUM:
            at = rows.within(numbers, 0, len(leaf.symbols) - 1)
            return pa.array(leaf.symbols, pa.string()).take(rows.array(at))
        case Kind.TIME_MILLIS | Kind.TIMESTAMP_MILLIS | Kind.LOCAL_MILLIS:
            unit = 1000
        case Kind.TIMESTAMP_NANOS | Kind.LOCAL_NANOS:
            rows.doubt(numbers % 1000 != 0)
            numbers = numbers // 1000
    held = rows.within(numbers, *bounds(target, unit))
    stored = held.astype(np.int32) if target.bit_width == _INT_BITS else held
    return rows.array(stored if unit == 1 else stored * unit).cast(target)


def _piece_column(  # noqa: PLR0911  (a line for each kind)
    leaf: Leaf, begins: np.ndarray, sizes: np.ndarray, rows: Rows, target: pa.DataType
) -> pa.Array:
    """Return a column of a type that is written as bytes, starting at ``begins``."""
    match leaf.kind:
        case Kind.BOOLEAN:
            numbers = np.frombuffer(rows.data, np.uint8)[begins]
            return rows.array(rows.within(numbers, 0, 1) == 1)
        case Kind.DOUBLE:
            return rows.array(words_at(rows.data, begins).view(np.float64))
        case Kind.FLOAT:
            return rows.array(words_at(rows.data, begins).astype(np.uint32).view(np.float32))
        case Kind.DURATION:
            return _durations(begins, rows, target)
        case Kind.DECIMAL if leaf.precision <= MOST_DIGITS and sizes.max(initial=0) <= _LONG_BYTES:
            return _decimals(leaf, begins, sizes, rows)
        case Kind.STRING:
            return rows.texts(begins, begins + sizes)
    pieces = binary_column(rows.data, begins, begins + sizes, rows.is_null)
    match leaf.kind:
        case Kind.UUID if leaf.base == "string":
            return _uuids(begins, sizes, rows, target)
        case Kind.DECIMAL:
            return rows.looked_at(pieces, lambda item: CONVERSIONS[leaf.kind](item, leaf), target)
    return pieces.cast(pa.binary(_UUID_BYTES)).cast(target) if leaf.kind is Kind.UUID else pieces.cast(target)


def _durations(begins: np.ndarray, rows: Rows, target: pa.DataType) -> pa.Array:
    words = [words_at(rows.data, begins + 4 * part) for part in range(3)]
    parts = [rows.array(each.astype(np.uint32).astype(np.int64)) for each in words]
    return pa.StructArray.from_arrays(parts[: len(DURATION)], fields=list(target), mask=rows.nulls)


def _decimals(leaf: Leaf, begins: np.ndarray, sizes: np.ndarray, rows: Rows) -> pa.Array:
    """Return decimals of up to eight bytes."""
    words = words_at(rows.data, begins).byteswap().view(np.int64)
    numbers = np.where(sizes == 0, 0, words >> (64 - 8 * np.maximum(sizes, 1)))
    numbers = rows.within(numbers, 1 - 10**leaf.precision, 10**leaf.precision - 1)
    return rows.decimals(numbers, numbers >> 63, pa.decimal128(leaf.precision, leaf.scale))


def _uuids(begins: np.ndarray, sizes: np.ndarray, rows: Rows, target: pa.DataType) -> pa.Array:
    """Return UUIDs written as text of 36 characters."""
    whole = sizes == len(_DASHES) + len(_DIGITS)
    text = np.frombuffer(rows.data, np.uint8)[np.where(whole, begins, 0)[:, None] + np.arange(36)]
    digits = _HEX[text[:, _DIGITS]]
    is_uuid = whole & (text[:, _DASHES] == ord("-")).all(1) & (digits != _NO_DIGIT).all(1)
    rows.doubt(~is_uuid if rows.is_null is None else ~is_uuid & ~rows.is_null)
    both = np.ascontiguousarray(digits[:, 0::2] << 4 | digits[:, 1::2])
    return rows.fixed(both, pa.binary(_UUID_BYTES)).cast(target)
