"""A configuration's declarations as Iceberg types: columns, partitioning, sort order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import count as numbers
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
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.protocol import mends
from spark_jobs.protocol.errors import SluiceError, fault
from spark_jobs.protocol.progress import Progress, progress_from_properties
from spark_jobs.protocol.progress_parts import unfinished
from spark_jobs.protocol.texts import count
from spark_jobs.schema.evolution import Evolution, Path
from spark_jobs.schema.iceberg_types import (
    GENERATION,
    HEADERS,
    IDENTITY,
    INGESTED_AT,
    OFFSET,
    PARTITION,
    TOPIC,
    check_columns,
    declared_fields,
    declared_type,
    iceberg_type,
    known_fields,
    type_text,
    widenings_to,
)
from spark_jobs.schema.inference import by_lower_case, name_clash

if TYPE_CHECKING:
    from collections.abc import Collection

    from pyiceberg.table import Table
    from pyiceberg.types import IcebergType


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
    """Build the spec from terms like ``day(time_hour)``, ``bucket(16, id)``, ``origin``, in order.

    A field is called by its column and transform, and has a number where a column is called so. Raises
    ``ConfigError`` for a term that is none, a column that does not exist, a type the transform does
    not take, unless the table is partitioned so already (``there``), or two terms on one column.
    """
    fields: list[PartitionField] = []
    terms: dict[int, PartitionTerm] = {}  # by column
    for position, text in enumerate(partition_by):
        term = _parse(text)
        column = _find(schema, term)
        transform = _TRANSFORMS[term.transform](*(() if term.width is None else (term.width,)))
        if not any((each.source_id, each.transform) == (column.field_id, transform) for each in there.fields):
            _refuse_type(schema, term, column)
            _refuse_second(schema, fields, transform, column)
        if column.field_id in terms:
            raise fault("partition-twice", name=term.column, first=terms[column.field_id], second=term)
        terms[column.field_id] = term
        name = _free_name(term, {*schema.column_names, *(each.name for each in fields)})
        fields.append(PartitionField(column.field_id, PARTITION_FIELD_ID_START + position, transform, name))
    return PartitionSpec(*fields)


def partition_terms(schema: Schema, spec: PartitionSpec) -> tuple[str, ...]:
    """Return the spec's terms by column, for people and comparisons: ``day(at)``, ``bucket[16](id)``."""
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
        columns = (name for name in schema.column_names if not name.startswith(f"{HEADERS}."))
        raise fault("partition-column", name=term.column, found=", ".join(columns), term=term) from error


def _free_name(term: PartitionTerm, taken: set[str]) -> str:
    """Return a partition field's name: an identity's is its column's, others must differ from all columns."""
    if term.transform == "identity":
        return term.column
    name, lower = f"{term.column}_{term.transform}", {each.lower() for each in taken}
    return free_name(name, lower) if name.lower() in lower else name


def _refuse_type(schema: Schema, term: PartitionTerm, column: NestedField) -> None:
    wrong = misfit(term, type_text(column.field_type))
    if wrong is None and column.field_id not in build_position_accessors(schema):
        wrong = f"{term.column} has several values in a row", "Name a column, or a field inside structs only."
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
    """Return the order by existing columns, ascending, nulls first, then by arrival.

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
    """Return the sort columns that the table does not have yet."""
    existing = {field.name for field in schema.fields}
    return tuple(name for name in sort_by if name not in existing)


def order_to_set(schema: Schema, there: SortOrder, sort_by: Sequence[str]) -> SortOrder | None:
    """Return the order to set on a table; None if it has it, or has another's and none is configured."""
    declared = sort_order(schema, sort_by)
    is_as_wanted = list(there.fields) == list(declared.fields)
    return None if is_as_wanted or not (sort_by or _is_ours(schema, there)) else declared


def ordered_by(schema: Schema, order: SortOrder) -> tuple[str, ...]:
    """Return the columns of Sluice's sort order that the table has; the identity for another order."""
    if not _is_ours(schema, order):
        return IDENTITY
    names = (schema.find_column_name(field.source_id) for field in order.fields)
    return tuple(name for name in names if name is not None)


def sorted_by(schema: Schema, order: SortOrder) -> tuple[str, ...]:
    """Return the sort columns of rows that arrive in record order: none without ``sort_by``."""
    names = ordered_by(schema, order)
    rests = (tuple(name for name in IDENTITY if name not in names[:at]) for at in range(len(names)))
    return names[: next((at for at, rest in enumerate(rests) if names[at:] == rest), len(names))]


