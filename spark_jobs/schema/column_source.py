"""Sources of a table's columns: observed JSON fields, or the schemas of the records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa
from pyiceberg.schema import Schema

from spark_jobs.config.columns import Growth
from spark_jobs.config.value_format import Framing
from spark_jobs.protocol.errors import fault
from spark_jobs.protocol.offsets import SchemaKey, Spans
from spark_jobs.protocol.progress import ColumnMap
from spark_jobs.protocol.texts import count
from spark_jobs.protocol.work import Layout
from spark_jobs.schema.arrow_schema import project
from spark_jobs.schema.declared import free_name, reserved_names
from spark_jobs.schema.evidence import Evidence
from spark_jobs.schema.evolution import Evolution, additions_of, evolved
from spark_jobs.schema.iceberg_types import TIMESTAMP, changes_to, iceberg_schema, iceberg_type, known_fields
from spark_jobs.schema.inference import RESERVED_COLUMNS, Field, choose_types, evolve
from spark_jobs.schema.placing import Rules, place
from spark_jobs.schema.proposals import column_notes, minorities
from spark_jobs.schema.schema_views import placed
from spark_jobs.schema.unknown_fields import MOST_ALONE, without_bursts
from spark_jobs.schema.writer_schema import Forms, WriterSchema, under

if TYPE_CHECKING:
    from pyiceberg.partitioning import PartitionSpec

# The schemas that a pipeline's values, and its records' keys, are read by, as far as they are known.


@dataclass(frozen=True, slots=True)
class KnownSchemas:
    """Known schemas by their key; None if the registry does not have one or it is not usable.

    ``unused`` says why of the latter.
    Where values name none, the schema of all of them is under the key None, and is the only one.
    ``has_indexes``: they name a message of it as well. ``is_framed``: they name any. ``of_key``: they are
    keys of records. ``keys`` are those of the records' keys, each as one column; None where keys have none.
    With ``spans`` it is where a record stands that names one of several.
    """

    by_key: Mapping[SchemaKey | None, WriterSchema | None] = field(default_factory=dict)
    has_indexes: bool = False
    is_framed: bool = True
    of_key: bool = False
    keys: KnownSchemas | None = None
    spans: Spans = ()
    unused: Mapping[SchemaKey | None, str] = field(default_factory=dict)
    framing: Framing = Framing.CONFLUENT

    @property
    def only(self) -> WriterSchema | None:
        """Return the schema of all values, or None if each value names its own."""
        return self.by_key.get(None)

    @property
    def names(self) -> set[SchemaKey | None]:
        """Return the keys of all usable schemas, of values and of keys."""
        own = {key for key, schema in self.by_key.items() if schema is not None}
        return own if self.keys is None else {*own, *self.keys.names}

    def of(self, keys: Iterable[SchemaKey]) -> list[WriterSchema]:
        """Return the known schemas of these keys, in the order of their ids."""
        if self.only is not None:
            return [self.only]
        return [schema for key in sorted(set(keys)) if (schema := self.by_key.get(key)) is not None]

    def why_none(self, key: SchemaKey | None) -> str:
        """Return the reason why the schema of this key cannot be used."""
        if key in self.by_key:
            return self.unused.get(key) or f"the registry has no schema {key}"
        return f"schema {key} was not requested: the records name too many unusable schemas"

    @property
    def every(self) -> list[WriterSchema]:
        """Return the schemas of keys, then those of values, each in the order of their ids."""
        own = self.of(key for key in self.by_key if key is not None)
        return own if self.keys is None else [*self.keys.every, *own]

    def in_forms(self, forms: Forms) -> KnownSchemas:
        """Return the schemas with the configured form for times in these fields of values."""
        return replace(self, by_key={key: under(each, forms) for key, each in self.by_key.items()})

    def placed(self, table: Schema, bound: ColumnMap, rules: Rules) -> KnownSchemas:
        """Return the schemas with their fields' current or future names in the table."""
        every = self.every
        _, names = place([schema.columns for schema in every], table, bound, rules)
        # By the object: two ids of one schema have the same names.
        named = {id(schema): placed(schema, each) for schema, each in zip(every, names, strict=True)}
        keys = self.keys and replace(self.keys, by_key=_named(self.keys.by_key, named))
        return replace(self, by_key=_named(self.by_key, named), keys=keys)


def _named(
    by_key: Mapping[SchemaKey | None, WriterSchema | None], named: Mapping[int, WriterSchema]
) -> dict[SchemaKey | None, WriterSchema | None]:
    return {key: schema and named[id(schema)] for key, schema in by_key.items()}


