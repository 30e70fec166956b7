"""Tests if a parsed value fits a column, and converts it for Arrow: reference of the fast reader."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from decimal import Context, Decimal, Inexact, InvalidOperation
from functools import partial
from math import isfinite
from typing import Any, TypeAlias

import pyarrow as pa

from spark_jobs.config.columns import GROWTH, Growth, NewFields
from spark_jobs.schema.arrow_schema import fields_of
from spark_jobs.schema.inference import DeclaredType, Field, by_lower_case, name_clash
from spark_jobs.schema.unknown_fields import MOST_ALONE
from spark_jobs.schema.writer_schema import FINER_THAN_COLUMN
from spark_jobs.values.literals import (
    FINER,
    WITHOUT_FINER,
    FractionLiteral,
    HugeIntegerLiteral,
    NearestLiteral,
    is_decimal,
    json_kind,
    json_text,
    nearest_single,
    parse_date,
    parse_local,
    parse_time,
    parse_zoned,
    says_something,
    shortened,
)

Fit: TypeAlias = Callable[[Any], Any]

_PAST_DECIMALS = 10**38


class MisfitError(ValueError):
    """A value that does not fit; ``path`` leads to it. ``is_unknown``: it has no column, and may get one."""

    def __init__(self, message: str, path: tuple[str, ...] = (), *, is_unknown: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.path = path
        self.is_unknown = is_unknown

    def inside(self, name: str) -> MisfitError:
        """Return the error as seen from the enclosing value."""
        return MisfitError(self.message, (name, *self.path), is_unknown=self.is_unknown)


def fit_value(kind: pa.DataType, growth: Growth = GROWTH) -> Fit:
    """Return the converter from a parsed, non-null value to a declared column's value."""
    for known, fit in _FITS:
        if kind == known:
            return fit
    for is_kind, make in _MAKERS:
        if is_kind(kind):
            return make(kind, growth)
    return _unsupported(kind)


def fit_record(
    fields: Iterable[pa.Field],
    growth: Growth,
    elsewhere: Collection[str] = frozenset(),
    *,
    is_top: bool = True,
) -> Fit:
    """Return a function from a parsed record to a row as a dict; it raises ``MisfitError``.

    Fields ``elsewhere`` have no column and need none.
    """
    fits = {field.name: (fit_value(field.type, growth), field.nullable) for field in fields}
    passed = (Field(name, DeclaredType("any")) for name in sorted(elsewhere))
    siblings = by_lower_case((*passed, *fields_of(fields)))

    def fit(value: Any) -> dict[str, Any]:
        unknown = _of(dict, value, "an object").keys() - fits.keys() - elsewhere
        if unknown and not growth.ignores:
            _check_unknown(value, unknown, siblings, growth, is_top=is_top)
        return {
            name: _fit_one(inner, value.get(name), name, nullable) for name, (inner, nullable) in fits.items()
        }

    return fit


def _check_unknown(
    value: dict[str, Any],
    unknown: Collection[str],
    siblings: Mapping[str, str],
    growth: Growth,
    *,
    is_top: bool,
) -> None:
    """Raise ``MisfitError`` for a non-null field without a column, first for one that may get a column."""
    clash: MisfitError | None = None
    for name, item in value.items():
        if name in unknown and says_something(item):
            message = name_clash(name, siblings, is_top=is_top)
            if message is None:
                count = sum(each in unknown and says_something(value[each]) for each in value)
                why = _why_no_column(name, item, growth, is_top=is_top, beside=count)
                raise MisfitError(why, (name,), is_unknown=True)
            clash = clash or MisfitError(message, (name,))
    if clash:
        raise clash


def _why_no_column(name: str, item: Any, growth: Growth, *, is_top: bool, beside: int) -> str:
    if growth.is_by_schema:
        return "the schema does not contain it"
    if _says_only_large(item):
        if is_top and type(item) is int and abs(item) < _PAST_DECIMALS:
            return f'an integer of more than 64 bits: declare columns: {{{name}: "decimal(38,0)"}}'
        return "an integer of more than 64 bits, which no column type holds"
    if growth.new_fields is NewFields.DEAD_LETTER:
        return "it has no column, and the table accepts no new ones (schema.new_fields)"
    if beside > MOST_ALONE:
        return (
            f"one of {beside} fields without a column; one record adds at most {MOST_ALONE}: declare in"
            " `columns` what to keep (an object of many keys as a map), then redrive"
        )
    return (
        f"it cannot have a column: its name is taken, or schema.max_columns: {growth.max_columns} is reached"
    )


def _says_only_large(item: Any) -> bool:
    """True if its non-null values are all integers above 64 bits, which make no column at any depth."""
    if isinstance(item, dict | list):
        return all(map(_says_only_large, item.values() if isinstance(item, dict) else item))
    return item is None or _is_past(64, item)


def _fit_one(fit: Fit, value: Any, name: str, nullable: bool) -> Any:
    if value is None:
        if not nullable:
            raise MisfitError("the column is required", (name,))
        return None
    try:
        return fit(value)
    except MisfitError as misfit:
        raise misfit.inside(name) from None


def _fit_list(kind: pa.DataType, growth: Growth) -> Fit:
    inner, nullable = fit_value(kind.value_type, growth), kind.value_field.nullable

    def fit(value: Any) -> list[Any]:
        return [_fit_one(inner, item, "element", nullable) for item in _of(list, value, "an array")]

    return fit


