"""Processes of the follower's measurement: itself, a bare consumer, and their producer.

Each runs in a process of its own, told what to do over a pipe, so that CPU and memory are its own.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
from confluent_kafka import Consumer, Producer, TopicPartition

from bench.processor_time import TreeClock, least_cpu_ms, mean_cpu_ms, tree
from bench.records import PARTITIONS, order_values
from prove.lab.work_loop import looping
from resources.sluice import open_connections
from servers.serving import GARBAGE_THRESHOLD
from serving.service import QueryService, Question
from spark_jobs.config.file import load_config
from spark_jobs.hot.follower import Follower
from spark_jobs.query.lookup import newest_of_key

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from spark_jobs.config.settings import PipelineConfig
    from spark_jobs.connections.connect import Connections
    from spark_jobs.hot.prefix import Prefix

PIPELINE = "orders"
_PATIENCE_SECONDS = 300.0
_LOOKS, _LOOK_SECONDS = 20, 0.2
_MOST_IN_FLIGHT = 90_000  # of what librdkafka has room for
_ASKED = (
    "SELECT count(*) FROM orders",
    "SELECT city, count(*), sum(quantity) FROM orders GROUP BY city",
    "SELECT * FROM orders WHERE order_id = 4711",
)
# An offset of partition 0 and when it was produced, or could be seen, by the clock all processes share.
Moments = list[tuple[int, float]]


class Worker:
    """A process with functions: ``ask(name, *arguments)`` calls one there."""

    def __init__(self, connection: Connection, pid: int) -> None:
        self._connection = connection
        self.pid = pid

    def ask(self, name: str, *arguments: object) -> Any:
        """Return the answer."""
        self.tell(name, *arguments)
        return self.answer()

    def tell(self, name: str, *arguments: object) -> None:
        """Ask without waiting."""
        self._connection.send((name, arguments))

    def answer(self) -> Any:
        """Wait for the answer to an earlier question."""
        return self._connection.recv()


@contextmanager
def worker(run: Callable[..., None], *arguments: object) -> Iterator[Worker]:
    """Start ``run(connection, ...)`` in a new process, and end it at the end."""
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    process = spawn.Process(target=run, args=(theirs, *arguments), daemon=True)
    process.start()
    theirs.close()
    try:
        yield Worker(ours, process.pid or 0)
    finally:
        ours.close()
        process.join(30)
        process.kill()


def follow(connection: Connection, path: Path) -> None:
    """Follow a configuration's pipeline, and answer questions."""
    gc.set_threshold(GARBAGE_THRESHOLD)
    config = load_config(path)
    with open_connections(config, PIPELINE, kind="query", actor="bench", run_id="bench") as connections:
        follower = Follower(config.pipelines, connections, folder=path.parent / "serve", memory_bytes=1 << 40)
        follower.start()

        def seen(seconds: float, queries: int) -> Moments:
            """Watch, with this many queries per second."""
            if not queries:
                return _seen(follower, seconds)
            with looping(lambda number: once(_ASKED[number % len(_ASKED)], 1 / queries)):
                return _seen(follower, seconds)

        def until(ends: dict[int, int]) -> int:
            after = {partition: end - 1 for partition, end in ends.items()}
            prefix = follower.pin(PIPELINE, after=after, patience_seconds=_PATIENCE_SECONDS)
            return sum(len(rows) for rows in prefix.rows)

        def until_drained() -> None:
            while follower.statuses()[0].hot_rows:
                time.sleep(0.1)

        def sizes() -> tuple[int, int, int]:
            """Return the rows, their bytes, and the process's."""
            status = follower.statuses()[0]
            resident = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
            return status.hot_rows, status.size_bytes, resident

        service = QueryService(config.pipelines, connections, follower, config.serve)
        clock = TreeClock(os.getpid())

        def once(sql: str, pause_seconds: float = 0) -> None:
            with service.ask(config.pipelines[0], Question(sql)) as answered:
                list(answered.answer.batches)
            time.sleep(pause_seconds)

        def asked(sql: str) -> float:
            """Return the CPU milliseconds of a query, with the process that answers it."""
            return mean_cpu_ms(partial(once, sql), os.getpid())

        def looked_up(keys: Sequence[str], sql: str) -> list[float]:
            """Return the CPU milliseconds of lookups, as over HTTP, and of a query elsewhere."""
            pipeline, prefix = config.pipelines[0], follower.pin(PIPELINE)
            own = [least_cpu_ms(partial(_look_up, pipeline, connections, key, follower)) for key in keys]
            return [*own, _in_arrow(prefix, sql)]

        at_once = partial(_most_memory, once, config.serve.max_queries)
        told = (seen, until, until_drained, sizes, asked, looked_up)
        _answer(connection, {f.__name__: f for f in told} | {"cpu": clock.seconds, "at_once": at_once})
        service.close()


