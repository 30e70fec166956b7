"""What a column holds of a value that its schema has in another type, for ``audit`` alone.

It shares nothing with ``conversion``, by which drains and ``retype`` decide the same.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date, datetime, time
from decimal import Context, Decimal, Inexact, InvalidOperation
from math import isfinite
from typing import Any

import pyarrow as pa

from spark_jobs.records.json_plain import read_scalar

_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,39})")
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?")
_NUMBER = re.compile(rf"{_INTEGER.pattern}(?:\.[0-9]{{1,40}})?(?:[eE][+-]?[0-9]{{1,3}})?")


def in_column(item: Any, kind: pa.DataType) -> Any:
    """Return the value as Arrow is to store it.

    Raises ``ValueError``, ``TypeError`` or ``ArithmeticError`` where the type cannot say the same.
    """
    if item is None or not pa.types.is_nested(kind):
        return None if item is None else _scalar(item, kind)
    if pa.types.is_struct(kind):
        return {field.name: in_column(_of(Mapping, item).get(field.name), field.type) for field in kind}
    if pa.types.is_list(kind):
        return [in_column(each, kind.value_type) for each in _of(list, item)]
    entries = item.items() if isinstance(item, Mapping) else _of(list, item)
    return [(in_column(key, kind.key_type), in_column(each, kind.item_type)) for key, each in entries]


def _scalar(item: Any, kind: pa.DataType) -> Any:
    if pa.types.is_boolean(kind):
        return _of(bool, item)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return _number(item, kind)
    if pa.types.is_string(kind):
        return _text(item)
    return read_scalar(kind)(item) if isinstance(item, str) else _of(bytes | date | time, item)


def _of(kind: Any, item: Any) -> Any:
    if not isinstance(item, kind):
        raise TypeError(kind)
    return item


def _number(item: Any, kind: pa.DataType) -> Any:
    if isinstance(item, bool):
        raise TypeError(item)
    if pa.types.is_decimal(kind):
        exact = Context(prec=kind.precision, traps=[Inexact, InvalidOperation])
        unit = Decimal(1).scaleb(-kind.scale)
        return Decimal(_matching(_DECIMAL, _literal(item))).quantize(unit, context=exact)
    if isinstance(item, float) and pa.types.is_floating(kind):
        return item
    number = _matching(_NUMBER, _literal(item))
    if isinstance(number, str):
        number = int(number) if _INTEGER.fullmatch(number) else Decimal(number)
    if pa.types.is_integer(kind):
        return _of(int, number)
    # Arrow's own cast rounds the text once; by way of a double it would be rounded twice.
    is_single = pa.types.is_float32(kind)
    near = pa.scalar(str(number)).cast(pa.float32()).as_py() if is_single else float(number)
    if not isfinite(near) or (isinstance(number, int) and near != number):
        raise ValueError(number)
    return near


def _literal(item: Any) -> Any:
    """Return a number as an integer, where it is whole, or a decimal; a text as it is."""
    if isinstance(item, float):
        return int(item) if item == int(item) else Decimal(repr(item))
    return int(item) if isinstance(item, Decimal) and item == int(item) else _of(int | Decimal | str, item)


def _matching(pattern: re.Pattern[str], item: Any) -> Any:
    if isinstance(item, str) and not pattern.fullmatch(item):
        raise ValueError(item)
    return item


def _text(item: Any) -> str:
    if isinstance(item, str):
        return item
    if isinstance(item, bytes):
        return item.decode()
    if isinstance(item, datetime | date | time):
        return item.isoformat()
    if isinstance(item, bool):
        raise TypeError(item)
    return f"{item:f}" if isinstance(item, Decimal) else str(_of(int, item))
