"""``partition_by`` as an Iceberg partition spec, its fields' names, and ``sort_by`` as a sort order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

from pyiceberg.partitioning import (
    PARTITION_FIELD_ID_START,
    UNPARTITIONED_PARTITION_SPEC,
    PartitionField,
    PartitionSpec,
)
from pyiceberg.schema import Schema, build_position_accessors
from pyiceberg.table.sorting import SortField, SortOrder
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    VoidTransform,
    YearTransform,
)
from pyiceberg.types import DecimalType, NestedField, UUIDType

from spark_jobs.config.iceberg_terms import PartitionTerm, misfit, parse_partition_term
from spark_jobs.config.problems import UnreadableValueError
from spark_jobs.protocol.errors import fault
from spark_jobs.schema.evolution import Evolution
from spark_jobs.schema.iceberg_types import type_text
from spark_jobs.schema.inference import RESERVED_COLUMNS
from spark_jobs.schema.metadata_columns import HEADERS, IDENTITY

if TYPE_CHECKING:
    from spark_jobs.protocol.progress import ColumnMap
    from spark_jobs.schema.column_source import ColumnSource
    from spark_jobs.schema.evidence import Evidence


_TRANSFORMS: dict[str, Callable[..., Transform[Any, Any]]] = {
    "identity": IdentityTransform,
    "bucket": BucketTransform,
    "truncate": TruncateTransform,
    "year": YearTransform,
    "month": MonthTransform,
    "day": DayTransform,
    "hour": HourTransform,
}


def partition_spec(
    schema: Schema, partition_by: Sequence[str], there: PartitionSpec = UNPARTITIONED_PARTITION_SPEC
) -> PartitionSpec:
    """Build the spec of terms like ``day(time_hour)``, ``bucket(16, id)``, ``origin``, in their order.

    A field is called by its column and transform, and has a number where a column is called so. Raises
    ``ConfigError`` for a term that is none, a column that does not exist, a type the transform does
    not take, unless the table is partitioned so already (``there``), or two terms on one column.
    """
    fields: list[PartitionField] = []
    for position, text in enumerate(partition_by):
        term = _parse(text)
        column = _find(schema, term)
        transform = _TRANSFORMS[term.transform](*(() if term.width is None else (term.width,)))
        if not any((each.source_id, each.transform) == (column.field_id, transform) for each in there.fields):
            _refuse_type(schema, term, column)
            _refuse_second(schema, fields, transform, column)
        if any(field.source_id == column.field_id for field in fields):
            raise fault("partition-twice", name=term.column, term=term)
        name = _free_name(term, {*schema.column_names, *(each.name for each in fields)})
        fields.append(PartitionField(column.field_id, PARTITION_FIELD_ID_START + position, transform, name))
    return PartitionSpec(*fields)


def partition_terms(schema: Schema, spec: PartitionSpec) -> tuple[str, ...]:
    """Return what the spec says of columns, for people and to compare: ``day(at)``, ``bucket[16](id)``."""
    return tuple(f"{each.transform}({schema.find_column_name(each.source_id)})" for each in spec.fields)


def _parse(text: str) -> PartitionTerm:
    try:
        return parse_partition_term(text)
    except UnreadableValueError as error:
        raise fault("partition-term", why=error) from error


def _find(schema: Schema, term: PartitionTerm) -> NestedField:
    try:
        return schema.find_field(term.column)
    except ValueError as error:
        there = (name for name in schema.column_names if not name.startswith(f"{HEADERS}."))
        raise fault("partition-column", name=term.column, there=", ".join(there), term=term) from error


def _free_name(term: PartitionTerm, taken: set[str]) -> str:
    """Return what the field is called: an identity as its column, any other as no column of the table."""
    if term.transform == "identity":
        return term.column
    name, lower = f"{term.column}_{term.transform}", {each.lower() for each in taken}
    return free_name(name, lower) if name.lower() in lower else name


def _refuse_type(schema: Schema, term: PartitionTerm, column: NestedField) -> None:
    wrong = misfit(term, type_text(column.field_type))
    if wrong is None and column.field_id not in build_position_accessors(schema):
        wrong = f"{term.column} has many values in a row", "Name a column, or a field inside structs alone."
    if wrong is not None:
        raise fault("partition-type", why=wrong[0], hint=wrong[1], term=term)


def _refuse_second(
    schema: Schema, fields: Sequence[PartitionField], transform: Transform[Any, Any], column: NestedField
) -> None:
    """Refuse two values of a type that Avro names: Java writes the second as a name, unread by PyIceberg."""
    kind = transform.result_type(column.field_type)
    values = (each.transform.result_type(schema.find_type(each.source_id)) for each in fields)
    if isinstance(kind, DecimalType | UUIDType) and kind in values:
        raise fault("partition-type.second", type=type_text(kind))


# ``sort_by`` as a table's Iceberg sort order, which ends in the rows' identity: no two rows are equal.
#
# An order that ends so is Sluice's; any other is another engine's, or none of an earlier version.


def sort_order(schema: Schema, sort_by: Sequence[str] = ()) -> SortOrder:
    """Return the order by the columns that are there, ascending, nulls first, then as records came.

    Raises ``ConfigError`` (``sort-type``) for a column whose values have no order.
    """
    ids = {field.name: field.field_id for field in schema.fields}
    named = (field for field in schema.fields if field.name in sort_by)
    for field in (each for each in named if not each.field_type.is_primitive):
        raise fault("sort-type", name=field.name, type=type_text(field.field_type))
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


# Fields of records that are called as a field of a table's partitioning, now or before, and their columns.
#
# Iceberg has no column of such a name: specs are kept for ever, and readers refuse a table in which the two
# differ. The field's column takes a free name, and the table keeps by the column's id which field it is of.


_FIELD, _KIND = "field:", "column"


def held_names(schema: Schema, specs: Iterable[PartitionSpec]) -> frozenset[str]:
    """Return the names that no new column may have: those of partition fields that are no column's own."""
    return frozenset(
        field.name
        for spec in specs
        for field in spec.fields
        if not isinstance(field.transform, IdentityTransform | VoidTransform)
        or schema.find_column_name(field.source_id) != field.name
    )


