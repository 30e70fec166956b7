"""What a record should become, decided slowly and by itself, with nothing but Python's own JSON reader.

A record is a row (a dict) of the columns it is given, or None when it must be a bad value.
"""

from __future__ import annotations

import json
import math
import re
import uuid
from collections import Counter
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction as Exact
from typing import Any

import numpy as np
import pyarrow as pa

TIMESTAMPTZ = pa.timestamp("us", "UTC")
POINT = pa.struct([("x", pa.int64()), ("at", TIMESTAMPTZ), ("names", pa.list_(pa.string()))])
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("ratio", pa.float64()),
        ("ok", pa.bool_()),
        ("name", pa.string()),
        ("at", TIMESTAMPTZ),
        ("point", POINT),
        ("points", pa.list_(POINT)),
        ("matrix", pa.list_(pa.list_(pa.float64()))),
    ]
)
RESERVED = {
    "_kafka_topic",
    "_kafka_partition",
    "_kafka_offset",
    "_kafka_generation",
    "_kafka_timestamp",
    "_kafka_key",
    "_kafka_headers",
    "_ingested_at",
}
_CLOCK = r"(\d\d)(?::(\d\d)(?::(\d\d)(?:\.(\d{1,6})0*)?)?)?"
_TIME = re.compile(rf"(\d{{4}})-(\d\d)-(\d\d)[T ]{_CLOCK}(Z|([+-])(\d\d)(?::?(\d\d))?)", re.ASCII)
_LOCAL = re.compile(rf"(\d{{4}})-(\d\d)-(\d\d)(?:[T ]{_CLOCK})?", re.ASCII)
_DAY = re.compile(r"(\d{4})-(\d\d)-(\d\d)", re.ASCII)
_OF_DAY = re.compile(_CLOCK, re.ASCII)
_DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,4})?", re.ASCII)
_UUID = re.compile("-".join(f"[0-9a-fA-F]{{{size}}}" for size in (8, 4, 4, 4, 12)))


class Bad(Exception):
    """The record is no row."""


class Fraction(str):
    """A number literal with a fraction or exponent."""

    __slots__ = ()


class Integer(str):
    """A number literal without either."""

    __slots__ = ()


def expected_row(value: bytes, schema: pa.Schema = SCHEMA) -> dict[str, Any] | None:
    """Return the row, or None for a bad value; columns are of the types that records' own values lead to."""
    try:
        return _struct(_parse(value), schema)
    except (Bad, ValueError, RecursionError):
        return None


def expected_known(
    value: bytes, schema: pa.Schema, passed: frozenset[str]
) -> tuple[dict[str, Any] | None, Counter[str]]:
    """Return the row where fields without a column are ignored, and how often which of them says something.

    Those that are ``passed`` over are not counted.
    """
    ignored: Counter[str] = Counter()
    try:
        parsed = {name: item for name, item in _parse(value).items() if name not in passed}
        return _struct(_known(parsed, schema, "", ignored), schema), ignored
    except (Bad, ValueError, RecursionError):
        return None, Counter()


def _known(value: Any, kind: Any, path: str, ignored: Counter[str]) -> Any:
    """Return the parts of a value that have a column; note the others."""
    if type(value) is list and pa.types.is_list(kind):
        return [_known(item, kind.value_type, f"{path}element.", ignored) for item in value]
    if type(value) is dict and isinstance(kind, pa.MapType):
        return {key: _known(item, kind.item_type, f"{path}value.", ignored) for key, item in value.items()}
    if type(value) is not dict or not isinstance(kind, pa.Schema | pa.StructType):
        return value
    known = {field.name: field.type for field in kind}
    ignored.update(path + key for key, item in value.items() if key not in known and _means_something(item))
    return {
        key: _known(item, known[key], f"{path}{key}.", ignored) for key, item in value.items() if key in known
    }


def _parse(value: bytes) -> dict[str, Any]:
    text = value.decode("utf-8", "strict")

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({key for key, _ in items}) < len(items):
            raise Bad
        return dict(items)

    def refuse(_: str) -> None:
        raise Bad

    if _depth(text) > 50:
        raise Bad
    parsed = json.loads(
        text, object_pairs_hook=pairs, parse_constant=refuse, parse_float=Fraction, parse_int=Integer
    )
    if not isinstance(parsed, dict):
        raise Bad
    json.dumps(parsed, ensure_ascii=False).encode()  # halves of surrogate pairs have no UTF-8
    return parsed