def _fit_map(kind: pa.DataType, growth: Growth) -> Fit:
    inner, nullable = fit_value(kind.item_type, growth), kind.item_field.nullable
    if kind.key_type not in (pa.string(), pa.large_string()):
        return _unsupported(kind)

    def fit(value: Any) -> list[tuple[str, Any]]:
        items = _of(dict, value, "an object").items()
        return [(key, _fit_one(inner, item, key, nullable)) for key, item in items]

    return fit


def _fit_integer(bits: int) -> Fit:
    def fit(value: Any) -> Any:
        if _is_past(bits, value):
            raise MisfitError(f"an integer past {bits} bits")
        return _of(int, value, "an integer")

    return fit


def _is_past(bits: int, value: Any) -> bool:
    """True if it is an integer that does not fit this number of bits."""
    limit = 1 << (bits - 1)
    return isinstance(value, HugeIntegerLiteral) or (type(value) is int and not -limit <= value < limit)


def _fit_float(nearest: Callable[[str], float]) -> Fit:
    def fit(value: Any) -> float:
        if type(value) is not int and not isinstance(value, FractionLiteral | HugeIntegerLiteral):
            raise _wrong_kind(value, "a number")
        number = nearest(str(value))
        if not isfinite(number):
            raise MisfitError("a number too big for the column")
        # Of a fraction the nearest is meant; an integer is an id or a count, and there is no nearest one.
        if not isinstance(value, FractionLiteral) and Decimal(number) != Decimal(value):
            raise MisfitError("an integer that the column, of floating point, cannot hold exactly")
        return number

    return fit


def _fit_text(value: Any) -> Any:
    return _of(str, value, "a string")


def _fit_binary(value: Any) -> Any:
    return _fit_text(value).encode()


def _fit_parsed(parse: Callable[[str], Any], what: str) -> Fit:
    def fit(value: Any) -> Any:
        if (parsed := parse(_fit_text(value))) is not None:
            return parsed
        if parse(re.sub(FINER, WITHOUT_FINER, value)) is not None:
            raise MisfitError(f"{shortened(value)} is {FINER_THAN_COLUMN}")
        raise MisfitError(f"not {what}")

    return fit


def _fit_decimal(kind: pa.DataType, _growth: Growth) -> Fit:
    exact = Context(prec=kind.precision, traps=[Inexact, InvalidOperation])
    unit = Decimal(1).scaleb(-kind.scale)

    def fit(value: Any) -> Decimal:
        is_number = isinstance(value, int | str) and not isinstance(value, bool | NearestLiteral)
        if not is_number or not is_decimal(str(value)):
            raise _wrong_kind(value, f"a {kind}")
        try:
            return Decimal(str(value)).quantize(unit, context=exact)
        except (Inexact, InvalidOperation):
            what = f"{shortened(str(value))} does not fit decimal({kind.precision}, {kind.scale})"
            raise MisfitError(what) from None

    return fit


def _fit_fixed(kind: pa.DataType, _growth: Growth) -> Fit:
    def fit(value: Any) -> Any:
        encoded = _fit_binary(value)
        if len(encoded) != kind.byte_width:
            raise MisfitError(f"not {kind.byte_width} bytes long")
        return encoded

    return fit


def _fit_uuid(value: Any) -> bytes:
    text = _fit_text(value)
    with suppress(ValueError):
        parsed = uuid.UUID(text)
        if str(parsed) == text.lower():
            return parsed.bytes
    raise MisfitError("not a UUID")


def _unsupported(kind: pa.DataType) -> Fit:
    def fit(value: Any) -> Any:
        raise _wrong_kind(value, f"a {kind}, which JSON cannot express")

    return fit


def _of(kind: type, value: Any, wanted: str) -> Any:
    if type(value) is not kind:
        raise _wrong_kind(value, wanted)
    return value


def _wrong_kind(value: Any, wanted: str) -> MisfitError:
    return MisfitError(f"{json_kind(value)} where the column has {wanted}")


_FITS: tuple[tuple[pa.DataType, Fit], ...] = (
    (pa.int64(), _fit_integer(64)),
    (pa.int32(), _fit_integer(32)),
    (pa.float64(), _fit_float(float)),
    (pa.float32(), _fit_float(nearest_single)),
    (pa.bool_(), lambda value: _of(bool, value, "a boolean")),
    (pa.string(), _fit_text),
    (pa.large_string(), _fit_text),
    (pa.binary(), _fit_binary),
    (pa.large_binary(), _fit_binary),
    (pa.timestamp("us", "UTC"), _fit_parsed(parse_zoned, "an ISO 8601 time with zone, to the microsecond")),
    (pa.timestamp("us"), _fit_parsed(parse_local, "an ISO 8601 time without zone, to the microsecond")),
    (pa.date32(), _fit_parsed(parse_date, "a date YYYY-MM-DD")),
    (pa.time64("us"), _fit_parsed(parse_time, "a time of day hh:mm[:ss[.ffffff]]")),
    (pa.uuid(), _fit_uuid),
    (pa.json_(), json_text),
)
_MAKERS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType, Growth], Fit]], ...] = (
    (pa.types.is_struct, partial(fit_record, is_top=False)),
    (pa.types.is_map, _fit_map),
    (pa.types.is_list, _fit_list),
    (pa.types.is_large_list, _fit_list),
    (pa.types.is_decimal, _fit_decimal),
    (pa.types.is_fixed_size_binary, _fit_fixed),
)