class ColumnSource(Protocol):
    """Chooses columns for observed records; its sentences explain the outcome of rare values."""

    def first(self, evidence: Evidence, declared: Sequence[Field]) -> tuple[Evolution, tuple[str, ...]]:
        """Return what a new table lacks, declared columns first, and sentences."""

    def evolution(
        self, table: Schema, bound: ColumnMap, evidence: Evidence
    ) -> tuple[Evolution, tuple[str, ...]]:
        """Return what a table of this schema lacks, and sentences; ``bound`` is its column map."""


@dataclass(frozen=True, slots=True)
class SeenColumns:
    """Columns from the fields of JSON objects; an exact table gets declared columns only.

    Columns ``made`` otherwise are declared, and say nothing of a field of their name.
    """

    growth: Growth
    is_exact: bool = False
    made: frozenset[str] = frozenset()

    def first(self, evidence: Evidence, declared: Sequence[Field]) -> tuple[Evolution, tuple[str, ...]]:
        """See ``ColumnSource``."""
        evidence = evidence.without(self.made)
        if self.is_exact:
            return additions_of(iceberg_schema(declared)), ()
        most = self.growth.max_columns
        # A table's only record is no exception from others.
        alone = MOST_ALONE if evidence.records > 1 else most
        taken = without_bursts(evidence, tuple(declared), most, most_alone=alone)
        columns = choose_types(taken, tuple(declared), max_columns=most)
        return additions_of(iceberg_schema(columns)), tuple(
            column_notes(columns, declared, evidence, self.growth)
        )

    def evolution(
        self,
        table: Schema,
        bound: ColumnMap,  # noqa: ARG002  (of ColumnSource)
        evidence: Evidence,
    ) -> tuple[Evolution, tuple[str, ...]]:
        """See ``ColumnSource``."""
        known = known_fields(table)
        taken = without_bursts(evidence, known, self.growth.room)
        added = evolve(known, taken, max_columns=self.growth.room)
        lacks = Evolution([(each.path, iceberg_type(each.type), None) for each in added])
        return lacks, tuple(minorities(added, evidence))


@dataclass(frozen=True, slots=True)
class WrittenColumns:
    """Columns from all known schemas, in the order of their ids, so that every run decides alike.

    An exact table gets the declared ones alone.
    """

    schemas: KnownSchemas
    growth: Growth
    rules: Rules
    is_exact: bool = False

    def first(self, evidence: Evidence, declared: Sequence[Field]) -> tuple[Evolution, tuple[str, ...]]:  # noqa: ARG002
        """See ``ColumnSource``."""
        columns = additions_of(iceberg_schema(declared))
        notes = {name: each for schema in self.schemas.every for name, each in schema.columns.notes.items()}
        undeclared = sorted(notes.keys() - self.rules.declared)
        return columns.then(self.beside(columns)), tuple(f"{name}: {notes[name]}" for name in undeclared)

    def beside(self, columns: Evolution) -> Evolution:
        """Return what a new table with these columns lacks."""
        rules = replace(self.rules, max_columns=0 if self.is_exact else self.growth.max_columns)
        every = [each.columns for each in self.schemas.every]
        return place(every, evolved(Schema(), columns), {}, rules)[0]

    def evolution(
        self,
        table: Schema,
        bound: ColumnMap,
        evidence: Evidence,  # noqa: ARG002  (of ColumnSource)
    ) -> tuple[Evolution, tuple[str, ...]]:
        """See ``ColumnSource``."""
        return place([each.columns for each in self.schemas.every], table, bound, self.rules)[0], ()


@dataclass(frozen=True, slots=True)
class KeyedColumns:
    """Columns of values without a schema, and one column for keys, which no value field uses."""

    values: SeenColumns
    keys: WrittenColumns

    def first(self, evidence: Evidence, declared: Sequence[Field]) -> tuple[Evolution, tuple[str, ...]]:
        """See ``ColumnSource``; raises ``ConfigError`` (``column-clash``) if a field has the key's name."""
        columns, notes = self.values.first(evidence, declared)
        own = {field.name for each in self.keys.schemas.every for field in each.columns.struct.fields}
        if clash := own.intersection(evidence.fields):
            raise fault("column-clash.key", name=min(clash))
        return columns.then(self.keys.beside(columns)), notes

    def evolution(
        self, table: Schema, bound: ColumnMap, evidence: Evidence
    ) -> tuple[Evolution, tuple[str, ...]]:
        """See ``ColumnSource``; a value's field with the key's name gets no column.

        Raises ``ConfigError`` (``column-clash``) where it has one already.
        """
        lacks, notes = self.values.evolution(table, bound, evidence)
        of_keys, _ = self.keys.evolution(table, bound, evidence)
        keys_own = {each for kinds in bound.values() for ids in kinds.values() for each in ids}
        of_values = {each.name for each in table.fields if each.field_id not in keys_own}
        taken = {path[0] for _, _, path in of_keys.bindings} & of_values
        if clash := taken - self.keys.rules.declared:
            raise fault("column-clash.key", name=min(clash))
        own = {path[0] for _, _, path in of_keys.bindings}
        own |= {field.name for each in self.keys.schemas.every for field in each.columns.struct.fields}
        kept = [addition for addition in lacks.additions if addition[0][0] not in own]
        return replace(of_keys, additions=[*of_keys.additions, *kept]), notes


