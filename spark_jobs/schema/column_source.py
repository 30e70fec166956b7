"""Where a table's columns come from: what was seen of JSON's fields, or the schemas of the records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from pyiceberg.schema import Schema

from spark_jobs.config.new_fields import Growth
from spark_jobs.protocol.errors import ConfigError
from spark_jobs.schema.bursts import MOST_ALONE, without_bursts
from spark_jobs.schema.evidence import Evidence
from spark_jobs.schema.evolution import Evolution, evolved, made_of
from spark_jobs.schema.iceberg_types import iceberg_schema, iceberg_type, known_fields
from spark_jobs.schema.inference import Field, choose_types, evolve
from spark_jobs.schema.known_schemas import KnownSchemas
from spark_jobs.schema.minorities import minorities, told_of_columns
from spark_jobs.schema.placing import Rules, place

if TYPE_CHECKING:
    from spark_jobs.protocol.progress import ColumnMap


class ColumnSource(Protocol):
    """Columns for what was seen of records; sentences are for a person, on what became of few values."""

    def first(self, evidence: Evidence, declared: Sequence[Field]) -> tuple[Evolution, tuple[str, ...]]:
        """Return what a new table lacks, the declared columns first, and sentences."""

    def evolution(
        self, table: Schema, bound: ColumnMap, evidence: Evidence
    ) -> tuple[Evolution, tuple[str, ...]]:
        """Return what a table of this schema lacks, and sentences; ``bound`` is what it keeps of fields."""


@dataclass(frozen=True, slots=True)
class SeenColumns:
    """From the fields of JSON objects; an exact table gets the declared ones alone.

    Columns ``made`` otherwise are declared, and say nothing of a field of their name.
    """

    growth: Growth
    is_exact: bool = False
    made: frozenset[str] = frozenset()

    def first(self, evidence: Evidence, declared: Sequence[Field]) -> tuple[Evolution, tuple[str, ...]]:
        """See ``ColumnSource``."""
        evidence = evidence.without(self.made)
        if self.is_exact:
            return made_of(iceberg_schema(declared)), ()
        most = self.growth.max_columns
        # A table's only record is no exception from others.
        alone = MOST_ALONE if evidence.records > 1 else most
        taken = without_bursts(evidence, tuple(declared), most, most_alone=alone)
        columns = choose_types(taken, tuple(declared), max_columns=most)
        return made_of(iceberg_schema(columns)), tuple(
            told_of_columns(columns, declared, evidence, self.growth)
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
    """From all schemas that are known, in the order of their ids, so that every run decides alike.

    An exact table gets the declared ones alone.
    """

    schemas: KnownSchemas
    growth: Growth
    rules: Rules
    is_exact: bool = False

    def first(self, evidence: Evidence, declared: Sequence[Field]) -> tuple[Evolution, tuple[str, ...]]:  # noqa: ARG002
        """See ``ColumnSource``."""
        columns = made_of(iceberg_schema(declared))
        told = {name: each for schema in self.schemas.every for name, each in schema.columns.told.items()}
        undeclared = sorted(told.keys() - self.rules.declared)
        return columns.then(self.beside(columns)), tuple(f"{name}: {told[name]}" for name in undeclared)

    def beside(self, columns: Evolution) -> Evolution:
        """Return what a new table lacks that has these columns."""
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
    """Those of values without a schema, and one for the records' keys, which no field of a value is in."""

    values: SeenColumns
    keys: WrittenColumns

    def first(self, evidence: Evidence, declared: Sequence[Field]) -> tuple[Evolution, tuple[str, ...]]:
        """See ``ColumnSource``; raises ``ConfigError`` (``column-clash``) for a field of the key's name."""
        columns, told = self.values.first(evidence, declared)
        own = {field.name for each in self.keys.schemas.every for field in each.columns.struct.fields}
        if clash := own.intersection(evidence.fields):
            raise _clash(min(clash))
        return columns.then(self.keys.beside(columns)), told

    def evolution(
        self, table: Schema, bound: ColumnMap, evidence: Evidence
    ) -> tuple[Evolution, tuple[str, ...]]:
        """See ``ColumnSource``; a value's field of the key's name gets no column.

        Raises ``ConfigError`` (``column-clash``) where it has one already.
        """
        lacks, told = self.values.evolution(table, bound, evidence)
        of_keys, _ = self.keys.evolution(table, bound, evidence)
        keys_own = {each for kinds in bound.values() for ids in kinds.values() for each in ids}
        of_values = {each.name for each in table.fields if each.field_id not in keys_own}
        taken = {path[0] for _, _, path in of_keys.bindings} & of_values
        if clash := taken - self.keys.rules.declared:
            raise _clash(min(clash))
        own = {path[0] for _, _, path in of_keys.bindings}
        own |= {field.name for each in self.keys.schemas.every for field in each.columns.struct.fields}
        kept = [addition for addition in lacks.additions if addition[0][0] not in own]
        return replace(of_keys, additions=[*of_keys.additions, *kept]), told


def _clash(name: str) -> ConfigError:
    return ConfigError(
        f"the values have a field {name}, and so is the column of the key called",
        code="column-clash",
        hint="Call the key's another: `key: {as: order_key}`.",
    )
