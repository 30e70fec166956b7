"""``sort_by`` as a table's Iceberg sort order, which ends in the rows' identity: no two rows are equal.

An order that ends so is Sluice's; any other is another engine's, or none of an earlier version.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyiceberg.table.sorting import SortField, SortOrder
from pyiceberg.transforms import IdentityTransform

from spark_jobs.protocol.errors import ConfigError
from spark_jobs.schema.iceberg_types import type_text
from spark_jobs.schema.metadata_columns import IDENTITY

if TYPE_CHECKING:
    from pyiceberg.schema import Schema


def sort_order(schema: Schema, sort_by: Sequence[str] = ()) -> SortOrder:
    """Return the order by the columns that are there, ascending, nulls first, then as records came.

    Raises ``ConfigError`` (``sort-type``) for a column whose values have no order.
    """
    ids = {field.name: field.field_id for field in schema.fields}
    named = (field for field in schema.fields if field.name in sort_by)
    for field in (each for each in named if not each.field_type.is_primitive):
        raise ConfigError(
            f"sort_by: rows cannot be sorted by {field.name}, {type_text(field.field_type)}",
            code="sort-type",
            hint="Name columns with single values: no struct, list or map, and nothing inside one.",
        )
    names = [name for name in sort_by if name in ids]
    names += [name for name in IDENTITY if name not in names]
    return SortOrder(*(SortField(ids[name], transform=IdentityTransform()) for name in names))


def columns_to_come(schema: Schema, sort_by: Sequence[str]) -> tuple[str, ...]:
    """Return the columns to sort by that the table does not have yet."""
    there = {field.name for field in schema.fields}
    return tuple(name for name in sort_by if name not in there)


def order_to_set(schema: Schema, there: SortOrder, sort_by: Sequence[str]) -> SortOrder | None:
    """Return the order to give a table; None where it has it, or where nobody asks and it is not ours."""
    wanted = sort_order(schema, sort_by)
    is_as_wanted = list(there.fields) == list(wanted.fields)
    return None if is_as_wanted or not (sort_by or _is_ours(schema, there)) else wanted


def ordered_by(schema: Schema, order: SortOrder) -> tuple[str, ...]:
    """Return all columns of an order of ours that the table has; the identity for another."""
    if not _is_ours(schema, order):
        return IDENTITY
    names = (schema.find_column_name(field.source_id) for field in order.fields)
    return tuple(name for name in names if name is not None)


def sorted_by(schema: Schema, order: SortOrder) -> tuple[str, ...]:
    """Return what rows that come in order have to be sorted by: nothing without ``sort_by``."""
    names = ordered_by(schema, order)
    rests = (tuple(name for name in IDENTITY if name not in names[:at]) for at in range(len(names)))
    return names[: next((at for at, rest in enumerate(rests) if names[at:] == rest), len(names))]


def _is_ours(schema: Schema, order: SortOrder) -> bool:
    identity = {field.field_id for field in schema.fields if field.name in IDENTITY}
    plain = [SortField(field.source_id, transform=IdentityTransform()) for field in order.fields]
    return identity <= {field.source_id for field in plain} and list(order.fields) == plain
