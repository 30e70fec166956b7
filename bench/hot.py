"""A follower, a bare consumer of its topic and a drain of its rows; and costs of queries.

Percentiles are of partition 0: from the call that produced a record until a query that begins then has it,
and until the consumer has it. The first seconds of each rate are left out. The watch is the last rate for
long, while drains take what is held whenever that is a million rows.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, TopicPartition

from bench.drains import run_drains
from bench.hot_processes import Moments, Worker, consume, follow, produce, worker
from bench.records import PARTITIONS, fill, order_keys
from prove.lab.kafka_server import KafkaBroker
from prove.lab.work_loop import looping

if TYPE_CHECKING:
    from pathlib import Path

    from bench.lab import Lab
    from servers.spark_connect import SparkConnectServer

# Rows and queries a second.
WATCH_QUERIES = 10
RATES = ((1_000, 0), (10_000, 0), (50_000, WATCH_QUERIES))
WARM_UP_SECONDS, _LATE_SECONDS = 2.0, 5.0
FIRST_RECORDS = 4_000
Source = tuple[str, str]  # bootstrap servers and a topic
HELD_RECORDS = 1_000_000  # beside which the long watch asks
GOAL_BARE_FACTOR, GOAL_BARE_MS = 4, 40
GOAL_CPU, GOAL_BYTES, GOAL_IDLE, GOAL_LOOKUP, GOAL_TOGETHER = 2.5, 160, 0.02, 1 / 20, 1.3
GOAL_WORKER_BYTES = 60 << 20  # which a worker takes beside the rows, of which there is one copy
_LOOKUP = (
    "SELECT * FROM orders WHERE _kafka_key = '{}' "
    "ORDER BY _kafka_generation DESC, _kafka_timestamp DESC NULLS LAST, _kafka_offset DESC"
)
_COUNT = "SELECT count(*) FROM orders"
_GROUP = "SELECT city, count(*), sum(quantity) FROM orders GROUP BY city"


@dataclass(frozen=True, slots=True)
class Freshness:
    """Milliseconds at p50 and p99 of follower and bare consumer, at this many rows per second.

    ``halves_ms`` are the follower's p99 of the first and of the second half of the time.
    """

    rate: int
    queries: int
    seconds: int
    hot_ms: tuple[float, float]
    bare_ms: tuple[float, float]
    halves_ms: tuple[float, float]
    cores: float

    @property
    def goal_ms(self) -> float | None:
        """The limit of the follower's p99; with queries it should not grow."""
        return None if self.queries else GOAL_BARE_FACTOR * self.bare_ms[1] + GOAL_BARE_MS


@dataclass(frozen=True, slots=True)
class HotResult:
    """CPU microseconds per row of both, bytes of ``rows`` hot rows; CPU milliseconds of queries.

    ``lookup_ms`` is of a key that only hot rows have, ``both_ms`` of one for which a file of the lake is
    opened too, ``sql_ms`` of the former as a query and ``arrow_ms`` in DuckDB over an Arrow table of the hot
    rows. ``together_ms`` and ``lake_ms`` count and group lake and hot rows, and the same rows when all are in
    the lake. ``idle`` is a share of a core. ``asked_bytes`` are the most that all processes have while all
    workers group, shared ones once, and what each shares with no other, the follower first.
    """

    rows: int
    freshness: tuple[Freshness, ...]
    idle: float
    follow_us: float
    drain_us: float
    row_bytes: float
    resident_bytes: int
    lookup_ms: float
    both_ms: float
    sql_ms: float
    arrow_ms: float
    together_ms: dict[str, float]
    lake_ms: dict[str, float]
    asked_bytes: tuple[int, list[int]]


