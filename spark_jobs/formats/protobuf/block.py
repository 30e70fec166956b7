"""Reads many Protobuf values at once: each field of the message is looked up in all of them, by NumPy.

Fields are looked for in the order of their numbers, in which all serializers write them, each once. A value
in which they are so, each as its own bytes allow, up to its end, is believed. Any other is in doubt and read
by itself: one that says a field twice or in another order, has unknown fields, a message inside itself or
free JSON, two members of a oneof; and the few that go on in a long list when the others have ended.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from spark_jobs.formats.lanes.lanes import Lanes, Presence, Rows, Take, signed
from spark_jobs.formats.lanes.packed_values import binary_column, words_at
from spark_jobs.formats.protobuf.columns import leaf_column, moment_column
from spark_jobs.formats.protobuf.types import Field, Kind, Leaf, Message, Type, Written
from spark_jobs.formats.tree import Array, Map, Record

# So many values take as long read by themselves.
FEWEST_VALUES = 30
_FEWEST_LANES = 16
_NUMBER, _FIXED_64, _BYTES, _FIXED_32 = 0, 1, 2, 5
_SIZES = {Written.FIXED_32: 4, Written.FIXED_64: 8}
_ALONE = frozenset({Kind.JSON, Kind.AGAIN})  # their text is made by the plain reader
_PARTS = ((1, "seconds"), (2, "nanos"))
_MOMENTS = frozenset({Kind.TIMESTAMP, Kind.DURATION})


def taker(root: Message) -> Take:
    """Return the reader of a message's values, for a ``BlockReader``."""

    def take(lanes: Lanes) -> Callable[[Rows, pa.Schema], list[pa.Array]]:
        message = _Message(root.fields)
        message.take_all(lanes)
        return message.columns

    return take


class _Step(ABC):
    """A field's type and its values read so far, in reading order."""

    wire: int
    read: list[np.ndarray]  # of numbers

    @abstractmethod
    def take(self, lanes: Lanes) -> None:
        """Read one more value of each lane, which is positioned after the field's number."""

    def take_until(self, lanes: Lanes, ends: np.ndarray) -> np.ndarray:
        """Read values of each lane up to these positions, and return the number read."""
        raise NotImplementedError  # only numbers stand packed

    @abstractmethod
    def column(self, rows: Rows, shown: Rows, target: pa.DataType) -> pa.Array:
        """Return some of the values as a column, with the default for null if ``shown`` is false."""


def _step(kind: Type) -> _Step:  # noqa: PLR0911  (a line for each type)
    match kind:
        case Record(fields):
            return _Inside(fields)
        case Leaf() if kind.kind in _ALONE:
            return _Alone()
        case Leaf() if kind.kind in _MOMENTS:
            return _Moment(kind)
        case Leaf(Kind.EMPTY):
            return _Inside(())
        case Leaf() if kind.is_wrapped:
            return _Wrapped(kind)
        case Leaf(_, Written.NUMBER | Written.ZIGZAG):
            return _Number(kind)
        case Leaf(_, Written.FIXED_32 | Written.FIXED_64):
            return _Fixed(kind)
        case Leaf():
            return _Bytes(kind)
    raise TypeError(f"{kind} is a field's, not a value's")


class _Message:
    """A message; fields are in the order of their numbers, columns in declaration order."""

    def __init__(self, fields: Sequence[Field]) -> None:
        self.declared = [_field(each) for each in fields]
        self._ordered = sorted(self.declared, key=lambda each: each.what.number)
        self._has_oneofs = any(each.what.oneof for each in self.declared)

    def take_all(self, lanes: Lanes) -> None:
        """Read each lane to its end."""
        present: defaultdict[str | None, np.ndarray] = defaultdict(lambda: np.zeros(len(lanes), bool))
        for each in self._ordered:
            is_here = each.take(lanes)
            if self._has_oneofs and (oneof := each.what.oneof) is not None:
                lanes.doubt(present[oneof] & is_here)
                present[oneof] |= is_here
        lanes.finish()

    def columns(self, rows: Rows, targets: Any) -> list[pa.Array]:
        """Return the message's fields as columns."""
        return [each.column(rows, target.type) for each, target in zip(self.declared, targets, strict=True)]


def _field(each: Field) -> _One | _Many:
    match each.type:
        case Array(element):
            return _Many(each, _step(element))
        case Map(value, key):
            parts = (Field("key", key, number=1), Field("value", value, number=2))
            return _Mapping(each, _Inside(parts))
    return _One(each, _step(each.type))


