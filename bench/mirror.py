"""A mirror, a table of the same changes, and Spark's MERGE: loads, batches, a large mirror.

Everything in this process on one warm Spark server, in turns. MERGE gets the changes from a table, decoded.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from bench.lab import PIPELINE, Lab
from prove.lab.debezium import ends
from prove.lab.debezium_events import Column, Source
from prove.lab.kafka_server import KafkaBroker, Record
from resources.sluice import open_connections
from spark_jobs.config.file import load_config
from spark_jobs.drain.drain import DrainResult, drain
from spark_jobs.spark.procedures import table_argument
from spark_jobs.upkeep.registry import BY_NAME
from spark_jobs.upkeep.upkeep import run_upkeep, upkeep_due

if TYPE_CHECKING:
    from pathlib import Path

    from servers.spark_connect import SparkConnectServer
    from spark_jobs.connections.connect import Connections

CHANGES = 10_000
ROUNDS = 5
BUDGET_SECONDS = 1800.0
PRODUCED_AT_ONCE = 50_000
_KEY, _LSN = 1_234_567_890, 9_876_543_210  # stand for an event's own in its form
GOALS = {"load": 0.5, "merge": 8.0, "append": 4.0, "later": 1.5, "worst": 4.0, "schemas": 2.5, "large": 6.0}
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
    """Seconds; batches are medians over rounds of ``CHANGES`` changes.

    ``commit_seconds`` are the mirror's fold and commit, ``merge_seconds`` Spark's on the same changes.
    ``batch_seconds`` are of one batch after another, between which upkeep ran ``upkeeps`` times; the last one
    is after more of it. ``schema_cpu`` is the CPU a row of events with schemas, as a part of that without.
    The ``large`` ones are of a mirror of ``large_rows``.
    """

    rows: int
    load_seconds: float
    append_load_seconds: float
    mirror_seconds: float
    commit_seconds: float
    append_seconds: float
    merge_seconds: float
    batch_seconds: tuple[float, ...]
    upkeeps: int
    schema_cpu: float
    large_rows: int
    large_load_seconds: float
    large_seconds: float
    large_commit_seconds: float


def measure_mirror(lab: Lab, rows: int, batches: int, large_rows: int) -> MirrorResult:
    """Load ``rows``, then change some of them repeatedly; then a larger mirror."""
    broker, draw = KafkaBroker(lab.bootstrap_servers), random.Random(rows)
    topic = _loaded_topic(broker, rows)
    with lab.spark("spark-mirror") as spark:
        schema_cpu = _schema_cpu(lab, broker, spark, rows // 10)  # it warms the server, too
        paths = {
            layout: lab.configure(f"mirror-{layout}", topic, spark, layout=layout)
            for layout in ("mirror", "changes")
        }
        load, append_load = (_timed_drain(path)[0] for path in paths.values())
        spent = _rounds(broker, paths, _Changed(broker, topic, paths["mirror"], draw, rows))
        steps, upkeeps = _one_after_another(_Changed(broker, topic, paths["mirror"], draw, rows), batches)
        large_load, large_drain, large_commit = _large(lab, spark, broker, large_rows)
    mirror, commit, append, merge = (median(each) for each in zip(*spent, strict=True))
    return MirrorResult(
        rows,
        load,
        append_load,
        mirror,
        commit,
        append,
        merge,
        tuple(steps),
        upkeeps,
        schema_cpu,
        large_rows,
        large_load,
        large_drain,
        large_commit,
    )


def _large(lab: Lab, spark: SparkConnectServer, broker: KafkaBroker, rows: int) -> tuple[float, float, float]:
    """Return the seconds of the load, of a later drain of changes, and of its fold and commit."""
    topic = _loaded_topic(broker, rows)
    path = lab.configure("mirror-large", topic, spark, layout="mirror")
    load, _ = _timed_drain(path)
    change = _Changed(broker, topic, path, random.Random(rows), rows)
    drains, commits = zip(*(change() for _ in range(ROUNDS)), strict=True)
    return load, median(drains), median(commits)


def _rounds(
    broker: KafkaBroker, paths: Mapping[str, Path], change: _Changed
) -> list[tuple[float, float, float, float]]:
    """Return the seconds per round of the mirror's drain and commit, the other table's, and MERGE."""
    spent = []
    with _opened(paths["changes"], "upkeep") as connections:
        _copy_for_merge(connections)
        for _ in range(ROUNDS):
            first = ends(broker, change.topic)[0]
            of_mirror = change()
            spent.append((*of_mirror, _timed_drain(paths["changes"])[0], _merge(connections, first)))
    return spent


def _one_after_another(change: _Changed, batches: int) -> tuple[list[float], int]:
    """Return the seconds of this many batches, of one after upkeep, and the number of upkeep runs."""
    steps, upkeeps = [], 0
    for _ in range(batches):
        upkeeps += _tidied(change.path)
        steps.append(change()[0])
    _tidied(change.path, "compaction")
    return [*steps, change()[0]], upkeeps


@dataclass(frozen=True, slots=True)
class _Changed:
    """A mirror of this many rows; each call changes ``CHANGES`` of them."""

    broker: KafkaBroker
    topic: str
    path: Path
    draw: random.Random
    rows: int

    def __call__(self) -> tuple[float, float]:
        """Return the seconds of the drain of the changes, and of its fold and commit."""
        _produce(self.broker, self.topic, _changes(self.draw, self.rows))
        seconds, result = _timed_drain(self.path)
        return seconds, _of_commit(result)


def _loaded_topic(broker: KafkaBroker, rows: int) -> str:
    """Return a topic with a snapshot of this many rows."""
    topic = broker.new_topic(1, retention_ms=-1)
    _produce(broker, topic, [("r", n) for n in range(rows)])
    return topic


def _tidied(path: Path, always: str = "") -> int:
    """Run due upkeep, as the sensor would between two drains, and this kind; return the number."""
    with _opened(path, "upkeep") as connections:
        pipeline = load_config(path).pipelines[0]
        due = [due.kind.name for due in upkeep_due(pipeline, connections) if not due.kind.goes_by_clock]
        for name in {*due, *filter(None, [always])}:
            run_upkeep(BY_NAME[name], pipeline, connections)
    return "compaction" in due


def _changes(draw: random.Random, rows: int) -> list[tuple[str, int]]:
    return [("d" if n % 50 == 0 else "u", key) for n, key in enumerate(draw.sample(range(rows), CHANGES))]


def _produce(
    broker: KafkaBroker, topic: str, changes: Sequence[tuple[str, int]], source: Source = _PLAIN
) -> None:
    first = ends(broker, topic)[0]
    events = {operation: _form(source, operation) for operation in "rud"}
    key_form = _with_numbers(source.key(_KEY))
    for begin in range(0, len(changes), PRODUCED_AT_ONCE):
        records = []
        part = changes[begin : begin + PRODUCED_AT_ONCE]
        for lsn, (operation, key) in enumerate(part, 1000 + first + begin):
            numbers = {b"key": key, b"lsn": lsn, b"commit": lsn - 10}
            records.append(Record(events[operation] % numbers, key=key_form % numbers))
        broker.produce(topic, records)


def _form(source: Source, operation: str) -> bytes:
    """Return an event with placeholders for numbers: JSON encoding would take longer than the drain."""
    row = {"id": _KEY, "name": f"name {_KEY} {_LSN}", "score": _LSN + 0.5, "seen": "2024-02-29T10:00:00Z"}
    return _with_numbers(source.event(operation, None if operation == "d" else row, lsn=_LSN))


def _with_numbers(text: bytes) -> bytes:
    text = text.replace(b"%d" % _KEY, b"%(key)d").replace(b"%d" % _LSN, b"%(lsn)d")
    return text.replace(b"%d" % (_LSN - 10), b"%(commit)d")


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


def _schema_cpu(lab: Lab, broker: KafkaBroker, spark: SparkConnectServer, rows: int) -> float:
    """Return the tasks' CPU per row with schemas, relative to that without."""
    cpu = []
    for number, source in enumerate((_PLAIN, _WITH_SCHEMA)):
        topic = broker.new_topic(1, retention_ms=-1)
        _produce(broker, topic, [("r", n) for n in range(rows)], source)
        path = lab.configure(f"mirror-schema-{number}", topic, spark, layout="mirror")
        _, result = _timed_drain(path)
        cpu.append(sum(sum(batch.cpu_us.values()) for batch in result.batches) / rows)
    return cpu[1] / cpu[0]
