"""The schemas that a pipeline's values, and its records' keys, are read by, as far as they are known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from spark_jobs.protocol.schema_id import SchemaKey
from spark_jobs.protocol.schema_spans import Spans
from spark_jobs.schema.placed import placed
from spark_jobs.schema.placing import Rules, place
from spark_jobs.schema.told import Forms, under
from spark_jobs.schema.writer_schema import WriterSchema

if TYPE_CHECKING:
    from pyiceberg.schema import Schema

    from spark_jobs.protocol.progress import ColumnMap


@dataclass(frozen=True, slots=True)
class KnownSchemas:
    """Schemas by what values name them by; None of one that the registry does not have, or that is not used.

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

    @property
    def only(self) -> WriterSchema | None:
        """Return the schema of all values, None where each names its own."""
        return self.by_key.get(None)

    @property
    def names(self) -> set[SchemaKey | None]:
        """Return what there is a schema of, of values and of keys."""
        own = {key for key, schema in self.by_key.items() if schema is not None}
        return own if self.keys is None else {*own, *self.keys.names}

    def of(self, keys: Iterable[SchemaKey]) -> list[WriterSchema]:
        """Return the schemas of these keys, as far as there are any, in the order of their ids."""
        if self.only is not None:
            return [self.only]
        return [schema for key in sorted(set(keys)) if (schema := self.by_key.get(key)) is not None]

    def why_none(self, key: SchemaKey | None) -> str:
        """Return why nothing can be read by what is under this key."""
        if key in self.by_key:
            return self.unused.get(key) or f"the registry has no schema {key}"
        return f"schema {key} was not asked for: too many that cannot be used are named beside it"

    @property
    def every(self) -> list[WriterSchema]:
        """Return those of keys, then those of values, each in the order of their ids."""
        own = self.of(key for key in self.by_key if key is not None)
        return own if self.keys is None else [*self.keys.every, *own]

    def told(self, forms: Forms) -> KnownSchemas:
        """Return the same with the times of these fields of values told so."""
        return replace(self, by_key={key: under(each, forms) for key, each in self.by_key.items()})

    def placed(self, table: Schema, bound: ColumnMap, rules: Rules) -> KnownSchemas:
        """Return the same under the names that their fields have, or are to get, in the table."""
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