def _is_ours(schema: Schema, order: SortOrder) -> bool:
    identity = {field.field_id for field in schema.fields if field.name in IDENTITY}
    plain = [SortField(field.source_id, transform=IdentityTransform()) for field in order.fields]
    return identity <= {field.source_id for field in plain} and list(order.fields) == plain


def reserved_names(schema: Schema, specs: Iterable[PartitionSpec]) -> frozenset[str]:
    """Return names that no new column may have: those of partition fields that are not a column's."""
    return frozenset(
        field.name
        for spec in specs
        for field in spec.fields
        if not isinstance(field.transform, IdentityTransform | VoidTransform)
        or schema.find_column_name(field.source_id) != field.name
    )


def free_name(name: str, taken: set[str]) -> str:
    """Return the name with the lowest number that is not in ``taken``, which is in lower case."""
    free = next(each for each in (f"{name}_{number}" for number in numbers(1)) if each.lower() not in taken)
    taken.add(free.lower())
    return free


# The columns a table is to get: those that were declared since it was made, and those for new fields.


NEWEST_FORMAT = 2


def check_declared(pipeline: PipelineConfig, table: Table, *, takes_types: bool = False) -> None:
    """Raise ``ConfigError`` (``column-clash``) for undeclared types, or two columns of one file name.

    For one that another engine requires too (``required-column``), and as ``refuse_newer_format``. What
    ``takes_types`` gives columns those that were declared.
    """
    refuse_newer_format(table)
    name = ".".join(table.name())
    layout = progress_from_properties(table.properties, table=name).table_layout
    if layout != pipeline.layout:
        raise fault("column-clash.layout", found=layout, layout=pipeline.layout, **pipeline.where)
    passed_over = unlike_declared(pipeline, table.schema()) if takes_types else {}
    check_columns(
        table,
        {name: kind for name, kind in pipeline.declared.items() if name not in passed_over},
        key_is_binary=pipeline.key_is_binary,
        pipeline=pipeline.name,
        layout=pipeline.layout,
    )
    check_own(table, pipeline)


def refuse_newer_format(table: Table) -> None:
    """Raise ``ConfigError`` (``table-format-3``) for a format that PyIceberg reads but cannot commit to."""
    if table.metadata.format_version > NEWEST_FORMAT:
        raise fault(
            "table-format-3",
            version=table.metadata.format_version,
            newest=NEWEST_FORMAT,
            table=".".join(table.name()),
        )


def unlike_declared(pipeline: PipelineConfig, schema: Schema) -> dict[str, IcebergType]:
    """Return the declared types of columns that have another type and cannot be widened to it."""
    existing = {field.name: field.field_type for field in schema.fields}
    declared = {name: declared_type(text) for name, text in pipeline.declared.items() if name in existing}
    return {
        name: kind for name, kind in declared.items() if widenings_to(existing[name], kind, (name,)) is None
    }


def declared_evolution(pipeline: PipelineConfig, schema: Schema) -> Evolution:
    """Return the declared columns that the table lacks, and those narrower than declared.

    No record may decide their types. Raises ``ConfigError`` (``column-clash``) for a name that cannot stand
    beside the table's own.
    """
    known = known_fields(schema)
    names = {field.name for field in known}
    missing = [field for field in declared_fields(pipeline.declared) if field.name not in names]
    for field in missing:
        if clash := name_clash(field.name, by_lower_case([*missing, *known]), is_top=True):
            raise fault("column-clash.declared", clash=clash, **pipeline.where)
    widenings: dict[Path, IcebergType] = {}
    for name in names & pipeline.declared.keys():
        there, declared = schema.find_field(name).field_type, declared_type(pipeline.declared[name])
        widenings |= widenings_to(there, declared, (name,)) or {}
    return Evolution([((field.name,), iceberg_type(field.type), None) for field in missing], widenings)