def _depth(text: str) -> int:
    depth = deepest = 0
    is_string = is_escaped = False
    for character in text:
        if is_string:
            if is_escaped:
                is_escaped = False
            elif character == "\\":
                is_escaped = True
            elif character == '"':
                is_string = False
        elif character == '"':
            is_string = True
        else:
            depth += (character in "[{") - (character in "]}")
            deepest = max(deepest, depth)
    return deepest


def _struct(value: Any, fields: Any) -> dict[str, Any]:
    if type(value) is not dict:
        raise Bad
    known = {field.name: field for field in fields}
    for key, item in value.items():
        if key not in known and _means_something(item):
            raise Bad
    return {name: _item(value.get(name), field) for name, field in known.items()}


def _value(value: Any, kind: pa.DataType) -> Any:
    if value is None:
        return None
    for is_kind, read in _MADE_OF:
        if is_kind(kind):
            return read(value, kind)
    return _SCALARS[kind](value)


def _list(value: Any, kind: pa.DataType) -> list[Any]:
    if type(value) is not list:
        raise Bad
    return [_item(item, kind.value_field) for item in value]


def _map(value: Any, kind: pa.DataType) -> list[tuple[str, Any]]:
    if type(value) is not dict:
        raise Bad
    return [(key, _item(item, kind.item_field)) for key, item in value.items()]


def _item(value: Any, field: pa.Field) -> Any:
    if value is None and not field.nullable:
        raise Bad
    return _value(value, field.type)


def _boolean(value: Any) -> bool:
    if type(value) is not bool:
        raise Bad
    return value


def _text(value: Any) -> str:
    if type(value) is not str:
        raise Bad
    return value


def _bytes(value: Any) -> bytes:
    return _text(value).encode()


def _fixed(value: Any, kind: pa.DataType) -> bytes:
    if len(encoded := _bytes(value)) != kind.byte_width:
        raise Bad
    return encoded


def _uuid(value: Any) -> uuid.UUID:
    if not _UUID.fullmatch(_text(value)):
        raise Bad
    return uuid.UUID(value)


def _long(value: Any, bits: int = 64) -> int:
    if type(value) is not Integer or not -(1 << bits - 1) <= int(value) < 1 << bits - 1:
        raise Bad
    return int(value)


def _decimal(value: Any, kind: pa.DataType) -> Decimal:
    if type(value) not in (Integer, Fraction, str) or not _DECIMAL.fullmatch(value):
        raise Bad
    number = Decimal(str(value))
    sign, digits, exponent = number.as_tuple()
    text = "".join(map(str, digits)).lstrip("0") if number else ""
    whole = text.rstrip("0")
    exponent = int(exponent) + len(text) - len(whole)  # of the last digit that is not zero
    if whole and (exponent < -kind.scale or len(whole) + exponent > kind.precision - kind.scale):
        raise Bad
    return Decimal((sign if whole else 0, tuple(map(int, whole)) or (0,), exponent if whole else 0))


def _double(value: Any) -> float:
    if type(value) not in (Integer, Fraction) or not math.isfinite(float(value)):
        raise Bad
    if type(value) is Integer and int(float(value)) != int(value):
        raise Bad
    return float(value)


def _single(value: Any) -> float:
    double = _double(value)
    with np.errstate(all="ignore"):
        near = np.float32(double)
        around = [np.nextafter(near, np.float32(end)) for end in (-np.inf, np.inf)]
    if abs(double) < _LEAST:  # half of the least single: written out it would fill the memory
        return math.copysign(0.0, double)
    # The nearest of three to the number as it is written, the even one of two: by way of a double it could
    # be rounded twice.
    exact = Exact(str(value))
    found = min(
        (single for single in (near, *around)),
        key=lambda single: (abs(_beyond(single) - exact), _bits(single) & 1),
    )
    if not math.isfinite(found) or (type(value) is Integer and Exact(float(found)) != exact):
        raise Bad
    return float(found)


_LEAST = 2.0**-151