def measure_hot(lab: Lab, records: int, seconds: int, most: int = 50_000) -> HotResult:
    """Follow an idle topic, each rate up to ``most`` for this many seconds, and this many records at once."""
    rates = [(rate, queries) for rate, queries in RATES if rate <= most]
    source = lab.bootstrap_servers, "hot"
    with _followed(lab, source) as (spark, path, follower):
        idle = _cores(follower, seconds)
        before = follower.ask("cpu")
        fill(*source, FIRST_RECORDS, records)
        rows = follower.ask("until", _ends(*source))
        follow_us = (follower.ask("cpu") - before) / rows * 1e6
        _, size_bytes, resident_bytes = follower.ask("sizes")
        keys = order_keys(FIRST_RECORDS, records)
        hot_key, other_key = max(keys).decode(), keys[records // 2].decode()
        sql = _LOOKUP.format(hot_key)
        lookup_ms, both_ms, arrow_ms = follower.ask("looked_up", [hot_key, other_key], sql)
        sql_ms = follower.ask("asked", sql)
        together_ms = _asked(follower)
        asked_bytes = follower.ask("at_once", _GROUP)
        (drain,) = run_drains(spark, path).drains
        follower.ask("until_drained")
        lake_ms = _asked(follower)
        freshness = [_freshness(source, follower, *each, seconds) for each in rates]
    drain_us = sum(drain.cpu_us.values()) / drain.rows
    sizes = size_bytes / rows, resident_bytes
    return HotResult(
        rows,
        tuple(freshness),
        idle,
        follow_us,
        drain_us,
        *sizes,
        lookup_ms,
        both_ms,
        sql_ms,
        arrow_ms,
        together_ms,
        lake_ms,
        asked_bytes,
    )


def measure_hot_watch(lab: Lab, seconds: int, rate: int = 50_000) -> Freshness:
    """Follow one rate for long, with ten queries per second."""
    source = lab.bootstrap_servers, "hot_watch"
    with (
        _followed(lab, source) as (spark, path, follower),
        looping(lambda _: _drain_later(spark, path, HELD_RECORDS / rate)),
    ):
        return _freshness(source, follower, rate, WATCH_QUERIES, seconds)


@contextmanager
def _followed(lab: Lab, source: Source) -> Iterator[tuple[SparkConnectServer, Path, Worker]]:
    """Yield a new topic with some drained records, and a process that follows it."""
    servers, topic = source
    KafkaBroker(servers).create_topic(topic, PARTITIONS)
    fill(*source, 0, FIRST_RECORDS)
    with lab.spark(f"spark-{topic}") as spark:
        path = lab.configure(topic, topic, spark, hot={"memory": "4GB"})
        run_drains(spark, path)
        with worker(follow, path) as follower:
            follower.ask("until", _ends(*source))
            yield spark, path, follower


def _drain_later(spark: SparkConnectServer, path: Path, seconds: float) -> None:
    time.sleep(seconds)
    run_drains(spark, path)


def _asked(follower: Worker) -> dict[str, float]:
    return {name: follower.ask("asked", sql) for name, sql in (("count", _COUNT), ("group by", _GROUP))}


def _ends(servers: str, topic: str) -> dict[int, int]:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "bench"})
    ends = {p: consumer.get_watermark_offsets(TopicPartition(topic, p))[1] for p in range(PARTITIONS)}
    consumer.close()
    return ends


def _cores(follower: Worker, seconds: float) -> float:
    before = follower.ask("cpu")
    time.sleep(seconds)
    return float((follower.ask("cpu") - before) / seconds)


def _freshness(source: Source, follower: Worker, rate: int, queries: int, seconds: int) -> Freshness:
    whole = seconds + WARM_UP_SECONDS
    with (
        worker(consume, *source) as bare,
        worker(produce, *source) as producer,
    ):
        bare.ask("seen", 0.5)
        before = follower.ask("cpu")
        bare.tell("seen", whole + _LATE_SECONDS)
        follower.tell("seen", whole + _LATE_SECONDS, queries)
        began = time.monotonic()
        produced = sorted(producer.ask("at_rate", rate, whole))
        seen = [each.answer() for each in (follower, bare)]
        ended = time.monotonic()
        cores = (follower.ask("cpu") - before) / whole
        counted = [moment for moment in produced if moment[1] > began + WARM_UP_SECONDS]
        hot_ms, bare_ms = (_percentiles(counted, each, ended) for each in seen)
        half = len(counted) // 2
        first, second = (_percentiles(each, seen[0], ended)[1] for each in (counted[:half], counted[half:]))
    return Freshness(rate, queries, seconds, hot_ms, bare_ms, (first, second), cores)


def _percentiles(produced: Moments, seen: Moments, ended: float) -> tuple[float, float]:
    """Return milliseconds until a record was visible, by the first look at its offset or a later one.

    One that no look found counts as if it came when looking ended: on a busy machine that can be all.
    """
    offsets = [offset for offset, _ in seen]
    ends = [*(at for _, at in seen), ended]
    waited = sorted((ends[bisect_left(offsets, offset)] - at) * 1e3 for offset, at in produced)
    return _at(waited, 0.5), _at(waited, 0.99)


def _at(waited: Sequence[float], share: float) -> float:
    return waited[min(len(waited) - 1, int(len(waited) * share))]
