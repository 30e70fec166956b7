"""Rows of a schema as rows of a table: columns are found by name, and no value is changed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from textwrap import shorten
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.config.columns import GROWTH, Growth
from spark_jobs.schema.arrow_schema import as_lists, entries_of, items_of, no_rows, one_array, remade
from spark_jobs.values.exact import cast, converted, may_be_cast
from spark_jobs.values.fitting import MisfitError

_MOST_SHOWN = 60
_ALONE = "value"
# Makes values that are not nested into those of a type; raises ``MisfitError`` for one that it does not hold.
_Leaf: TypeAlias = Callable[[pa.Array, pa.DataType], pa.Array]


@dataclass(frozen=True, slots=True)
class Projected:
    """Rows of the table, the positions of valid rows (None: all), and the errors of the others.

    ``ignored`` counts values without a column by dotted name.
    """

    table: pa.Table
    rows: list[int] | None = None
    misfits: Mapping[int, MisfitError] = field(default_factory=dict)
    ignored: Mapping[str, int] = field(default_factory=dict)


def project(
    rows: pa.Table,
    columns: pa.Schema,
    growth: Growth,
    *,
    converts: bool = False,
    retyped: Collection[str] = (),
) -> Projected:
    """Return rows of ``columns``; a missing field is null.

    A value fits a column that holds it exactly: of its own type or a wider one, a narrower one where it can.
    With ``converts`` also one that says it as its source would, had that given its column the type; in the
    columns ``retyped`` every one that says the same in the column's type. What has no column makes a row a
    misfit or is counted, as ``growth`` says; nulls, empty lists and empty maps are passed over.
    """
    if rows.schema.names == columns.names and _are_plain_alike(rows.schema.types, columns.types):
        return Projected(pa.Table.from_arrays(rows.columns, schema=columns))
    leaf = _as_by_source if converts else _exactly
    leaves = {column.name: _all_retyped if column.name in retyped else leaf for column in columns}
    return _projected(rows, columns, growth, leaves)


def _projected(rows: pa.Table, columns: pa.Schema, growth: Growth, leaves: Mapping[str, _Leaf]) -> Projected:
    tables: list[pa.Table] = []
    misfits: dict[int, MisfitError] = {}
    for first, part in _fitting(rows.combine_chunks(), partial(_converted, columns, growth, leaves)):
        if isinstance(part, MisfitError):
            misfits[first] = part
        else:
            tables.append(part)
    left = [position for position in range(rows.num_rows) if position not in misfits] if misfits else None
    ignored = (
        dict(_unknown_fields(rows if left is None else rows.take(pa.array(left, pa.int64())), columns))
        if growth.ignores
        else {}
    )
    return Projected(pa.concat_tables(tables or [no_rows(columns)]), left, misfits, ignored)


def refit_by_schema(values: pa.ChunkedArray, kind: pa.DataType) -> pa.Array:
    """Return a column of another type as ``project`` converts it, null if a value does not fit."""
    every = one_array(values)
    if not pa.types.is_nested(every.type):
        return _retyped(every, kind)
    table, columns = pa.table({_ALONE: every}), pa.schema([(_ALONE, kind)])
    projected = _projected(table, columns, GROWTH, {_ALONE: _all_retyped})
    place = {
        row: at for at, row in enumerate(range(len(every)) if projected.rows is None else projected.rows)
    }
    rows_of_records = pa.array([place.get(row) for row in range(len(every))], pa.int64())
    return one_array(projected.table.column(_ALONE).take(rows_of_records))


def _are_plain_alike(have: Sequence[pa.DataType], columns: Sequence[pa.DataType]) -> bool:
    # In nested ones Arrow keeps the ids of fields, which differ.
    return have == columns and not any(map(pa.types.is_nested, columns))


def _fitting(
    rows: pa.Table, convert: Callable[[pa.Table], pa.Table], first: int = 0
) -> Iterator[tuple[int, pa.Table | MisfitError]]:
    """Yield rows as tables, and misfits, found by halving, each with its first position."""
    try:
        yield first, convert(rows)
    except MisfitError as misfit:
        middle = rows.num_rows // 2
        if not middle:
            yield first, misfit
        else:
            yield from _fitting(rows.slice(0, middle), convert, first)
            yield from _fitting(rows.slice(middle), convert, first + middle)


def _converted(columns: pa.Schema, growth: Growth, leaves: Mapping[str, _Leaf], rows: pa.Table) -> pa.Table:
    if not growth.ignores:
        for name, _values in _unknown_fields(rows, columns):
            raise MisfitError("no column", tuple(name.split(".")), is_unknown=True)
    made = [
        _named(one_array(rows.column(column.name)), column.type, column.name, leaves[column.name])
        if column.name in rows.column_names
        else pa.nulls(rows.num_rows, column.type)
        for column in columns
    ]
    return pa.Table.from_arrays(made, schema=columns)


def _named(values: pa.Array, kind: pa.DataType, name: str, leaf: _Leaf) -> pa.Array:
    try:
        return _convert(values, kind, leaf)
    except MisfitError as misfit:
        raise misfit.inside(name) from None


def _convert(values: pa.Array, kind: pa.DataType, leaf: _Leaf) -> pa.Array:
    """Return the values as ``kind``; raises ``MisfitError`` for a value it cannot hold exactly."""
    have = values.type
    if have == kind:
        # The same but for the ids of nested fields, which Arrow keeps beside their types.
        return values if not pa.types.is_nested(kind) else values.cast(kind)
    converted = remade(values, kind, partial(_named, leaf=leaf))
    return leaf(values, kind) if converted is None else converted


def _exactly(values: pa.Array, kind: pa.DataType) -> pa.Array:
    have = values.type
    if not _may_hold(have, kind):
        if values.null_count == len(values):
            return pa.nulls(len(values), kind)
        raise _misfit(have, kind)
    try:
        if pa.types.is_floating(kind) and pa.types.is_integer(have):
            return _as_floating(values, kind)
        return cast(values, kind)
    except pa.ArrowInvalid as error:
        raise _misfit(have, kind, f": {error}") from None


def _as_floating(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return integers as equal numbers; Arrow refuses all if one has no equal."""
    near = values.cast(kind, safe=False)
    if not pc.all(pc.equal(near.cast(values.type), values), min_count=0).as_py():
        raise _misfit(values.type, kind, ": it would be rounded")
    return near