def dead_letter_evolution(pipeline: PipelineConfig, schema: Schema) -> Evolution:
    """Return the columns that the dead-letter table lacks.

    Raises ``ConfigError`` (``column-clash``) for one that it has in another type.
    """
    missing = []
    for name, column in pipeline.dead_letters.columns.items():
        current = schema.find_field(name).field_type if name in schema.column_names else None
        kind = declared_type(column.type)
        if current is None:
            missing.append(((name,), kind, None))
        elif type_text(current) != type_text(kind):
            raise fault(
                "column-clash.dead-letters",
                name=name,
                found=type_text(current),
                type=type_text(kind),
                pipeline=pipeline.name,
                table=pipeline.dead_letter_table,
            )
    return Evolution(missing)


def table_notes(pipeline: PipelineConfig, table: Table, progress: Progress) -> tuple[str, ...]:
    """Return notes for people: other partitioning than declared, an unfinished type change.

    Others are of columns to sort by that are not there yet, and of what upkeep leaves to somebody else.
    """
    notes = [_partition_note(pipeline, table), sort_note(pipeline, table.schema())]
    if table.properties.get("gc.enabled", "true").lower() == "false":
        notes.append(
            "gc.enabled is false: old snapshots and orphans stay, unless the catalog takes them away"
        )
    if (waiting := unfinished(progress.kept_columns)) is not None:
        kind = type_text(table.schema().find_type(waiting.column))
        mend = mends.act("retype", pipeline.name, waiting.column, f"'{kind}'")
        notes.append(f"the change of {waiting.column} to {kind} is not finished: {mend}")
    return tuple(note for note in notes if note is not None)


def sort_note(pipeline: PipelineConfig, schema: Schema) -> str | None:
    """Return a note on missing sort columns; raises ``ConfigError`` if one cannot be sorted by."""
    sort_order(schema, pipeline.table_sort_by)
    if not (lacking := columns_to_come(schema, pipeline.table_sort_by)):
        return None
    others = ", ".join(name for name in pipeline.table_sort_by if name not in lacking)
    state = f"rows are sorted by {others}" if others else "rows are not sorted"
    return f"sort_by names {count(len(lacking), 'column')} not there yet, {', '.join(lacking)}: {state}"


def _partition_note(pipeline: PipelineConfig, table: Table) -> str | None:
    schema, spec = table.schema(), table.spec()
    declared = partition_terms(schema, partition_spec(schema, pipeline.table_partition_by, spec))
    current = partition_terms(schema, spec)
    if declared == current:
        return None
    note = f"partitioned by {', '.join(current) or 'nothing'}, declared {', '.join(declared) or 'nothing'}"
    can_change = "repartition" not in pipeline.layout.refused
    return f"{note}: {mends.act('repartition', pipeline.name)}" if can_change else note


# Required columns that nothing fills: another engine added them, and no row could be written any more.


# What no letter is without.
_OF_LETTERS = {TOPIC, PARTITION, OFFSET, GENERATION, INGESTED_AT, "phase", "error", "batch_id"}


def check_own(table: Table, pipeline: PipelineConfig) -> None:
    """Raise ``ConfigError`` (``required-column``) if one was added to a pipeline's own table.

    Sluice adds optional ones. One that was made required later is left to its records: those without a value
    are dead letters. So is one that is declared.
    """
    required = {
        each.field_id
        for each in table.schema().fields
        if each.required and each.name not in pipeline.declared
    }
    or_else = "" if "columns" in pipeline.layout.not_said else " Or declare it in `columns`."
    first, *later = sorted(table.schemas().values(), key=lambda schema: schema.schema_id)
    seen = {each.field_id for each in first.fields}
    for schema in later:
        for each in schema.fields:
            if each.required and each.field_id in required - seen:
                raise required_column(".".join(table.name()), each.name, or_else)
        seen |= {each.field_id for each in schema.fields}


def check_beside(
    own: Table, letters: Table | None, routed: Iterable[Table | None], declared: Collection[str]
) -> None:
    """Raise ``ConfigError`` for a required column of a dead-letter or routed table.

    ``declared`` are columns of letters.
    """
    filled = {field.name for field in own.schema().fields}
    for table, names in ((letters, {*_OF_LETTERS, *declared}), *((each, filled) for each in routed)):
        if table is not None:
            for each in table.schema().fields:
                if each.required and each.name not in names:
                    raise required_column(".".join(table.name()), each.name)


def required_column(table: str, column: str, or_else: str = "") -> SluiceError:
    """Return the error for a required column without values; ``or_else`` is an alternative fix.

    A task knows of its table the location alone.
    """
    name = "TABLE" if "/" in table else table
    return fault("required-column", name=name, or_else=or_else, table=table, column=column)
