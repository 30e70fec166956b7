"""What decoding and shaping cost a row, and how far decoding is from Arrow's JSON reader alone."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.json
from pyiceberg.schema import Schema

from spark_jobs.decode.infer import observe
from spark_jobs.decode.json import decode_chunk
from spark_jobs.decode.records import Origin
from spark_jobs.decode.shape import shape
from spark_jobs.io.arrow_schema import arrow_schema
from spark_jobs.io.kafka_chunks import Chunk
from spark_jobs.io.metadata_columns import with_metadata_columns

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_ROUNDS = 20


@dataclass(frozen=True, slots=True)
class DecodeCost:
    """CPU microseconds a row, the best of some rounds; ``bare_us`` is Arrow's reader without any guard."""

    bare_us: float
    decode_us: float
    shape_us: float
    observe_us: float
    one_bad_record_us: float

    @property
    def ratio(self) -> float:
        """How many times the bare reader decoding costs."""
        return self.decode_us / self.bare_us


def measure_decode(values: Sequence[bytes], schema: pa.Schema) -> DecodeCost:
    """Measure on one chunk of values that all fit ``schema``, the JSON's columns."""
    block = b"\n".join(values)
    read_options = pyarrow.json.ReadOptions(use_threads=False, block_size=len(block) + 1)
    parse_options = pyarrow.json.ParseOptions(explicit_schema=schema)
    count = len(values)
    chunk = Chunk(0, list(range(count)), [0] * count, [None] * count, list(values), [None] * count)
    table_schema = pa.schema([*schema, *arrow_schema(with_metadata_columns(Schema()))])
    decoded = decode_chunk(values, schema)
    spoiled = [b"oops", *values[1:]]

    def best_us(work: Callable[[], object], rounds: int = _ROUNDS) -> float:
        return min(_cpu_seconds(work) for _ in range(rounds)) / count * 1e6

    return DecodeCost(
        bare_us=best_us(lambda: pyarrow.json.read_json(pa.BufferReader(block), read_options, parse_options)),
        decode_us=best_us(lambda: decode_chunk(values, schema)),
        shape_us=best_us(lambda: shape(decoded, chunk, Origin("bench", 1, 0), table_schema)),
        observe_us=best_us(lambda: observe(values), 3),
        one_bad_record_us=best_us(lambda: decode_chunk(spoiled, schema), 5),
    )


def _cpu_seconds(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started
