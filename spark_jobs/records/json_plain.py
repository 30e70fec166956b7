"""JSON read a second time, for ``audit`` alone: by Python's own reader, numbers as they are written.

It shares nothing with the way of a drain, else an audit would repeat a drain's mistakes. It may be laxer:
only records that became rows are asked about, and of these it says what the row must hold.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Context, Decimal, Inexact, InvalidOperation
from math import nan
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NoReturn

import pyarrow as pa

from spark_jobs.records.decoder import PlainRows
from spark_jobs.schema.arrow_schema import column_of
from spark_jobs.schema.metadata_columns import HEADERS, KEY, METADATA_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from spark_jobs.kafka.chunks import Chunk

    Read = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class PlainJsonDecoder:
    """JSON objects as values; a double column holds a fraction's nearest double, and integers exactly."""

    def decode(self, records: Chunk, columns: pa.Schema) -> PlainRows:
        """See ``PlainDecoder``."""
        more: set[bool] = set()
        read = _struct((c for c in columns if c.name not in METADATA_COLUMNS), more)
        is_text = columns.field(KEY).type != pa.binary()
        rows: dict[int, dict[str, Any]] = {}
        has_more = []
        for index, value in enumerate(records.values):
            key, headers = records.keys[index], records.headers[index]
            more.clear()
            try:
                row = read(_READER.decode((value or b"").decode()))
                row[KEY] = key.decode() if is_text and key is not None else key
            except _UNREADABLE:
                continue
            row[HEADERS] = None if headers is None else [{"key": n, "value": each} for n, each in headers]
            rows[index] = row
            if more:
                has_more.append(index)
        try:
            return PlainRows(_table(rows.values(), columns), list(rows), has_more)
        except _UNREADABLE:
            rows = {index: row for index, row in rows.items() if _is_storable(row, columns)}
            return PlainRows(_table(rows.values(), columns), list(rows), has_more)


def _table(rows: Iterable[dict[str, Any]], columns: pa.Schema) -> pa.Table:
    rows = list(rows)
    arrays = [column_of(list(map(itemgetter(column.name), rows)), column.type) for column in columns]
    return pa.Table.from_arrays(arrays, schema=columns)


def _is_storable(row: dict[str, Any], columns: pa.Schema) -> bool:
    try:
        _table([row], columns)
    except _UNREADABLE:
        return False
    return True


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    parsed = dict(pairs)
    if len(parsed) != len(pairs):
        raise ValueError("a key is there twice")
    return parsed


def _refuse(text: str) -> NoReturn:
    raise ValueError(text)


# Python makes no integer of some thousand digits; a record with one fits no column and is no row.
_READER = json.JSONDecoder(object_pairs_hook=_pairs, parse_float=Decimal, parse_constant=_refuse)
_UNREADABLE = (ValueError, TypeError, ArithmeticError, RecursionError, pa.ArrowException)


def _read(kind: pa.DataType, more: set[bool]) -> Read:
    """Return what makes of a parsed value, not null, what Arrow is to store for it."""
    if pa.types.is_struct(kind):
        return _struct(kind, more)
    if pa.types.is_map(kind):
        item = _or_null(_read(kind.item_type, more))
        return lambda value: [(key, item(each)) for key, each in _of(dict, value).items()]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        element = _or_null(_read(kind.value_type, more))
        return lambda value: [element(each) for each in _of(list, value)]
    if pa.types.is_decimal(kind):
        unit = Decimal(1).scaleb(-kind.scale)
        # Arrow dies of exponents of some million digits.
        exact = Context(prec=kind.precision, traps=[Inexact, InvalidOperation])
        return lambda value: Decimal(value).quantize(unit, context=exact)
    return next(read for is_kind, read in _SCALARS if is_kind(kind))


def _struct(fields: Iterable[pa.Field], more: set[bool]) -> Read:
    """Return what reads an object; ``more`` gets True where it says what no field holds."""
    reads = {field.name: _read(field.type, more) for field in fields}

    def read(value: Any) -> dict[str, Any]:
        if not _of(dict, value).keys() <= reads.keys():
            more.update(True for name in value.keys() - reads.keys() if _says_something(value[name]))
        return {
            name: None if (item := value.get(name)) is None else read_it(item)
            for name, read_it in reads.items()
        }

    return read


def _or_null(read: Read) -> Read:
    return lambda value: None if value is None else read(value)


def _of(kind: type, value: Any) -> Any:
    if type(value) is not kind:
        raise TypeError(kind)
    return value


def _says_something(value: Any) -> bool:
    if isinstance(value, dict | list):
        return any(map(_says_something, value.values() if isinstance(value, dict) else value))
    return value is not None


def _integer(value: Any) -> Any:
    return value if type(value) is int else _of(int, value)


def _number(value: Any) -> float:
    if type(value) is Decimal or float(_of(int, value)) == value:
        return float(value)
    return nan  # no double is this integer, so whatever a row holds differs


def _single(value: Any) -> float:
    # Arrow's own cast rounds the text once; by way of a double it would be rounded twice.
    single = pa.scalar(str(value)).cast(pa.float32()).as_py()
    return single if type(value) is Decimal or single == value else nan


def _text(value: Any) -> Any:
    return value if type(value) is str else _of(str, value)


def _moment(value: Any) -> datetime:
    moment = datetime.fromisoformat(value)
    return moment.astimezone(UTC) if moment.tzinfo else moment


_SCALARS: tuple[tuple[Callable[[pa.DataType], bool], Read], ...] = (
    (pa.types.is_integer, _integer),
    (pa.types.is_float32, _single),
    (pa.types.is_float64, _number),
    (pa.types.is_boolean, lambda value: _of(bool, value)),
    (pa.types.is_string, _text),
    (pa.types.is_large_string, _text),
    (pa.types.is_timestamp, _moment),
    (pa.types.is_date32, date.fromisoformat),
    (pa.types.is_time64, time.fromisoformat),
    (lambda kind: kind == pa.uuid(), lambda value: uuid.UUID(_text(value)).bytes),
    (lambda _: True, lambda value: _text(value).encode()),
)
