"""Where a table's columns come from: what was seen of JSON's fields, or the schemas of the values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from pyiceberg.schema import Schema, assign_fresh_schema_ids

from spark_jobs.config.new_fields import Growth
from spark_jobs.protocol.errors import ConfigError
from spark_jobs.schema.additions import ColumnAddition, observed_additions
from spark_jobs.schema.evidence import Evidence
from spark_jobs.schema.iceberg_types import iceberg_schema, known_fields
from spark_jobs.schema.inference import Field, choose_types, evolve
from spark_jobs.schema.known_schemas import KnownSchemas
from spark_jobs.schema.minorities import minorities, told_of_columns
from spark_jobs.schema.written_columns import missing_columns

if TYPE_CHECKING:
    from pyiceberg.types import NestedField, StructType


class ColumnSource(Protocol):
    """Columns for what was seen of records; sentences are for a person, on what became of few values."""

    def first(self, evidence: Evidence, declared: Sequence[Field]) -> tuple[Schema, tuple[str, ...]]:
        """Return the columns of a new table, the declared ones first, and sentences."""

    def additions(self, schema: Schema, evidence: Evidence) -> tuple[list[ColumnAddition], tuple[str, ...]]:
        """Return what a table of this schema lacks, and sentences."""


@dataclass(frozen=True, slots=True)
class SeenColumns:
    """From the fields of JSON objects."""

    growth: Growth

    def first(self, evidence: Evidence, declared: Sequence[Field]) -> tuple[Schema, tuple[str, ...]]:
        """See ``ColumnSource``."""
        columns = choose_types(evidence, tuple(declared), max_columns=self.growth.max_columns)
        return iceberg_schema(columns), tuple(told_of_columns(columns, declared, evidence, self.growth))

    def additions(self, schema: Schema, evidence: Evidence) -> tuple[list[ColumnAddition], tuple[str, ...]]:
        """See ``ColumnSource``."""
        added = evolve(known_fields(schema), evidence, max_columns=self.growth.room)
        return observed_additions(added), tuple(minorities(added, evidence))


@dataclass(frozen=True, slots=True)
class WrittenColumns:
    """From the schemas of the values, in the order of their ids, so that every run decides alike."""

    schemas: KnownSchemas
    growth: Growth

    def first(self, evidence: Evidence, declared: Sequence[Field]) -> tuple[Schema, tuple[str, ...]]:
        """See ``ColumnSource``; what a later schema adds inside a struct comes when a record is met."""
        return self.beside(iceberg_schema(declared).fields, evidence), ()

    def beside(self, columns: Sequence[NestedField], evidence: Evidence) -> Schema:
        """Return columns of a new table with those of the schemas after them."""
        fields = list(columns)
        for struct in self._structs(evidence):
            there = known_fields(Schema(*fields))
            new = missing_columns(there, struct, max_columns=self.growth.max_columns)
            names = {path[0] for path, _ in new if len(path) == 1}
            fields += [field for field in struct.fields if field.name in names]
        return assign_fresh_schema_ids(Schema(*fields))

    def additions(self, schema: Schema, evidence: Evidence) -> tuple[list[ColumnAddition], tuple[str, ...]]:
        """See ``ColumnSource``."""
        added: dict[tuple[str, ...], ColumnAddition] = {}
        for struct in self._structs(evidence):
            for addition in missing_columns(known_fields(schema), struct, max_columns=self.growth.room):
                added.setdefault(addition[0], addition)
        return list(added.values()), ()

    def _structs(self, evidence: Evidence) -> Iterable[StructType]:
        return (each.columns.struct for each in self.schemas.of(evidence.schemas))


@dataclass(frozen=True, slots=True)
class KeyedColumns:
    """Those of the values and one for the records' keys, which no field of a value may be in."""

    values: ColumnSource
    keys: WrittenColumns
    column: str

    def first(self, evidence: Evidence, declared: Sequence[Field]) -> tuple[Schema, tuple[str, ...]]:
        """See ``ColumnSource``; raises ``ConfigError`` (``column-clash``) for a field of the key's name."""
        schema, told = self.values.first(evidence, declared)
        if any(field.name == self.column for field in self.values.first(evidence, ())[0].fields):
            raise ConfigError(
                f"the values have a field {self.column}, and so is the column of the key called",
                code="column-clash",
                hint="Call the key's another: `key: {as: order_key}`.",
            )
        return self.keys.beside(schema.fields, evidence), told

    def additions(self, schema: Schema, evidence: Evidence) -> tuple[list[ColumnAddition], tuple[str, ...]]:
        """See ``ColumnSource``; a field of the key's name gets none."""
        of_values, told = self.values.additions(schema, evidence)
        of_keys, _ = self.keys.additions(schema, evidence)
        kept = [addition for addition in of_values if addition[0][0] != self.column]
        return kept + of_keys, told