def _marked(number: int, wire: int) -> bytes:
    """Return the tag bytes that precede a field's value."""
    rest, written = number << 3 | wire, bytearray()
    while rest > 0x7F:  # noqa: PLR2004
        written.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes((*written, rest))


@dataclass
class _One:
    """A field with one value."""

    what: Field
    step: _Step

    def __post_init__(self) -> None:
        self._mark = _marked(self.what.number, self.step.wire)
        self._there = Presence()

    def take(self, lanes: Lanes) -> np.ndarray:
        """Read the field in the lanes that continue with it, and return those lanes."""
        is_here = lanes.begin_with(self._mark)
        self._there.take(lanes, is_here, self._take)
        return is_here

    def _take(self, lanes: Lanes) -> None:
        lanes.skip(len(self._mark))
        self.step.take(lanes)

    def column(self, rows: Rows, target: pa.DataType) -> pa.Array:
        inner = self._there.rows(rows)
        return self.step.column(inner, inner if self.what.has_presence else rows, target)

    def numbers(self, rows: Rows) -> np.ndarray:
        """Return a number field's values, zero where it is absent."""
        return self._there.rows(rows).taken(self.step.read).view(np.int64)


@dataclass
class _Many:
    """A repeated field; ``owners`` holds, for each value, the index of its message."""

    what: Field
    step: _Step
    owners: list[np.ndarray] = field(default_factory=list)
    read: int = 0

    def __post_init__(self) -> None:
        self._mark = _marked(self.what.number, self.step.wire)
        self._packed = _marked(self.what.number, _BYTES) if self.step.wire != _BYTES else None

    def take(self, lanes: Lanes) -> np.ndarray:
        """Read the values in the lanes that continue with them."""
        if self._packed is not None:
            self._take_packed(lanes, lanes.begin_with(self._packed))
        going = np.flatnonzero(lanes.begin_with(self._mark) & lanes.is_sure)
        turn = 0
        while len(going):
            if turn and len(going) < _FEWEST_LANES:
                lanes.is_sure[going] = False
                break
            some = lanes.of(going)
            some.skip(len(self._mark))
            self.step.take(some)
            self.owners.append(self.read + going)
            lanes.put(going, some)
            going = going[some.begin_with(self._mark) & some.is_sure]
            turn += 1
        self.read += len(lanes)
        return np.zeros(len(lanes), bool)

    def _take_packed(self, lanes: Lanes, is_here: np.ndarray) -> None:
        here = np.flatnonzero(is_here)
        if not len(here):
            return
        some = lanes.of(here)
        some.skip(len(self._packed or b""))
        sizes = some.numbers().view(np.int64)
        begins = some.pieces(sizes)
        ends = some.at
        some.at = begins
        self.owners.append(self.read + np.repeat(here, self.step.take_until(some, ends)))
        lanes.put(here, some)

    def column(self, rows: Rows, target: pa.DataType) -> pa.Array:
        offsets, inside = rows.items(self.owners, self.read)
        values = self.step.column(inside, inside, target.value_type)
        return pa.ListArray.from_arrays(offsets, values, type=target, mask=rows.nulls)


class _Mapping(_Many):
    def __init__(self, what: Field, step: _Inside) -> None:
        super().__init__(what, step)
        self._entry = step.message

    def column(self, rows: Rows, target: pa.DataType) -> pa.Array:
        offsets, inside = rows.items(self.owners, self.read)
        keys, values = self._entry.columns(inside, (target.key_field, target.item_field))
        inside.doubt_repeated(keys, offsets)
        if values.null_count:
            inside.doubt(values.is_null().to_numpy(zero_copy_only=False))  # an entry without a message
        if keys.null_count:
            keys = keys.fill_null("")  # of a row in doubt
        return pa.MapArray.from_arrays(offsets, keys, values, type=target, mask=rows.nulls)


class _Alone(_Step):
    wire = _BYTES

    def take(self, lanes: Lanes) -> None:
        """Mark the value for the one-by-one reader."""
        lanes.doubt(np.ones(len(lanes), bool))

    def column(self, rows: Rows, shown: Rows, target: pa.DataType) -> pa.Array:  # noqa: ARG002
        return pa.nulls(len(rows.values), target)