def _beyond(single: np.float32) -> Exact:
    """Return its value; infinity is where the next single would be."""
    return Exact(float(single)) if np.isfinite(single) else Exact(int(math.copysign(1, single)) << 128)


def _bits(single: np.float32) -> int:
    return int(single.view(np.uint32))


def _parts(pattern: re.Pattern[str], value: Any) -> list[int]:
    match = pattern.fullmatch(_text(value))
    if match is None:
        raise Bad
    parts = list(match.groups())
    if len(parts) in (4, 7):
        parts[-1] = (parts[-1] or "").ljust(6, "0")
    return [int(part or 0) for part in parts]


def _local(value: Any) -> datetime:
    return datetime(*_parts(_LOCAL, value))  # noqa: DTZ001  (a column without zone)


def _day(value: Any) -> date:
    return date(*_parts(_DAY, value))


def _of_day(value: Any) -> time:
    if ":" not in _text(value):
        raise Bad
    return time(*_parts(_OF_DAY, value))


def _time(value: Any) -> datetime:
    match = _TIME.fullmatch(value) if type(value) is str else None
    if match is None:
        raise Bad
    year, month, day, hour, minute, second, fraction, _, sign, zone_hours, zone_minutes = match.groups()
    if int(zone_hours or 0) > 23 or int(zone_minutes or 0) > 59:
        raise Bad
    local = datetime(
        int(year), int(month), int(day), int(hour), int(minute or 0), int(second or 0), tzinfo=UTC
    )
    away = timedelta(hours=int(zone_hours or 0), minutes=int(zone_minutes or 0))
    try:
        exact = local + timedelta(microseconds=int((fraction or "0").ljust(6, "0")))
        return exact + away if sign == "-" else exact - away
    except OverflowError:
        raise Bad from None


_SCALARS: dict[pa.DataType, Callable[[Any], Any]] = {
    pa.bool_(): _boolean,
    pa.string(): _text,
    pa.large_string(): _text,
    pa.binary(): _bytes,
    pa.large_binary(): _bytes,
    pa.int64(): _long,
    pa.int32(): lambda value: _long(value, 32),
    pa.float64(): _double,
    pa.float32(): _single,
    pa.timestamp("us"): _local,
    pa.date32(): _day,
    pa.time64("us"): _of_day,
    pa.uuid(): _uuid,
    TIMESTAMPTZ: _time,
}

_MADE_OF: tuple[tuple[Callable[[pa.DataType], bool], Callable[[Any, Any], Any]], ...] = (
    (pa.types.is_struct, _struct),
    (pa.types.is_list, _list),
    (pa.types.is_large_list, _list),
    (pa.types.is_map, _map),
    (pa.types.is_decimal, _decimal),
    (pa.types.is_fixed_size_binary, _fixed),
)


def _means_something(value: Any) -> bool:
    if isinstance(value, dict):
        return any(_means_something(item) for item in value.values())
    if isinstance(value, list):
        return any(_means_something(item) for item in value)
    return value is not None


def is_same(left: Any, right: Any) -> bool:
    """True if two rows are equal to the last bit and the last type."""
    if isinstance(left, float) and isinstance(right, float):
        return left == right and math.copysign(1, left) == math.copysign(1, right)
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(is_same(left[key], right[key]) for key in left)
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(is_same, left, right))
    return type(left) is type(right) and left == right


def has_new_field(value: bytes) -> bool:
    """True if the record, when it is JSON, has a field with a value that a column can be added for."""
    try:
        return _has_new(_parse(value), SCHEMA, RESERVED)
    except (Bad, ValueError, RecursionError):
        return False


def _has_new(value: Any, fields: Any, reserved: set[str]) -> bool:
    if type(value) is not dict:
        return False
    known = {field.name: field.type for field in fields}
    taken = {name.lower() for name in known} | reserved
    for key, item in value.items():
        if key in known:
            kind = known[key]
            items = item if pa.types.is_list(kind) and type(item) is list else [item]
            kind = kind.value_type if pa.types.is_list(kind) else kind
            if pa.types.is_struct(kind) and any(_has_new(inner, kind, set()) for inner in items):
                return True
        elif key and key.lower() not in taken and _means_something(item):
            return True
    return False
