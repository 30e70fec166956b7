"""Costs of shaping relative to rows without it: in this process, by chunk, in rotating order.

A part a file: ``measure_expressions`` is about columns and filters.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyiceberg.schema import Schema

from bench.records import order_values
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.kafka.chunks import Chunk
from spark_jobs.kafka.reader import MAX_CHUNK_RECORDS
from spark_jobs.records.reading_plan import format_of
from spark_jobs.records.row_maker import RowMaker
from spark_jobs.records.shape import Origin
from spark_jobs.records.shaped_rows import checked_shaping
from spark_jobs.schema.arrow_schema import arrow_schema
from spark_jobs.schema.column_source import KnownSchemas
from spark_jobs.schema.evolution import evolved
from spark_jobs.schema.iceberg_types import dead_letter_schema, declared_fields, with_metadata_columns

if TYPE_CHECKING:
    from bench.lab import Lab

ROUNDS = 3
PLAIN = "as they are"
GOALS = {"a column and a filter in SQL": 1.2}
_TOTAL = {"type": "double", "sql": "price * quantity"}
CASES: dict[str, dict[str, Any]] = {
    PLAIN: {},
    "a column in SQL": {"columns": {"made": _TOTAL}},
    "a column and a filter in SQL": {
        "columns": {"made": _TOTAL},
        "filter": "currency IN ('EUR', 'NOK') AND quantity >= 0",
    },
    "a column by JMESPath": {"columns": {"made": {"type": "string", "jmespath": "customer"}}},
    "a column from text": {"columns": {"order_text": {"type": "long", "from": "text"}}},
}


@dataclass(frozen=True, slots=True)
class ShapesCostResult:
    """CPU microseconds a record of decoding and shaping, by case."""

    us: Mapping[str, float]

    @property
    def ratios(self) -> dict[str, float]:
        """Return each case relative to rows without shaping."""
        return {name: us / self.us[PLAIN] for name, us in self.us.items() if name != PLAIN}


def measure_shapes_cost(_lab: Lab, records: int, *, rounds: int = ROUNDS) -> ShapesCostResult:
    """Make rows of this many orders in each case."""
    return ShapesCostResult(measure_expressions(records, rounds))


def measure_expressions(records: int, rounds: int) -> dict[str, float]:
    """Return CPU microseconds per record by case."""
    first = [json.loads(value) for value in order_values(0, MAX_CHUNK_RECORDS)]
    makers = {name: _maker(settings, _chunk(first)) for name, settings in CASES.items()}
    spent: defaultdict[str, float] = defaultdict(float)
    for turn in range(rounds):
        for start in range(0, records, MAX_CHUNK_RECORDS):
            chunk = _chunk([json.loads(value) for value in order_values(start, MAX_CHUNK_RECORDS)])
            for name in list(makers)[:: -1 if turn % 2 else 1]:
                began = time.process_time()
                makers[name].make(chunk)
                # The first of all pays for what is made once in a process.
                spent[name] += time.process_time() - began if start else 0.0
    return {name: seconds / (rounds * (records - MAX_CHUNK_RECORDS)) * 1e6 for name, seconds in spent.items()}


def _chunk(orders: list[dict[str, Any]]) -> Chunk:
    values: list[bytes | None] = [
        json.dumps({**order, "order_text": str(number)}).encode() for number, order in enumerate(orders)
    ]
    count = len(values)
    return Chunk(0, [*range(count)], [1_767_268_800_123] * count, [b"key"] * count, values, [None] * count)


def _maker(settings: dict[str, Any], seen: Chunk) -> RowMaker:
    pipeline = PipelineConfig.model_validate({"name": "p", "topic": "p", "table": "l.p", **settings})
    read_as = format_of(pipeline, KnownSchemas())
    evidence = read_as.decoder.observe(seen)
    lacks, _ = read_as.columns.first(evidence, declared_fields(pipeline.declared))
    schema = arrow_schema(with_metadata_columns(evolved(Schema(), lacks)))
    letters = arrow_schema(dead_letter_schema())
    shaping = checked_shaping(pipeline, schema)
    return RowMaker(
        read_as.decoder,
        Origin("p", 1, 0),
        "",
        schema,
        letters,
        shaping=shaping,
        growth=pipeline.table_schema.growth,
    )
