"""A pipeline's rows of given values, without Kafka: as a drain makes them, and as an audit judges them."""

from __future__ import annotations

import json
import pickle
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from pyiceberg.schema import Schema

from spark_jobs.audit.row_check import RowCheck
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.kafka.chunks import Chunk
from spark_jobs.records.reading_plan import format_of
from spark_jobs.records.row_maker import RowMaker, placed_rows
from spark_jobs.records.shape import Origin
from spark_jobs.records.shaped_rows import checked_shaping
from spark_jobs.schema.arrow_schema import arrow_schema
from spark_jobs.schema.column_source import KnownSchemas
from spark_jobs.schema.evidence import Evidence
from spark_jobs.schema.evolution import bind, evolved
from spark_jobs.schema.iceberg_types import dead_letter_schema, declared_fields, with_metadata_columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_jobs.records.row_maker import ChunkRows

ORIGIN = Origin("orders", 1, 0)
NOON_MS = 1_767_268_800_123


@dataclass(frozen=True)
class Shaped:
    """A new table of this pipeline, whose columns are the declared ones and those of the schemas."""

    pipeline: PipelineConfig
    schemas: KnownSchemas = KnownSchemas()  # noqa: RUF009  (frozen)
    evidence: Evidence = Evidence()  # noqa: RUF009

    @cached_property
    def schema(self) -> Schema:
        """The table's."""
        return self._table[0]

    @cached_property
    def maker(self) -> RowMaker:
        """What a task makes rows with, after its way to the task."""
        schema = arrow_schema(self.schema)
        decoder = format_of(self.pipeline, self.schemas, self.schema, self._table[1]).decoder
        shaping = checked_shaping(self.pipeline, schema)
        letters = arrow_schema(dead_letter_schema())
        maker = RowMaker(
            decoder,
            ORIGIN,
            "batch",
            schema,
            letters,
            shaping=shaping,
            growth=self.pipeline.table_schema.growth,
        )
        made: RowMaker = pickle.loads(pickle.dumps(maker))  # noqa: S301
        return made

    @cached_property
    def check(self) -> RowCheck:
        """What an audit judges rows with."""
        plain = format_of(self.pipeline, self.schemas, self.schema, self._table[1]).plain
        ignores = self.pipeline.table_schema.growth.ignores
        return RowCheck(
            plain,
            ORIGIN,
            arrow_schema(self.schema),
            ignores,
            shaping=checked_shaping(self.pipeline, arrow_schema(self.schema)),
        )

    def make(self, *values: bytes) -> ChunkRows:
        """Return what the values come to, and have an audit find it right."""
        chunk = chunk_of(values)
        made = self.maker.make(chunk)
        every = np.asarray(chunk.offsets)
        placed = placed_rows(made.rows, made.routed)
        assert not len(self.check.compare(chunk, placed).differing)
        gone = np.setdiff1d(every, placed.column("_kafka_offset").to_numpy())
        audited = {reason: each.tolist() for reason, each in self.check.left_out(chunk, gone).items()}
        assert audited == {**made.left_out, **made.passed}
        return made

    def of_json(self, *records: Any) -> ChunkRows:
        """Do the same for JSON."""
        return self.make(
            *(each if isinstance(each, bytes) else json.dumps(each).encode() for each in records)
        )

    @cached_property
    def _table(self) -> tuple[Schema, Any]:
        columns = format_of(self.pipeline, self.schemas).columns
        lacks, _ = columns.first(self.evidence, declared_fields(self.pipeline.declared))
        schema = with_metadata_columns(evolved(Schema(), lacks), key_is_binary=self.pipeline.key_is_binary)
        return schema, bind({}, lacks.bindings, schema)


def shaped(columns: dict[str, Any], *, exact: bool = True, **settings: Any) -> Shaped:
    """Return a pipeline with these columns and, unless told otherwise, no others."""
    schema = {"new_fields": "ignore"} if exact else {}
    return Shaped(
        PipelineConfig.model_validate(
            {"name": "orders", "topic": "orders", "table": "lake.orders", "columns": columns}
            | {"table_schema": schema, **settings}
        )
    )


def chunk_of(values: Sequence[bytes], partition: int = 0) -> Chunk:
    """Return the values as records with keys and times."""
    count = len(values)
    keys: list[bytes | None] = [b"k%d" % number for number in range(count)]
    return Chunk(partition, [*range(count)], [NOON_MS] * count, keys, [*values], [None] * count)


def column(made: ChunkRows, name: str) -> list[Any]:
    """Return a column's values."""
    values: list[Any] = made.rows.column(name).to_pylist()
    return values


def letters(made: ChunkRows) -> list[tuple[int, str, str | None, str]]:
    """Return offset, phase, field and reason of each dead letter."""
    names = ("_kafka_offset", "phase", "field", "error")
    return [tuple(row[name] for name in names) for row in made.dead_letters.to_pylist()]