class _Number(_Step):
    wire = _NUMBER

    def __init__(self, leaf: Leaf) -> None:
        self._leaf = leaf
        self.read = []

    def take(self, lanes: Lanes) -> None:
        self.read.append(lanes.numbers())

    def take_until(self, lanes: Lanes, ends: np.ndarray) -> np.ndarray:
        numbers, counts = lanes.numbers_until(ends)
        self.read.append(numbers)
        return counts

    def column(self, rows: Rows, shown: Rows, target: pa.DataType) -> pa.Array:
        numbers = rows.taken(self.read).view(np.uint64)
        if self._leaf.written is Written.ZIGZAG:
            numbers = signed(numbers).view(np.uint64)
        return leaf_column(self._leaf, numbers, shown, target)


class _Fixed(_Step):
    def __init__(self, leaf: Leaf) -> None:
        self._leaf = leaf
        self._size = _SIZES[leaf.written]
        self.wire = _FIXED_32 if leaf.written is Written.FIXED_32 else _FIXED_64
        self._begins: list[np.ndarray] = []

    def take(self, lanes: Lanes) -> None:
        self._begins.append(lanes.pieces(self._size))

    def take_until(self, lanes: Lanes, ends: np.ndarray) -> np.ndarray:
        begins, counts = lanes.many_pieces((ends - lanes.at) // self._size, self._size)
        self._begins.append(begins)
        lanes.doubt(lanes.at != ends)
        return counts

    def column(self, rows: Rows, shown: Rows, target: pa.DataType) -> pa.Array:
        words = words_at(rows.data, rows.taken(self._begins))
        if rows.is_null is not None:
            words[rows.is_null] = 0
        if self._size < words.itemsize:
            narrow = words.astype(np.uint32)
            is_signed = self._leaf.kind is Kind.INT
            words = narrow.view(np.int32).astype(np.int64).view(np.uint64) if is_signed else narrow
        return leaf_column(self._leaf, words, shown, target)


class _Bytes(_Step):
    wire = _BYTES

    def __init__(self, leaf: Leaf) -> None:
        self._leaf = leaf
        self._begins: list[np.ndarray] = []
        self._sizes: list[np.ndarray] = []

    def take(self, lanes: Lanes) -> None:
        self._sizes.append(lanes.numbers().view(np.int64))
        self._begins.append(lanes.pieces(self._sizes[-1]))

    def column(self, rows: Rows, shown: Rows, target: pa.DataType) -> pa.Array:
        begins = rows.taken(self._begins)
        ends = begins + rows.taken(self._sizes)
        if self._leaf.kind is Kind.STRING:
            return shown.texts(begins, ends)
        return binary_column(rows.data, begins, ends, shown.is_null).cast(target)


class _Inside(_Step):
    """A nested message."""

    wire = _BYTES

    def __init__(self, fields: Sequence[Field]) -> None:
        self.message = _Message(fields)
        self._is_empty = not fields

    def take(self, lanes: Lanes) -> None:
        begins = lanes.pieces(lanes.numbers().view(np.int64))
        ends, end = lanes.at, lanes.end
        lanes.at, lanes.end = begins, ends
        self.message.take_all(lanes)
        lanes.at, lanes.end = ends, end

    def column(self, rows: Rows, shown: Rows, target: pa.DataType) -> pa.Array:
        if self._is_empty:
            return shown.array(np.ones(len(shown.values), bool))
        inside = self.message.columns(rows, list(target))
        return pa.StructArray.from_arrays(inside, fields=list(target), mask=rows.nulls)


class _Wrapped(_Inside):
    """A wrapper message, equivalent to its one value."""

    def __init__(self, leaf: Leaf) -> None:
        super().__init__([Field("value", replace(leaf, is_wrapped=False), number=1)])

    def column(self, rows: Rows, shown: Rows, target: pa.DataType) -> pa.Array:  # noqa: ARG002
        (converted,) = self.message.columns(rows, [pa.field("value", target)])
        return converted


class _Moment(_Inside):
    """A timestamp or duration: seconds and nanoseconds."""

    def __init__(self, leaf: Leaf) -> None:
        self._leaf = leaf
        number = Leaf(Kind.LONG, Written.NUMBER)
        super().__init__([Field(name, number, number=at) for at, name in _PARTS])

    def column(self, rows: Rows, shown: Rows, target: pa.DataType) -> pa.Array:
        seconds, nanos = (each.numbers(rows) for each in self.message.declared if isinstance(each, _One))
        return moment_column(seconds, nanos, shown, target, self._leaf)