def consume(connection: Connection, bootstrap_servers: str, topic: str) -> None:
    """Read from the topic's end on, and discard records."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "bench",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 100,
            "isolation.level": "read_committed",
        }
    )
    ends = [consumer.get_watermark_offsets(TopicPartition(topic, p))[1] for p in range(PARTITIONS)]
    consumer.assign([TopicPartition(topic, p, end) for p, end in enumerate(ends)])

    def seen(seconds: float) -> Moments:
        moments, until = [], time.monotonic() + seconds
        while (now := time.monotonic()) < until:
            messages = consumer.consume(10_000, 0) or consumer.consume(1, 0.05)
            now = time.monotonic()
            last = [message.offset() for message in messages if message.partition() == 0]
            if last:
                moments.append((int(last[-1] or 0), now))
        return moments

    _answer(connection, {"seen": seen})
    consumer.close()


def produce(connection: Connection, bootstrap_servers: str, topic: str) -> None:
    """Produce at a rate for a time, evenly over the partitions."""
    producer = Producer({"bootstrap.servers": bootstrap_servers, "linger.ms": 1, "compression.type": "lz4"})
    values = order_values(0, 10_000)

    def at_rate(rate: int, seconds: float) -> Moments:
        moments: Moments = []
        began = time.monotonic()
        for number in count():
            due = began + number / rate
            if max(due, time.monotonic()) > began + seconds:
                break
            while (now := time.monotonic()) < due:
                producer.poll(0)
                time.sleep(min(0.001, due - now))
            partition = number % PARTITIONS

            def told(_error: object, message: Any, now: float = now) -> None:
                moments.append((message.offset(), now))

            watched = told if partition == 0 else None
            while len(producer) >= _MOST_IN_FLIGHT:  # the machine does other things
                producer.poll(0.01)
            producer.produce(topic, values[number % len(values)], partition=partition, on_delivery=watched)
        producer.flush(30)
        return moments

    _answer(connection, {"at_rate": at_rate})


def _answer(connection: Connection, functions: dict[str, Callable[..., Any]]) -> None:
    while True:
        try:
            name, arguments = connection.recv()
        except EOFError:
            return
        connection.send(functions[name](*arguments))


def _seen(follower: Follower, seconds: float) -> Moments:
    """Return when each offset of partition 0 was visible for a new query."""
    moments: Moments = []
    closed = Event()

    def watch() -> None:
        end = follower.pin(PIPELINE).watermark.ends[0]
        while not closed.is_set():
            try:
                marked = follower.pin(PIPELINE, after={0: end}, patience_seconds=0.5).watermark
            except Exception:  # noqa: BLE001, S112  (nothing came in the meantime)
                continue
            end = marked.ends[0]
            moments.append((end - 1, time.monotonic()))

    watching = Thread(target=watch)
    watching.start()
    time.sleep(seconds)
    closed.set()
    watching.join()
    return moments


def _most_memory(once: Callable[[str], None], queries: int, sql: str) -> tuple[int, list[int]]:
    """Return the largest memory during this many concurrent queries, total and by process."""
    looks = []
    with ExitStack() as asking:
        for _ in range(queries):
            asking.enter_context(looping(lambda _: once(sql)))
        for _ in range(_LOOKS):
            time.sleep(_LOOK_SECONDS)
            processes = list(tree(os.getpid()))
            pss_bytes = sum(each.pss_bytes() for each in processes)
            looks.append((pss_bytes, [each.private_bytes() for each in processes]))
    return max(looks)


def _look_up(pipeline: PipelineConfig, connections: Connections, key: str, follower: Follower) -> None:
    list(newest_of_key(pipeline, connections, key, prefix=follower.pin(PIPELINE)).batches)


def _in_arrow(prefix: Prefix, sql: str) -> float:
    """Return the CPU milliseconds of the same query over an Arrow table in DuckDB."""
    plain = pa.concat_tables(
        [table.cast(pa.schema([(f.name, _plain(f.type)) for f in table.schema])) for table in prefix.rows]
    ).combine_chunks()
    with duckdb.connect() as engine:
        engine.register("orders", plain)
        engine.execute("SET TimeZone = 'UTC'")
        return least_cpu_ms(lambda: engine.sql(sql).fetchall())


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind
