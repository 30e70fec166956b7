"""Values read a second time by their schemas, for ``audit`` alone: one by one, by its plain reader."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Context, Decimal, Inexact, InvalidOperation
from math import isfinite
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from spark_jobs.records.by_schema import framed_values
from spark_jobs.records.decoder import PlainRows
from spark_jobs.records.framing import Encoded
from spark_jobs.records.json_plain import read_scalar
from spark_jobs.schema.arrow_schema import column_of
from spark_jobs.schema.column_source import KnownSchemas
from spark_jobs.schema.metadata_columns import HEADERS, KEY, METADATA_COLUMNS
from spark_jobs.schema.writer_schema import NoRowError, UnreadableValueError

if TYPE_CHECKING:
    from spark_jobs.kafka.chunks import Chunk


@dataclass(frozen=True, slots=True)
class PlainSchemaDecoder:
    """Values by their schemas."""

    schemas: KnownSchemas
    takes_tombstones: ClassVar[bool] = False

    def decode(self, records: Chunk, columns: pa.Schema) -> PlainRows:
        """See ``PlainDecoder``."""
        passed: dict[str, list[int]] = {}
        read = self.read(Encoded.values(records), passed)
        of_values = [column for column in columns if column.name not in METADATA_COLUMNS]
        items: dict[int, dict[str, Any]] = {}
        for index in sorted(read):
            with suppress(
                ValueError, TypeError, ArithmeticError
            ):  # of no row, or of one that keeps it elsewhere
                row = {
                    column.name: in_column(read[index].get(column.name), column.type) for column in of_values
                }
                row[KEY], row[HEADERS] = records.keys[index], records.headers[index]
                if is_storable(row, columns):
                    items[index] = row
        made = [column_of([row[column.name] for row in items.values()], column.type) for column in columns]
        kinds = {column.name: column.type for column in of_values}
        more = [index for index in items if says_more(read[index], kinds)]
        return PlainRows(pa.Table.from_arrays(made, schema=columns), list(items), more, passed=passed)

    def read(self, encoded: Encoded, passed: dict[str, list[int]]) -> dict[int, Mapping[str, Any]]:
        """Return what can be read, by index; into ``passed`` go those that say nothing of a row, by term."""
        framed = framed_values(encoded, self.schemas)
        read = {}
        for key, indices in framed.indices.items():
            schema = self.schemas.by_key.get(key)
            for index, value in zip(indices.tolist(), framed.values[key], strict=True):
                if schema is not None:
                    try:
                        read[index] = schema.read_plain(value)
                    except NoRowError as error:
                        passed.setdefault(str(error), []).append(index)
                    except UnreadableValueError:
                        continue  # no row is made of it, and if there is one it has no basis
        return read


def is_storable(row: Mapping[str, Any], columns: pa.Schema) -> bool:
    """True if each column holds what is under its name."""
    try:
        for column in columns:
            column_of([row.get(column.name)], column.type)
    except (pa.ArrowInvalid, pa.ArrowTypeError, UnicodeDecodeError, OverflowError):
        return False
    return True


def says_more(value: Mapping[str, Any], kinds: Mapping[str, pa.DataType]) -> bool:
    """True if a field without a column, at any depth, holds something."""
    return any(
        _says_something(item) if name not in kinds else _has_more_inside(item, kinds[name])
        for name, item in value.items()
    )


def _has_more_inside(item: Any, kind: pa.DataType) -> bool:
    if item is None:
        return False
    if pa.types.is_struct(kind):
        return says_more(item, {field.name: field.type for field in kind})
    if pa.types.is_list(kind):
        return any(_has_more_inside(each, kind.value_type) for each in item)
    if pa.types.is_map(kind):
        entries: Sequence[tuple[Any, Any]] = list(item.items() if isinstance(item, Mapping) else item)
        return any(_has_more_inside(each, kind.item_type) for _key, each in entries)
    return False


def _says_something(item: Any) -> bool:
    if isinstance(item, Mapping):
        return any(map(_says_something, item.values()))
    return item is not None and item not in ([], ())


# What a column holds of a value that its schema has in another type, for ``audit`` alone.
#
# It shares nothing with ``conversion``, by which drains and ``retype`` decide the same.


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