def field_names(schema: Schema | None, bound: ColumnMap | None) -> dict[str, str]:
    """Return by column the field that it is of, where the two are called differently."""
    ids = {
        column: identity.removeprefix(_FIELD)
        for identity, kinds in (bound or {}).items()
        if identity.startswith(_FIELD)
        for column in kinds.get(_KIND, ())
    }
    return {
        each.name: ids[each.field_id] for each in (schema.fields if schema else ()) if each.field_id in ids
    }


def free_evolution(
    columns: ColumnSource,
    schema: Schema,
    specs: Iterable[PartitionSpec],
    bound: ColumnMap,
    evidence: Evidence,
) -> tuple[Evolution, tuple[str, ...]]:
    """Return what the source's ``evolution`` does, each column by a name that it can have."""
    names = field_names(schema, bound)
    called = (each.model_copy(update={"name": names.get(each.name, each.name)}) for each in schema.fields)
    lacks, told = columns.evolution(Schema(*called), bound, evidence)
    held = held_names(schema, specs) | names.keys()
    new = {path[0] for path, _, _ in lacks.additions if len(path) == 1}
    taken = {name.lower() for name in (*schema.column_names, *held, *new, *RESERVED_COLUMNS)}
    freed = {name: free_name(name, taken) for name in sorted(new & held)}
    if not names and not freed:
        return lacks, told
    column_of = {field: column for column, field in names.items()} | freed
    of_schemas = {path for _, _, path in lacks.bindings}
    fields = [
        (_FIELD + name, _KIND, (column,)) for name, column in freed.items() if (name,) not in of_schemas
    ]
    renamed = lacks.under(lambda path: (column_of.get(path[0], path[0]), *path[1:]))
    return renamed.then(Evolution(bindings=fields)), (
        *told,
        *(_sentence(name, column) for name, column in freed.items()),
    )


def free_name(name: str, taken: set[str]) -> str:
    """Return the name with the first number under which it is not among those taken, which are lower case."""
    free = next(each for each in (f"{name}_{number}" for number in count(1)) if each.lower() not in taken)
    taken.add(free.lower())
    return free


def _sentence(name: str, column: str) -> str:
    return (
        f"the field {name} is in the column {column}: the table's partitioning, now or before, has its name"
    )
