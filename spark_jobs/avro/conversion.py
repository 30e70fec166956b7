"""Columns that DataFusion read, as columns of the table's types.

A file's schema for it has plain types alone, each under a name of its own: a boolean is one byte, an enum, a
date or a time its number. What they stand for is decided here, whatever DataFusion thinks of booleans that
are neither 0 nor 1, symbols, years or a type that is used twice. And a union has one branch more, a boolean,
which no other type is written as: of null and one other type DataFusion takes any number but 0 for 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.avro.columns import MOST_DIGITS, has_columns, is_wide, only_member
from spark_jobs.avro.parsing import Again, Array, Field, Kind, Leaf, Map, Record, Type, Union, is_null
from spark_jobs.avro.plain import CONVERSIONS, FIRST_DAY, FIRST_US, LAST_DAY, LAST_US
from spark_jobs.schema.arrow_schema import column_of
from spark_jobs.schema.writer_schema import UnreadableValueError

_NUMBERS = frozenset({"int", "long", "enum"})
_UNUSED = "boolean"
_DAY_US = 86_400_000_000


class DoubtError(Exception):
    """Values that have to be read by themselves."""


def plain_record(fields: Sequence[Field], mark: str, mark_bytes: int) -> dict[str, Any]:
    """Return the schema of a file whose values have these fields and a mark behind them.

    Raises ``DoubtError`` for types that only values by themselves are read of.
    """
    names = count()
    record = _plain(Record(tuple(fields)), names) or {"type": "record", "name": "empty", "fields": []}
    record["fields"].append({"name": mark, "type": {"type": "fixed", "name": mark, "size": mark_bytes}})
    return record


def _plain(kind: Type, names: Iterator[int]) -> Any:  # noqa: PLR0911
    """Return a type as it is written for DataFusion, None when it takes no bytes."""
    match kind:
        case Leaf(Kind.NULL | Kind.EMPTY):
            return None
        case Leaf(Kind.DECIMAL) if kind.precision <= MOST_DIGITS:
            logical = {"logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
            return _plain_leaf(kind, names) | logical
        case Leaf():
            return _plain_leaf(kind, names)
        case Array(items):
            return {"type": "array", "items": _plain(items, names)}
        case Map(values):
            return {"type": "map", "values": _plain(values, names)}
        case Union(branches):
            members = [_plain(branch.type, names) for branch in branches]
            if is_null(kind) or not all(
                member or is_null(each.type) for each, member in zip(branches, members, strict=True)
            ):
                raise DoubtError("a branch without bytes")
            return [*(member or "null" for member in members), _UNUSED]
        case Again():
            raise DoubtError("a type in itself")
        case Record(fields):
            types = [(each.name, _plain(each.type, names)) for each in fields]
            written = [{"name": f"f{next(names)}", "type": each} for _, each in types if each is not None]
            return {"type": "record", "name": f"r{next(names)}", "fields": written} if written else None


def _plain_leaf(leaf: Leaf, names: Iterator[int]) -> dict[str, Any]:
    if leaf.base not in ("fixed", "boolean"):
        return {"type": "long" if leaf.base in _NUMBERS else leaf.base}
    if leaf.base == "fixed" and is_wide(leaf):
        raise DoubtError("a fixed of many bytes, which each null would take")
    return {"type": "fixed", "name": f"b{next(names)}", "size": leaf.size or 1}


def with_names(schema: pa.Schema) -> pa.Schema:
    """Return DataFusion's schema of a file with what it leaves out itself, and then misses in unions."""
    return pa.schema([_with_names(column) for column in schema])


