"""Parses decoded JSON values again for fields that no decoder gives: texts and paths."""

from __future__ import annotations

import json
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import orjson
import pyarrow as pa

from spark_jobs.config.columns import FieldForm
from spark_jobs.expressions.judging import ExpressionError
from spark_jobs.expressions.paths import found
from spark_jobs.formats.json.parsing import parse_object
from spark_jobs.values.exact import Misfits, column_read
from spark_jobs.values.fitting import MisfitError, fit_value
from spark_jobs.values.literals import FractionLiteral, HugeIntegerLiteral, json_kind, json_text

_WITH_DECIMALS = json.JSONDecoder(parse_float=Decimal)


def texts(values: Sequence[bytes], names: Sequence[str]) -> dict[str, pa.Array]:
    """Return fields as text: strings unchanged, other values as JSON, null if absent."""
    texts_by_name: dict[str, list[str | None]] = {name: [] for name in names}
    for value in values:
        try:
            record = orjson.loads(value)
        except orjson.JSONDecodeError:  # a number past all doubles
            record = parse_object(value)
        for name, column in texts_by_name.items():
            field = record.get(name)
            if not (field is None or type(field) is str):  # with its numbers as they are written
                field = str(field) if type(field) is int else json_text(parse_object(value)[name])
            column.append(field)
    return {name: pa.array(column, pa.string()) for name, column in texts_by_name.items()}


def along(path: str, values: Sequence[bytes], kind: pa.DataType) -> tuple[pa.Array, Misfits]:
    """Return the result of a JMESPath, converted as a declared column converts its field."""
    fit = fit_value(kind)

    def read(value: bytes) -> Any:
        try:
            at = found(path, _WITH_DECIMALS.decode(value.decode()))
        except (ExpressionError, ValueError) as error:
            raise MisfitError(str(error)) from None
        return None if at is None else fit(_lossless(at))

    return column_read(values, kind, read)


def _lossless(value: Any) -> Any:
    """Return a value as lossless JSON."""
    if isinstance(value, dict):
        return {name: _lossless(each) for name, each in value.items()}
    if isinstance(value, list):
        return list(map(_lossless, value))
    return FractionLiteral(value) if isinstance(value, float | Decimal) else value


def from_field(
    form: FieldForm, name: str, values: Sequence[bytes], kind: pa.DataType
) -> tuple[pa.Array, Misfits]:
    """Return a field of any JSON or number type as a column of the type."""
    fit = fit_value(kind)

    def read(value: bytes) -> Any:
        field = parse_object(value).get(name)
        if field is None or form is FieldForm.JSON:
            return None if field is None else json_text(field)
        if type(field) is not int and not isinstance(field, FractionLiteral | HugeIntegerLiteral):
            raise MisfitError(f"{json_kind(field)} where a number is written")
        if pa.types.is_string(kind):
            return json_text(field)
        if pa.types.is_boolean(kind):
            return fit({0: False, 1: True}.get(field, field) if type(field) is int else field)
        if pa.types.is_integer(kind) and isinstance(field, FractionLiteral):
            number = Decimal(field)
            # Of a huge exponent no integer is made.
            field = int(number) if number.adjusted() < 40 and number == int(number) else field  # noqa: PLR2004
        return fit(field)

    return column_read(values, kind, read)
