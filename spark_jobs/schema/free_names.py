"""Fields of records that are called as a field of a table's partitioning, now or before, and their columns.

Iceberg has no column of such a name: specs are kept for ever, and readers refuse a table in which the two
differ. The field's column takes a free name, and the table keeps by the column's id which field it is of.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import count
from typing import TYPE_CHECKING

from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform, VoidTransform

from spark_jobs.schema.evolution import Evolution, Path
from spark_jobs.schema.inference import RESERVED_COLUMNS

if TYPE_CHECKING:
    from pyiceberg.partitioning import PartitionSpec

    from spark_jobs.protocol.progress import ColumnMap
    from spark_jobs.schema.column_source import ColumnSource
    from spark_jobs.schema.evidence import Evidence

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


def as_fields(schema: Schema, names: dict[str, str]) -> Schema:
    """Return the schema with its columns called as their fields are."""
    return Schema(
        *(each.model_copy(update={"name": names.get(each.name, each.name)}) for each in schema.fields)
    )


def free_evolution(
    columns: ColumnSource,
    schema: Schema,
    specs: Iterable[PartitionSpec],
    bound: ColumnMap,
    evidence: Evidence,
) -> tuple[Evolution, tuple[str, ...]]:
    """Return what the source's ``evolution`` does, each column by a name that it can have."""
    names = field_names(schema, bound)
    lacks, told = columns.evolution(as_fields(schema, names), bound, evidence)
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
    renamed = Evolution(
        [(_under(column_of, path), kind, doc) for path, kind, doc in lacks.additions],
        {_under(column_of, path): kind for path, kind in lacks.widenings.items()},
        {_under(column_of, path): doc for path, doc in lacks.docs.items()},
        [*((identity, kind, _under(column_of, path)) for identity, kind, path in lacks.bindings), *fields],
    )
    return renamed, (*told, *(_sentence(name, column) for name, column in freed.items()))


def free_name(name: str, taken: set[str]) -> str:
    """Return the name with the first number under which it is not among those taken, which are lower case."""
    free = next(each for each in (f"{name}_{number}" for number in count(1)) if each.lower() not in taken)
    taken.add(free.lower())
    return free


def _under(column_of: Mapping[str, str], path: Path) -> Path:
    return (column_of.get(path[0], path[0]), *path[1:])


def _sentence(name: str, column: str) -> str:
    return (
        f"the field {name} is in the column {column}: the table's partitioning, now or before, has its name"
    )