def _with_names(column: pa.Field) -> pa.Field:
    kind = column.type
    if pa.types.is_struct(kind):
        return column.with_type(pa.struct([_with_names(each) for each in kind]))
    if pa.types.is_list(kind):
        return column.with_type(pa.list_(_with_names(kind.value_field)))
    if pa.types.is_map(kind):
        return column.with_type(pa.map_(kind.key_field, _with_names(kind.item_field)))
    if pa.types.is_union(kind):
        members = [_with_names(kind.field(position)) for position in range(kind.num_fields)]
        named = [each.with_metadata(_member_metadata(each)) for each in members]
        return column.with_type(pa.dense_union(named, kind.type_codes))
    return column


def _member_metadata(member: pa.Field) -> dict[str, str] | None:
    if pa.types.is_decimal(member.type):
        return {"precision": str(member.type.precision), "scale": str(member.type.scale)}
    is_named = pa.types.is_struct(member.type) or pa.types.is_fixed_size_binary(member.type)
    return {"avro.name": member.name} if is_named else None


def to_columns(
    fields: Sequence[Field], arrays: Sequence[pa.Array], rows: int, columns: pa.Schema
) -> pa.Table:
    """Return the columns; raises ``DoubtError`` or Arrow's errors for values that may not be of them."""
    return pa.Table.from_arrays(_children(fields, arrays, rows, columns), schema=columns)


def _children(
    fields: Sequence[Field], arrays: Sequence[pa.Array], rows: int, targets: Iterable[pa.Field]
) -> list[pa.Array]:
    written, kinds, columns = iter(arrays), iter(targets), []
    for each in fields:
        if not is_null(each.type):
            array = next(written) if _is_written(each.type) else None
            columns.append(_column(each.type, array, rows, next(kinds).type))
    return columns


def _is_written(kind: Type) -> bool:
    if isinstance(kind, Record):
        return any(_is_written(each.type) for each in kind.fields)
    return not isinstance(kind, Leaf) or kind.kind not in (Kind.NULL, Kind.EMPTY)


def _column(kind: Type, array: Any, rows: int, target: pa.DataType) -> pa.Array:  # noqa: PLR0911
    match kind:
        case Record() if not has_columns(kind):
            return pa.repeat(pa.scalar(True), rows)
        case Leaf(Kind.EMPTY):
            return pa.repeat(pa.scalar(True), rows)
        case Leaf():
            return _leaf(kind, array, target)
        case Record(fields):
            # Not flattened: that aborts the process where a field is a union. A null's fields are null too.
            inside = [] if array is None else [array.field(each) for each in range(array.type.num_fields)]
            mask = None if array is None else _nulls(array)
            return pa.StructArray.from_arrays(
                _children(fields, inside, rows, target), fields=list(target), mask=mask
            )
        case Array(items):
            values = _column(items, array.values, len(array.values), target.value_type)
            return pa.ListArray.from_arrays(array.offsets, values, type=target, mask=_nulls(array))
        case Map(values):
            _check_keys(array)
            keys = array.keys.cast(target.key_type)
            items = _column(values, array.items, len(array.items), target.item_type)
            return pa.MapArray.from_arrays(array.offsets, keys, items, type=target, mask=_nulls(array))
        case Union(branches) if (only := only_member(kind)) is not None:
            return _member(array, branches.index(only), only.type, target)
        case Union(branches):
            return _branches(branches, array, target)
    raise DoubtError("a type in itself")


def _nulls(array: pa.Array) -> pa.Array | None:
    return array.is_null() if array.null_count else None


def _check_keys(array: pa.Array) -> None:
    """Raise ``DoubtError`` for a map with a key twice, which Arrow has room for."""
    offsets = array.offsets.to_numpy()
    maps = np.repeat(np.arange(len(array)), np.diff(offsets))
    keys = array.keys.slice(offsets[0], offsets[-1] - offsets[0])
    entries = pa.table({"map": maps, "key": keys})
    if entries.group_by(["map", "key"]).aggregate([]).num_rows < len(entries):
        raise DoubtError("a map has a key twice")


