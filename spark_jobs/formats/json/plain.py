"""Independent JSON reader for ``audit`` only: orjson, and Python's reader where digits matter.

It shares nothing with the way of a drain, else an audit would repeat a drain's mistakes. It may be laxer:
only records that became rows are asked about, and of these it says what the row must hold.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any, Self

import orjson
import pyarrow as pa

from spark_jobs.formats.json.nesting import is_too_deep
from spark_jobs.values.plain import NO_VALUE, Read, decimals, nearest, of, refuse, scalar, stored


def read_rows(
    values: Sequence[bytes], columns: pa.Schema, fields: Mapping[str, str], elsewhere: frozenset[str]
) -> tuple[pa.Table, list[int], list[int], Mapping[tuple[str, str], list[int]]]:
    """Return the expected rows, their value indices, the ones with more fields, and the rounded ones.

    A column is of the field named. Fields ``elsewhere`` are said in no row of it, and need not be.
    """
    reading = _Reading(values, needs_digits=any(_needs_digits(column.type) for column in columns))
    of_columns = {name: fields.get(name, name) for name in columns.names}
    reading.look_for_more(elsewhere.union(of_columns.values()))
    items = {column.name: reading.column(column, of_columns[column.name]) for column in columns}
    rows = [index for index in range(len(values)) if index not in reading.unreadable]
    table, rows = stored(items, rows, columns)
    return table, rows, sorted(reading.has_more.intersection(rows)), reading.rounded


class _Reading:
    """Values read column by column: at once if all have Arrow's types, else one by one.

    What could be no row is ``unreadable``, what says more than its row holds in ``has_more``, by index.
    """

    def __init__(self, values: Sequence[bytes | None], *, needs_digits: bool) -> None:
        self.unreadable: set[int] = set()
        self.has_more: set[int] = set()
        self.rounded: dict[tuple[str, str], list[int]] = defaultdict(list)
        self._values = values
        self._objects = [_if_readable(_exactly if needs_digits else _object, value) for value in values]

    def look_for_more(self, names: frozenset[str]) -> None:
        """Note records with other non-null fields; skip records without any."""
        for index, record in enumerate(self._objects):
            if record is None:
                self.unreadable.add(index)
            elif not record.keys() <= names and any(
                says_something(record[name]) for name in record.keys() - names
            ):
                self.has_more.add(index)

    def column(self, column: pa.Field, name: str) -> list[Any]:
        """Return the field's expected column, and note the values that it cannot hold."""
        items = [None if record is None else record.get(name) for record in self._objects]
        if _are_stored_as_they_are(items, column.type):
            return items
        beside = Excess()
        read = read_of(column.type, beside, (column.name,))
        for index, item in enumerate(items):
            if item is not None:
                beside.has_more = False
                beside.rounded.clear()
                try:
                    items[index] = self._read_twice(read, index, name, item)
                except UNREADABLE:
                    self.unreadable.add(index)
                    items[index] = None
                if beside.has_more:
                    self.has_more.add(index)
                for rounded in beside.rounded:
                    self.rounded[rounded].append(index)
        return items

    def _read_twice(self, read: Read, index: int, name: str, item: Any) -> Any:
        try:
            return read(item)
        except _DigitsNeededError:
            return read(_exactly(self._values[index] or b"")[name])


@dataclass(slots=True)
class Excess:
    """The parts of a value that its row cannot hold: fields without a column, and exact large integers.

    ``rounded`` are the columns that hold only the nearest double, each with the type that would hold all.
    """

    has_more: bool = False
    rounded: set[tuple[str, str]] = field(default_factory=set)


def _are_stored_as_they_are(items: Sequence[Any], kind: pa.DataType) -> bool:
    kinds = set(map(type, items)) - {type(None)}
    if pa.types.is_float64(kind) and kinds == {float}:
        numbers = [item for item in items if item is not None]
        return bool(min(numbers) >= -_MAX_LONG and max(numbers) <= _MAX_LONG)
    plain = next((python for is_kind, python in _PLAIN if is_kind(kind)), None)
    return plain is not None and kinds <= {plain}


def _if_readable(read: Read, value: bytes | None) -> Any:
    try:
        return None if value is None else read(value)
    except UNREADABLE:
        return None


def _object(value: bytes) -> Any:
    try:
        return of(dict, orjson.loads(value))
    except orjson.JSONDecodeError:
        if is_too_deep(value):
            raise
        # It knows no number past the largest double, and that may be in a field that nobody wants.
        return _exactly(value)


def _exactly(value: bytes) -> Any:
    return of(dict, read_exactly(value))