def _retyped(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return non-nested values in another type, null if a value does not fit."""
    if pa.types.is_nested(kind):
        return pa.nulls(len(values), kind)
    with suppress(MisfitError):
        return _convert(values, kind, _exactly)
    return converted(values, kind)


def _all_retyped(values: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_nested(values.type) or (retyped := _retyped(values, kind)).null_count > values.null_count:
        raise _misfit(values.type, kind)
    return retyped


def _as_by_source(values: pa.Array, kind: pa.DataType) -> pa.Array:
    if values.null_count == len(values):
        return pa.nulls(len(values), kind)
    if not may_be_cast(values.type, kind):
        raise _misfit(values.type, kind)
    retyped = _retyped(values, kind)
    lost = pc.indices_nonzero(pc.and_(retyped.is_null(), values.is_valid()))
    if len(lost):
        raise _misfit(values.type, kind, f": {shorten(str(values[lost[0].as_py()]), _MOST_SHOWN)}")
    return retyped


def _misfit(have: pa.DataType, kind: pa.DataType, why: str = "") -> MisfitError:
    return MisfitError(f"the schema's {_type_name(have)} in a column of {_type_name(kind)}{why}")


def _may_hold(kind: pa.DataType, column: pa.DataType) -> bool:
    """True if some value of ``kind`` may equal one of ``column``; otherwise Arrow refuses all."""
    if pa.types.is_integer(kind):
        return bool(
            pa.types.is_floating(column) or pa.types.is_decimal(column) or pa.types.is_integer(column)
        )
    if pa.types.is_decimal(kind):
        return bool(pa.types.is_decimal(column))
    return bool(pa.types.is_float32(kind) and pa.types.is_float64(column))


def _unknown_fields(rows: pa.Table, columns: pa.Schema) -> Iterator[tuple[str, int]]:
    """Yield fields without a column, by dotted name, and their number of non-null values."""
    kinds = {column.name: column.type for column in columns}
    for name, values in zip(rows.column_names, rows.columns, strict=True):
        if name not in kinds or pa.types.is_nested(values.type):
            yield from _beside_in(name, one_array(values), kinds.get(name))


def _beside_in(name: str, values: pa.Array, kind: pa.DataType | None) -> Iterator[tuple[str, int]]:
    have = values.type
    if kind is None:
        if values_count := _count_values(values):
            yield name, values_count
    elif pa.types.is_struct(have) and pa.types.is_struct(kind):
        inside = {field.name: field.type for field in kind}
        for field, part in zip(have, values.flatten(), strict=True):
            yield from _beside_in(f"{name}.{field.name}", part, inside.get(field.name))
    elif pa.types.is_list(have) and pa.types.is_list(kind):
        yield from _beside_in(f"{name}.element", items_of(values), kind.value_type)
    elif pa.types.is_map(have) and pa.types.is_map(kind) and pa.types.is_nested(have.item_type):
        yield from _beside_in(f"{name}.value", entries_of(values)[1], kind.item_type)


def _count_values(values: pa.Array) -> int:
    """Count the non-null values."""
    if pa.types.is_list(values.type) or pa.types.is_map(values.type):
        return int(pc.sum(pc.greater(pc.list_value_length(as_lists(values)), 0)).as_py() or 0)
    if pa.types.is_struct(values.type):
        return max(map(_count_values, values.flatten()), default=0)
    return len(values) - int(values.null_count)


def _type_name(kind: pa.DataType) -> str:
    if pa.types.is_nested(kind):
        return str(kind).partition("<")[0]
    return {"int32": "int", "int64": "long", "extension<arrow.uuid>": "uuid"}.get(str(kind), str(kind))
