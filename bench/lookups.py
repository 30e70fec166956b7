"""Lookups and a count in a large lake, and a full scan with a filter."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from bench.drains import run_drains
from bench.lab import PIPELINE
from bench.processor_time import least_cpu_ms
from bench.records import fill, generate, order_keys
from prove.lab.kafka_server import KafkaBroker, Record
from resources.sluice import open_connections
from spark_jobs.config.file import load_config
from spark_jobs.connections.connect import load_drained
from spark_jobs.lake.file_rows import scan_schema, stream
from spark_jobs.query.lookup import newest_of_key
from spark_jobs.query.query import query
from spark_jobs.schema.iceberg_types import KEY

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bench.lab import Lab

GOAL_LOOKUP, GOAL_COUNT = 1 / 8, 1 / 20
_COUNT = "SELECT count(*) FROM orders"
_ONCE = "customer-100000x"  # lies among the others


@dataclass(frozen=True, slots=True)
class LookupsResult:
    """CPU milliseconds; a lookup of ``found`` rows takes ``lookup_ms``."""

    rows: int
    found: tuple[int, ...]
    lookup_ms: tuple[float, ...]
    count_ms: float
    whole_ms: float


def measure_lookups(lab: Lab, records: int) -> LookupsResult:
    """Look up keys of no row, of one, and of some rows in every row group."""
    servers, topic = lab.bootstrap_servers, "lookups"
    generate(servers, topic, records // 2)
    KafkaBroker(servers).produce(topic, [Record(b'{"order_id": 1}', key=_ONCE.encode(), partition=0)])
    fill(servers, topic, records // 2, records - records // 2)
    with lab.spark(f"spark-{topic}") as spark:
        path = lab.configure(topic, topic, spark)
        run_drains(spark, path)
    config = load_config(path)
    (pipeline,) = config.pipelines
    with open_connections(config, PIPELINE, kind="query", actor="bench", run_id="bench") as connections:
        table = load_drained(pipeline, connections)
        often = order_keys(0, 1)[0].decode()

        def looked_up(key: str) -> int:
            return _rows(newest_of_key(pipeline, connections, key).batches)

        def counted() -> int:
            with query(pipeline, connections, _COUNT) as answer:
                return int(next(iter(answer.batches)).column(0)[0].as_py())

        def whole() -> int:
            scan = table.scan()
            batches = stream(scan, scan_schema(scan))
            return sum(batch.filter(pc.equal(batch.column(KEY), often)).num_rows for batch in batches)

        lookups = [partial(looked_up, key) for key in (f"{_ONCE}y", _ONCE, often)]
        return LookupsResult(
            counted(),
            tuple(each() for each in lookups),
            tuple(map(least_cpu_ms, lookups)),
            least_cpu_ms(counted),
            least_cpu_ms(whole),
        )


def _rows(batches: Iterable[pa.RecordBatch]) -> int:
    return sum(batch.num_rows for batch in batches)
