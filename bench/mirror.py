"""A mirror beside a table of the same changes, and beside Spark's MERGE: loads, batches, one after another.

Everything in this process on one warm Spark server, in turns. MERGE gets the changes from a table, decoded.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from bench.lab import PIPELINE, Lab
from prove.lab.debezium import ends
from prove.lab.debezium_events import Column, Source
from prove.lab.kafka_server import KafkaBroker, Record
from resources.connections import open_connections
from spark_jobs.config.file import load_config
from spark_jobs.drain.drain import DrainResult, drain
from spark_jobs.spark.procedures import table_argument
from spark_jobs.upkeep.registry import BY_NAME
from spark_jobs.upkeep.upkeep import run_upkeep

if TYPE_CHECKING:
    from pathlib import Path

    from spark_jobs.connections.connect import Connections

CHANGES = 10_000
ROUNDS = 5
BATCHES = 100
BUDGET_SECONDS = 1800.0
PRODUCED_AT_ONCE = 50_000
GOALS = {"load": 0.5, "merge": 8.0, "append": 4.0, "later": 1.5, "worst": 4.0, "schemas": 2.5}
_PLAIN = Source()
_WITH_SCHEMA = Source(
    {
        "id": Column("int64", optional=False),
        "name": Column("string"),
        "score": Column("double"),
        "seen": Column("string", "io.debezium.time.ZonedTimestamp"),
    }
)
_MERGE = """MERGE INTO {merged} t USING (SELECT * FROM (SELECT *, row_number() OVER
 (PARTITION BY _cdc_row_id ORDER BY _kafka_offset DESC) AS n FROM {changes} WHERE _kafka_offset >= {first})
 WHERE n = 1) s ON t._cdc_row_id = s._cdc_row_id
 WHEN MATCHED AND s._cdc_operation = 'd' THEN DELETE
 WHEN MATCHED THEN UPDATE SET t.name = s.name, t.score = s.score, t._cdc_sequence = s._cdc_sequence
 WHEN NOT MATCHED AND s._cdc_operation <> 'd' THEN INSERT (id, name, score, _cdc_row_id, _cdc_sequence,
 _kafka_generation, _kafka_partition, _kafka_offset) VALUES (s.id, s.name, s.score, s._cdc_row_id,
 s._cdc_sequence, s._kafka_generation, s._kafka_partition, s._kafka_offset)"""


@dataclass(frozen=True, slots=True)
class MirrorResult:
    """Seconds; those of batches are medians of so many rounds of ``CHANGES`` changes.

    ``commit_seconds`` are the mirror's fold and commit, ``merge_seconds`` Spark's on the same changes.
    ``batch_seconds`` are of one batch after another, the last one after upkeep. ``schema_cpu`` is the CPU a
    row of events with schemas, as a part of that without.
    """

    rows: int
    load_seconds: float
    append_load_seconds: float
    mirror_seconds: float
    commit_seconds: float
    append_seconds: float
    merge_seconds: float
    batch_seconds: tuple[float, ...]
    schema_cpu: float


def measure_mirror(lab: Lab, rows: int, batches: int = BATCHES) -> MirrorResult:
    """Load ``rows``, then change some of them again and again."""
    broker, draw = KafkaBroker(lab.bootstrap_servers), random.Random(rows)
    topic = broker.new_topic(1, retention_ms=-1)
    _produce(broker, topic, [("r", n) for n in range(rows)])
    with lab.spark("spark-mirror") as spark:
        schema_cpu = _schema_cpu(lab, broker, spark, rows // 10)  # it warms the server, too
        paths = {
            layout: lab.configure(f"mirror-{layout}", topic, spark, layout=layout)
            for layout in ("mirror", "changes")
        }
        loads = {layout: _timed_drain(path)[0] for layout, path in paths.items()}
        spent: dict[str, list[float]] = {name: [] for name in ("mirror", "commit", "changes", "merge")}
        with _opened(paths["changes"], "upkeep") as connections:
            _copy_for_merge(connections)
            for _ in range(ROUNDS):
                first = ends(broker, topic)[0]
                _produce(broker, topic, _changes(draw, rows))
                seconds, result = _timed_drain(paths["mirror"])
                spent["mirror"].append(seconds)
                spent["commit"].append(_of_commit(result))
                spent["changes"].append(_timed_drain(paths["changes"])[0])
                spent["merge"].append(_merge(connections, first))
        steps = []
        for _ in range(batches):
            _produce(broker, topic, _changes(draw, rows))
            steps.append(_timed_drain(paths["mirror"])[0])
        with _opened(paths["mirror"], "upkeep") as connections:
            pipeline = load_config(paths["mirror"]).pipelines[0]
            run_upkeep(BY_NAME["compaction"], pipeline, connections)
        _produce(broker, topic, _changes(draw, rows))
        steps.append(_timed_drain(paths["mirror"])[0])
    of = {name: median(each) for name, each in spent.items()}
    return MirrorResult(
        rows,
        loads["mirror"],
        loads["changes"],
        of["mirror"],
        of["commit"],
        of["changes"],
        of["merge"],
        tuple(steps),
        schema_cpu,
    )


def _changes(draw: random.Random, rows: int) -> list[tuple[str, int]]:
    return [("d" if n % 50 == 0 else "u", key) for n, key in enumerate(draw.sample(range(rows), CHANGES))]


def _produce(
    broker: KafkaBroker, topic: str, changes: Sequence[tuple[str, int]], source: Source = _PLAIN
) -> None:
    first = ends(broker, topic)[0]
    for begin in range(0, len(changes), PRODUCED_AT_ONCE):
        records = []
        for at, (operation, key) in enumerate(changes[begin : begin + PRODUCED_AT_ONCE], first + begin):
            row = {"id": key, "name": f"name {key} {at}", "score": at * 0.5, "seen": "2024-02-29T10:00:00Z"}
            event = source.event(operation, None if operation == "d" else row, lsn=1000 + at)
            records.append(Record(event, key=source.key(key)))
        broker.produce(topic, records)


def _timed_drain(path: Path) -> tuple[float, DrainResult]:
    with _opened(path, "drain") as connections:
        pipeline = load_config(path).pipelines[0]
        began = time.monotonic()
        result = drain(pipeline, connections, budget_seconds=BUDGET_SECONDS, on_progress=lambda _batch: None)
        return time.monotonic() - began, result


def _of_commit(result: DrainResult) -> float:
    return sum(each.durations_ms["fold"] + each.durations_ms["commit"] for each in result.batches) / 1000


@contextmanager
def _opened(path: Path, kind: str) -> Iterator[Connections]:
    with open_connections(
        load_config(path), PIPELINE, kind=kind, actor="bench", run_id="bench"
    ) as connections:
        yield connections


def _names(connections: Connections) -> dict[str, str]:
    catalog = connections.open_catalog().name
    return {
        "changes": table_argument(catalog, "bench.orders"),
        "merged": table_argument(catalog, "bench.merged"),
    }


def _copy_for_merge(connections: Connections) -> None:
    names = _names(connections)
    connections.spark().sql(
        f"CREATE TABLE {names['merged']} USING iceberg TBLPROPERTIES ('format-version'='2',"  # noqa: S608
        " 'write.merge.mode'='merge-on-read', 'write.delete.mode'='merge-on-read',"
        f" 'write.update.mode'='merge-on-read') AS SELECT * FROM {names['changes']}"
    ).collect()


def _merge(connections: Connections, first: int) -> float:
    statement = _MERGE.format(**_names(connections), first=first)
    began = time.monotonic()
    connections.spark().sql(statement).collect()
    return time.monotonic() - began


def _schema_cpu(lab: Lab, broker: KafkaBroker, spark: object, rows: int) -> float:
    """Return the CPU of tasks a row with schemas, as a part of that without."""
    cpu = []
    for number, source in enumerate((_PLAIN, _WITH_SCHEMA)):
        topic = broker.new_topic(1, retention_ms=-1)
        _produce(broker, topic, [("r", n) for n in range(rows)], source)
        path = lab.configure(f"mirror-schema-{number}", topic, spark, layout="mirror")  # type: ignore[arg-type]
        _, result = _timed_drain(path)
        cpu.append(sum(sum(batch.cpu_us.values()) for batch in result.batches) / rows)
    return cpu[1] / cpu[0]