# What a routed table lacks of its pipeline's columns: it has those alone that its rows have values in.


def lacking(own: Schema, routed: Schema) -> dict[str, Evolution | None]:
    """Return the changes that let the routed table accept each of the pipeline's columns.

    None where nothing does: a column of the name is there, of a type that does not hold these values.
    """
    existing = {field.name: field.field_type for field in routed.fields}
    found = {
        field.name: changes_to(
            existing.get(field.name), field.field_type, (field.name,), field.doc, may_be_wider=True
        )
        for field in own.fields
    }
    return {name: changes for name, changes in found.items() if changes is None or changes}


def fitted(rows: pa.Table, columns: pa.Schema) -> pa.Table:
    """Return the rows in a routed table's columns, found by name; missing ones are null."""
    every = dict(zip(rows.column_names, rows.columns, strict=True))
    return pa.Table.from_arrays(
        [_fitted(every.get(field.name), field.type, len(rows)) for field in columns], schema=columns
    )


def _fitted(column: pa.ChunkedArray | None, kind: pa.DataType, count: int) -> pa.ChunkedArray | pa.Array:
    if column is None or (column.null_count == count and column.type != kind):
        return pa.nulls(count, kind)
    if column.type == kind:
        return column
    return project(column.combine_chunks(), kind, attrgetter("name"))


def ignored_notes(ignored: Mapping[str, int], unread: str = Layout.unread) -> list[str]:
    """Return sentences on fields without a column, and on Kafka timestamps that are null."""
    fields = ", ".join(f"{name} {values:,}" for name, values in ignored.items() if name != TIMESTAMP)
    notes = [f"{unread}, by field: {fields}"] if fields else []
    times = ignored.get(TIMESTAMP, 0)
    lost = f"{count(times, 'record')} with a Kafka time outside the years 1 to 9999: null in {TIMESTAMP}"
    return [*notes, lost] if times else notes


# Fields of records that are called as a field of a table's partitioning, now or before, and their columns.
#
# Iceberg has no column of such a name: specs are kept for ever, and readers refuse a table in which the two
# differ. The field's column takes a free name, and the table keeps by the column's id which field it is of.


_FIELD, _KIND = "field:", "column"


def field_names(schema: Schema | None, bound: ColumnMap | None) -> dict[str, str]:
    """Return the field of each column whose name differs."""
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
    """Return the source's ``evolution`` with each new column under a free name."""
    names = field_names(schema, bound)
    called = (each.model_copy(update={"name": names.get(each.name, each.name)}) for each in schema.fields)
    lacks, notes = columns.evolution(Schema(*called), bound, evidence)
    held = reserved_names(schema, specs) | names.keys()
    new = {path[0] for path, _, _ in lacks.additions if len(path) == 1}
    reserved = {name.lower() for name in (*schema.column_names, *held, *new, *RESERVED_COLUMNS)}
    freed = {name: free_name(name, reserved) for name in sorted(new & held)}
    if not names and not freed:
        return lacks, notes
    column_of = {field: column for column, field in names.items()} | freed
    of_schemas = {path for _, _, path in lacks.bindings}
    fields = [
        (_FIELD + name, _KIND, (column,)) for name, column in freed.items() if (name,) not in of_schemas
    ]
    renamed = lacks.under(lambda path: (column_of.get(path[0], path[0]), *path[1:]))
    return renamed.then(Evolution(bindings=fields)), (
        *notes,
        *(_sentence(name, column) for name, column in freed.items()),
    )


def _sentence(name: str, column: str) -> str:
    return (
        f"the field {name} is in the column {column}: the table's partitioning, now or before, has its name"
    )
