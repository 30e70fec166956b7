"""A chunk of values as rows, each read by the schema that it was written with.

Tasks get the schemas with their work. A value of one that a task was not given makes it report all such that
it meets; who planned the work learns them and has it done again, as for new fields.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyiceberg.io.pyarrow import pyarrow_to_schema

from spark_jobs.config.columns import GROWTH, Growth
from spark_jobs.formats.lanes.packed_values import joined
from spark_jobs.protocol.offsets import SchemaKey
from spark_jobs.records.decoder import BadValue, Decoded, Encoded, Phase
from spark_jobs.records.framing import Framed, Naming, bare, by_place, unframe
from spark_jobs.records.projection import project
from spark_jobs.schema.arrow_schema import no_rows
from spark_jobs.schema.column_source import KnownSchemas
from spark_jobs.schema.evidence import Evidence
from spark_jobs.schema.placing import Rules, place
from spark_jobs.schema.writer_schema import WriterSchema

if TYPE_CHECKING:
    from spark_jobs.kafka.chunks import Chunk


_MOST_LOOKED_AT = 1024  # as many as a task may be given schemas, and more


@dataclass(frozen=True, slots=True)
class SchemaDecoder:
    """Decodes values or keys by their schemas.

    One that ``converts`` puts values into columns of other types where these say the same; every one into
    columns that were given another type, ``retyped``.
    """

    schemas: KnownSchemas
    converts: bool = False
    retyped: frozenset[str] = frozenset()

    def read(self, encoded: Encoded, columns: pa.Schema, growth: Growth = GROWTH) -> Decoded:
        """Return values or keys as rows of columns for their fields alone."""
        framed = framed_values(encoded, self.schemas)
        if self._asks_for_more(framed, columns, growth):
            return Decoded(no_rows(columns), [], new_fields=Evidence(schemas=self._new(framed)))
        together = _alike_together(framed, self.schemas)
        parts = [self._of_one_schema(key, together, columns, growth) for key in together.indices]
        bad = [BadValue(index, Phase.SCHEMA, None, why) for index, why in framed.unframed.items()]
        return in_order(parts, bad, len(encoded.items), columns)

    def observe(self, records: Chunk, growth: Growth = GROWTH) -> Evidence:  # noqa: ARG002  (of Decoder)
        """See ``Decoder``: counts values without a usable schema, and unknown schemas."""
        encoded = Encoded.there(records)
        framed = framed_values(encoded, self.schemas)
        known = ((self.schemas.by_key.get(key), values) for key, values in framed.values.items())
        reads = [schema.read(values) for schema, values in known if schema is not None]
        rows = sum(each.table.num_rows for each in reads)
        passed = sum(len(at) for each in reads for at in each.passed.values())
        return Evidence(
            records=rows, undecodable=len(encoded.items) - rows - passed, schemas=self._new(framed)
        )

    def new(self, encoded: Encoded) -> tuple[SchemaKey, ...]:
        """Return the unknown schemas that the values or keys name."""
        return self._new(framed_values(encoded, self.schemas))

    def _new(self, framed: Framed) -> tuple[SchemaKey, ...]:
        return tuple(key for key in _named(framed) if key not in self.schemas.by_key)

    def _asks_for_more(self, framed: Framed, columns: pa.Schema, growth: Growth) -> bool:
        if growth.has_ended:
            return False
        if self._new(framed):
            return True
        schemas = self.schemas.of(_named(framed)) if growth.room else ()
        return any(_needs_columns(columns, schema, growth.room) for schema in schemas)

    def _of_one_schema(
        self, key: SchemaKey | None, framed: Framed, columns: pa.Schema, growth: Growth
    ) -> Part:
        """Return the rows of one schema's values; indices are the records'."""
        indices, values = framed.indices[key], framed.values[key]
        schema = self.schemas.by_key.get(key)
        if schema is None:
            why = self.schemas.why_none(key)
            bad = [BadValue(index, Phase.SCHEMA, None, why) for index in indices.tolist()]
            return Part(no_rows(columns), indices[:0], bad)
        read = schema.read(values)
        of_read = indices if read.rows is None else indices[read.rows]
        projected = project(read.table, columns, growth, converts=self.converts, retyped=self.retyped)
        rows = of_read if projected.rows is None else of_read[projected.rows]
        bad = [
            BadValue(int(indices[each.index]), Phase.DECODE, each.field, each.error) for each in read.unread
        ]
        bad += [
            BadValue(int(of_read[row]), Phase.DECODE, ".".join(misfit.path) or None, misfit.message)
            for row, misfit in projected.misfits.items()
        ]
        passed = {term: indices[[*at]].tolist() for term, at in read.passed.items() if at}
        return Part(projected.table, rows, bad, Counter(read.ignored) + Counter(projected.ignored), passed)


@lru_cache(_MOST_LOOKED_AT)
def _needs_columns(columns: pa.Schema, schema: WriterSchema, room: int) -> bool:
    """True if columns can be added for the schema; an existing column takes its field, whatever its type."""
    rules = Rules(room, takes_all_but=frozenset())
    lacks, _ = place([schema.columns], pyarrow_to_schema(columns), {}, rules)
    return bool(lacks.additions)


def schema_ids(encoded: Encoded, schemas: KnownSchemas) -> pa.Array:
    """Return the schema id of each value, or null if it has none."""
    framed = framed_values(encoded, schemas) if schemas.is_framed or schemas.spans else Framed()
    count, keys = len(encoded.items), [key for key in framed.indices if key is not None]
    if not keys:
        return pa.nulls(count, pa.string())
    which = np.full(count, -1)
    for number, key in enumerate(keys):
        which[framed.indices[key]] = number
    return pa.array([*map(str, keys)], pa.string()).take(pa.array(which, mask=which < 0))


def framed_values(encoded: Encoded, schemas: KnownSchemas) -> Framed:
    """Group values or keys by the schema that they name, in their bytes or by their offset."""
    if schemas.only is not None:
        return bare(encoded.items)
    if schemas.spans:
        return by_place(encoded, schemas.spans)
    return unframe(
        encoded.items, encoded.headers, Naming(schemas.has_indexes, schemas.of_key, schemas.framing)
    )


def _alike_together(framed: Framed, schemas: KnownSchemas) -> Framed:
    """Group values of schemas that read alike under one key: each call of a reader is expensive."""
    alike: defaultdict[object, list[SchemaKey | None]] = defaultdict(list)
    for key in framed.indices if len(framed.indices) > 1 else ():
        schema = schemas.by_key.get(key)
        alike[key if schema is None else schema.reading].append(key)
    if len(alike) == len(framed.indices) or not alike:
        return framed
    together = Framed(unframed=framed.unframed)
    for keys in alike.values():
        indices = np.concatenate([framed.indices[key] for key in keys])
        order = np.argsort(indices)
        together.indices[keys[0]] = indices[order]
        together.values[keys[0]] = joined([framed.values[key] for key in keys]).take(order)
    return together


def _named(framed: Framed) -> tuple[SchemaKey, ...]:
    return tuple(sorted(key for key in framed.indices if key is not None))


@dataclass(frozen=True, slots=True)
class Part:
    """The rows of one schema's values in record order, and the outcome of the others."""

    table: pa.Table
    rows: np.ndarray
    bad: Sequence[BadValue]
    ignored: Counter[str] = field(default_factory=Counter)
    passed: Mapping[str, Sequence[int]] = field(default_factory=dict)


def in_order(parts: Sequence[Part], bad: Sequence[BadValue], count: int, columns: pa.Schema) -> Decoded:
    """Return the rows of all schemas in record order."""
    every_bad = sorted([*bad, *(each for part in parts for each in part.bad)], key=lambda each: each.index)
    ignored: Counter[str] = Counter()
    passed: defaultdict[str, list[int]] = defaultdict(list)
    for part in parts:
        ignored.update(part.ignored)
        for term, indices in part.passed.items():
            passed[term] += indices
    table = pa.concat_tables([part.table for part in parts] or [no_rows(columns)])
    rows = np.concatenate([part.rows for part in parts] or [np.empty(0, np.int64)])
    if len(parts) > 1:
        at = np.full(count, -1)
        at[rows] = np.arange(len(rows))
        rows = np.flatnonzero(at >= 0)
        table = table.take(at[rows])
    left = None if len(rows) == count else rows.tolist()
    decoded = Decoded(table, left, tuple(every_bad), ignored=ignored, passed=passed)
    return decoded.named(columns, count)
