"""The schemas that a pipeline's values, and its records' keys, are read by, as far as they are known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from spark_jobs.protocol.schema_id import SchemaKey
from spark_jobs.schema.writer_schema import WriterSchema


@dataclass(frozen=True, slots=True)
class KnownSchemas:
    """Schemas by what values name them by; None of one that the registry says it does not have.

    Where values name none, the schema of all of them is under the key None, and is the only one.
    ``has_indexes``: they name a message of it as well. ``of_key``: they are keys of records. ``keys`` are
    those of the records' keys, each as one column; None where keys have none.
    """

    by_key: Mapping[SchemaKey | None, WriterSchema | None] = field(default_factory=dict)
    has_indexes: bool = False
    of_key: bool = False
    keys: KnownSchemas | None = None

    @property
    def only(self) -> WriterSchema | None:
        """Return the schema of all values, None where each names its own."""
        return self.by_key.get(None)

    @property
    def names(self) -> set[SchemaKey | None]:
        """Return what is known, of values and of keys."""
        return {*self.by_key, *(self.keys.by_key if self.keys else ())}

    def of(self, keys: Iterable[SchemaKey]) -> list[WriterSchema]:
        """Return the schemas of these keys, as far as there are any, in the order of their ids."""
        if self.only is not None:
            return [self.only]
        return [schema for key in sorted(set(keys)) if (schema := self.by_key.get(key)) is not None]
