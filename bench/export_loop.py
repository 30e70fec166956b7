"""An archive's export, and a bare producer of the same records with the same settings.

The bare producer has its records in memory. Both run in this process, round by round in an order that turns
round, after a look at all there is to do, for which all is imported and connected.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from confluent_kafka import Message, Producer

from resources.sluice import open_connections
from spark_jobs.config.file import load_config
from spark_jobs.export.export import export
from spark_jobs.export.plan import archived_chunks, plan_export
from spark_jobs.export.target import make_topic
from spark_jobs.kafka.client_properties import producer_properties

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

    from spark_jobs.config.settings import PipelineConfig
    from spark_jobs.connections.connect import Connections

GOAL_SPEED = 0.5
_TIMEOUT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class ExportResult:
    """Microseconds per record over all rounds: time, and CPU with librdkafka's threads."""

    records: int
    export_us: float
    bare_us: float
    export_cpu_us: float
    bare_cpu_us: float

    @property
    def speed_ratio(self) -> float:
        """Return the export's speed relative to the bare producer's."""
        return self.bare_us / self.export_us

    @property
    def cpu_ratio(self) -> float:
        """Return the same by CPU time."""
        return self.bare_cpu_us / self.export_cpu_us


def measure_export(config: Path, rounds: int) -> ExportResult:
    """Export the archive of the configuration's only pipeline repeatedly, each time to a new topic."""
    loaded = load_config(config)
    pipeline = loaded.pipelines[0]
    with open_connections(loaded, pipeline.name, kind="export", actor="bench", run_id="bench") as connections:
        records, partitions = _in_memory(pipeline, connections)
        export(pipeline, connections, "exported-nothing", dry_run=True)
        spent = {"export": [0.0, 0.0], "bare": [0.0, 0.0]}
        for turn in range(rounds):
            ways: dict[str, Callable[[str], Any]] = {
                "export": lambda topic: export(pipeline, connections, topic),
                "bare": lambda topic: _produce_bare(connections, topic, partitions, records),
            }
            for name in list(ways)[:: -1 if turn % 2 else 1]:
                began, worked = time.monotonic(), time.process_time()
                ways[name](f"{name}-{turn}")
                spent[name][0] += time.monotonic() - began
                spent[name][1] += time.process_time() - worked
    each = {name: [part / (rounds * len(records)) * 1e6 for part in parts] for name, parts in spent.items()}
    return ExportResult(len(records), each["export"][0], each["bare"][0], each["export"][1], each["bare"][1])


def _in_memory(pipeline: PipelineConfig, connections: Connections) -> tuple[list[tuple[Any, ...]], int]:
    """Return the arguments of ``Producer.produce`` for each record, and the number of partitions."""
    plan = plan_export(pipeline, connections)
    return [
        (value, key, chunk.partition, timestamp_ms)
        for offsets in plan.ranges
        for chunks in archived_chunks(plan.table, offsets, plan.generation)
        for chunk in chunks
        for value, key, timestamp_ms in zip(chunk.values, chunk.keys, chunk.timestamps_ms, strict=True)
    ], plan.partitions


def _produce_bare(
    connections: Connections, topic: str, partitions: int, records: list[tuple[Any, ...]]
) -> None:
    make_topic(connections, topic, partitions)
    failures: list[KafkaError] = []

    def told(error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            failures.append(error)

    producer = Producer(producer_properties(connections.kafka))
    for value, key, partition, timestamp_ms in records:
        while True:
            try:
                producer.produce(topic, value, key, partition, on_delivery=told, timestamp=timestamp_ms)
                break
            except BufferError:
                producer.poll(0.1)
    if producer.flush(_TIMEOUT_SECONDS) or failures:
        raise RuntimeError(f"records were not acknowledged; {failures[:1]}")