def read_exactly(value: bytes) -> Any:
    """Return any JSON value with all its digits; raises one of ``UNREADABLE``."""
    return _READER.decode(value.decode())


def _needs_digits(kind: pa.DataType) -> bool:
    """True if a double does not represent the written number."""
    if pa.types.is_nested(kind):
        return any(_needs_digits(kind.field(position).type) for position in range(kind.num_fields))
    return bool(pa.types.is_decimal(kind) or pa.types.is_float32(kind))


class _DigitsNeededError(Exception):
    """A number was read as a double but may have been written as an integer."""


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    parsed = dict(pairs)
    if len(parsed) != len(pairs):
        raise ValueError("a key is there twice")
    return parsed


def _integer(text: str) -> Any:
    return int(text) if len(text) <= _MAX_DIGITS else Decimal(text)


class _Fraction(Decimal):
    """A number with a fraction or exponent, and its text: ``1e2`` and ``1E+2`` are equal."""

    __slots__ = ("text",)
    text: str

    def __new__(cls, text: str) -> Self:
        try:
            made = super().__new__(cls, text)
        except InvalidOperation:  # an exponent past what it knows; doubles have no place for it
            made = super().__new__(cls, float(text))
        made.text = text
        return made


_MAX_DIGITS = 1000  # Python makes no integer of some thousand; no column takes one of so many
_READER = json.JSONDecoder(
    object_pairs_hook=_pairs, parse_float=_Fraction, parse_int=_integer, parse_constant=refuse
)
UNREADABLE = (*NO_VALUE, RecursionError, pa.ArrowException)
_MAX_LONG = 2**63 - 1  # orjson makes a double of an integer of more than 64 bits


def read_of(kind: pa.DataType, beside: Excess, path: tuple[str, ...]) -> Read:
    """Return the converter from a parsed, non-null value to the value that Arrow stores."""
    if pa.types.is_struct(kind):
        return _struct(kind, beside, path)
    if pa.types.is_map(kind):
        item = _or_null(read_of(kind.item_type, beside, (*path, "value")))
        return lambda value: [(key, item(each)) for key, each in of(dict, value).items()]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        element = _or_null(read_of(kind.value_type, beside, (*path, "element")))
        return lambda value: [element(each) for each in of(list, value)]
    if pa.types.is_decimal(kind):
        return decimals(kind)
    if pa.types.is_floating(kind):
        return _floating(kind, beside, ".".join(path))
    return _json_text if kind == pa.json_() else scalar(kind)


def _struct(fields: Iterable[pa.Field], beside: Excess, path: tuple[str, ...]) -> Read:
    """Return the reader of an object."""
    reads = {field.name: read_of(field.type, beside, (*path, field.name)) for field in fields}

    def read(value: Any) -> dict[str, Any]:
        if not of(dict, value).keys() <= reads.keys():
            unknown = (value[name] for name in value.keys() - reads.keys())
            if any(map(says_something, unknown)):
                beside.has_more = True
        return {
            name: None if (item := value.get(name)) is None else read_it(item)
            for name, read_it in reads.items()
        }

    return read


def _or_null(read: Read) -> Read:
    return lambda value: None if value is None else read(value)


def says_something(value: Any) -> bool:
    """True if the value contains anything but null."""
    left = [value]  # without recursion: a thousand levels are read, and more than Python calls
    while left:
        value = left.pop()
        if isinstance(value, dict | list):
            left.extend(value.values() if isinstance(value, dict) else value)
        elif value is not None:
            return True
    return False


def _floating(kind: pa.DataType, beside: Excess, column: str) -> Read:
    def read(value: Any) -> float:
        if type(value) is float:
            if not -_MAX_LONG <= value <= _MAX_LONG:
                raise _DigitsNeededError
            return value
        number = nearest(of(int | Decimal, value), kind)
        if not isinstance(value, Decimal) and number != value:
            beside.rounded.add((column, "long" if -_MAX_LONG <= value <= _MAX_LONG else "decimal(38,0)"))
        return number

    return read


def _json_text(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ",".join(f"{_json_text(name)}:{_json_text(each)}" for name, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(_json_text(each) for each in value) + "]"
    if isinstance(value, Decimal):
        return value.text if isinstance(value, _Fraction) else f"{value:f}"
    return json.dumps(value, ensure_ascii=False)


_PLAIN: tuple[tuple[Callable[[pa.DataType], bool], type], ...] = (
    (pa.types.is_integer, int),
    (pa.types.is_boolean, bool),
    (pa.types.is_string, str),
    (pa.types.is_large_string, str),
)