def _branches(branches: Sequence[Field], array: pa.UnionArray, target: pa.DataType) -> pa.Array:
    """Return a struct of one field for each branch but null, exactly one of them set."""
    kinds = iter(target)
    columns, mask = [], None
    for position, branch in enumerate(branches):
        if is_null(branch.type):
            mask = pc.equal(array.type_codes, position)
        else:
            columns.append(_member(array, position, branch.type, next(kinds).type))
    return pa.StructArray.from_arrays(columns, fields=list(target), mask=mask)


def _member(array: pa.UnionArray, position: int, kind: Type, target: pa.DataType) -> pa.Array:
    """Return a union's values of one branch, null where it is another."""
    if array.type.type_codes != [*range(array.type.num_fields)] or array.type.mode != "dense":
        raise DoubtError("a union of another form")
    if len(array.field(array.type.num_fields - 1)):
        raise DoubtError("a branch that the union has not")
    is_here = pc.equal(array.type_codes, position)
    at = pc.if_else(is_here, array.offsets, pa.scalar(None, array.offsets.type))
    return _column(kind, array.field(position).take(at), len(array), target)


def _leaf(leaf: Leaf, array: pa.Array, target: pa.DataType) -> pa.Array:  # noqa: PLR0911
    match leaf.kind:
        case Kind.BOOLEAN:
            return _booleans(array)
        case Kind.ENUM:
            return pa.array(leaf.symbols, pa.string()).take(array)
        case Kind.DATE:
            return _within(array, FIRST_DAY, LAST_DAY).cast(pa.int32()).cast(target)
        case Kind.TIME_MILLIS | Kind.TIME_MICROS:
            scale = 1000 if leaf.kind is Kind.TIME_MILLIS else 1
            return pc.multiply(_within(array, 0, _DAY_US // scale - 1), scale).cast(target)
    is_long = leaf.kind is Kind.DECIMAL and leaf.precision > MOST_DIGITS
    if is_long or leaf.kind is Kind.DURATION or (leaf.kind, leaf.base) == (Kind.UUID, "string"):
        return _each(leaf, array, target)
    if pa.types.is_timestamp(target):
        return _timestamps(leaf, array).cast(target)
    return array.cast(target)


def _within(numbers: pa.Array, first: int, last: int) -> pa.Array:
    ends = pc.min_max(numbers).as_py()
    if ends["min"] is not None and not first <= ends["min"] <= ends["max"] <= last:
        raise DoubtError("a number outside its range")
    return numbers


def _timestamps(leaf: Leaf, numbers: pa.Array) -> pa.Array:
    """Return microseconds, in the years 1 to 9999."""
    if leaf.kind in (Kind.TIMESTAMP_MILLIS, Kind.LOCAL_MILLIS):
        return pc.multiply(_within(numbers, FIRST_US // 1000, LAST_US // 1000), 1000)
    if leaf.kind in (Kind.TIMESTAMP_MICROS, Kind.LOCAL_MICROS):
        return _within(numbers, FIRST_US, LAST_US)
    micros = pc.divide(numbers, 1000)
    if pc.any(pc.not_equal(pc.multiply(micros, 1000), numbers)).as_py():
        raise DoubtError("a time finer than a microsecond")
    return _within(micros, FIRST_US, LAST_US)


def _booleans(array: pa.Array) -> pa.Array:
    is_true = pc.equal(array, pa.scalar(b"\1", array.type))
    if pc.any(pc.and_not(pc.not_equal(array, pa.scalar(b"\0", array.type)), is_true)).as_py():
        raise DoubtError("a boolean that is neither 0 nor 1")
    return is_true


def _each(leaf: Leaf, array: pa.Array, target: pa.DataType) -> pa.Array:
    """Return values of which each is made as that of a value by itself is."""
    try:
        made = [None if each is None else CONVERSIONS[leaf.kind](each, leaf) for each in array.to_pylist()]
    except UnreadableValueError as error:
        raise DoubtError(str(error)) from error
    return column_of(made, target)
