"""The baseline of a drain: consume, decode and write the same records in plain processes.

No Spark, no log, no commit, no dead letters, no evolution; types are known beforehand. Interpreters, imports
and connections are ready before the clock starts, and garbage is collected as seldom as in the drain's tasks.
"""

from __future__ import annotations

import gc
import multiprocessing
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import pyarrow as pa
import pyarrow.json
import pyarrow.parquet as pq
from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from bench.records import PARTITIONS

PROCESSES = 2

_CHUNK_RECORDS = 5_000
_GARBAGE_THRESHOLD = 50_000
_ROW_GROUP_ROWS = 200_000
_ROW_GROUP_BYTES = 64 << 20
_TIMEOUT_SECONDS = 600.0
# The fastest known for one long read of whole partitions.
_CONSUMER = {
    "group.id": "bare-loop",
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
    "isolation.level": "read_committed",
    "check.crcs": True,
    "queued.min.messages": 50_000,
    "queued.max.messages.kbytes": 16_384,
    "fetch.queue.backoff.ms": 5,
    "fetch.wait.max.ms": 5,
    "fetch.message.max.bytes": 1 << 20,
}
_PARQUET = {"compression": "zstd", "compression_level": 1, "dictionary_pagesize_limit": 512 << 10}
_ORIGIN = (
    pa.field("kafka_partition", pa.int32()),
    pa.field("kafka_offset", pa.int64()),
    pa.field("kafka_timestamp", pa.timestamp("us", "UTC")),
    pa.field("kafka_key", pa.string()),
)


@dataclass(frozen=True, slots=True)
class BareResult:
    """One run of the loop; ``cpu_us`` is the CPU of all its processes after their imports."""

    rows: int
    seconds: float
    cpu_us: int
    file_bytes: int


def run_bare_loop(
    bootstrap_servers: str, topic: str, first_offset: int, folder: Path, schema: pa.Schema
) -> BareResult:
    """Read all partitions from an offset on into Parquet files in ``folder``, shared by two processes.

    ``schema`` has the types of the JSON.
    """
    folder.mkdir(parents=True)
    context = multiprocessing.get_context("spawn")
    workers = []
    for number in range(PROCESSES):
        ours, theirs = context.Pipe()
        starts = dict.fromkeys(range(number, PARTITIONS, PROCESSES), first_offset)
        path = folder / f"{number}.parquet"
        process = context.Process(
            target=_work,
            args=(bootstrap_servers, topic, starts, path),
            kwargs={"schema": schema, "pipe": theirs},
        )
        process.start()
        workers.append((process, ours))
    for _, pipe in workers:
        _receive(pipe)
    began = time.monotonic()
    for _, pipe in workers:
        pipe.send("go")
    outcomes = [_receive(pipe) for _, pipe in workers]
    seconds = time.monotonic() - began
    for process, _ in workers:
        process.join()
    file_bytes = sum(file.stat().st_size for file in folder.iterdir())
    return BareResult(sum(rows for rows, _ in outcomes), seconds, sum(cpu for _, cpu in outcomes), file_bytes)


def _receive(pipe: Connection) -> tuple[int, int]:
    if not pipe.poll(_TIMEOUT_SECONDS):
        raise RuntimeError("the bare loop does not answer")
    outcome: tuple[int, int] = pipe.recv()
    return outcome


def _work(
    bootstrap_servers: str,
    topic: str,
    starts: dict[int, int],
    path: Path,
    *,
    schema: pa.Schema,
    pipe: Connection,
) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, **_CONSUMER})
    consumer.list_topics(topic, timeout=30)
    # Arrow imports pandas with the first array made of Python values: a second that is no reading.
    pa.array([0])
    gc.freeze()
    gc.set_threshold(_GARBAGE_THRESHOLD)
    pipe.send((0, 0))
    pipe.recv()
    began = time.process_time_ns()
    consumer.assign([TopicPartition(topic, *start) for start in starts.items()])
    rows = _read_and_write(consumer, set(starts), path, schema)
    pipe.send((rows, (time.process_time_ns() - began) // 1000))
    consumer.close()


def _read_and_write(consumer: Consumer, unfinished: set[int], path: Path, schema: pa.Schema) -> int:
    rows, waiting, gathered, gathered_bytes = 0, [], 0, 0
    with pq.ParquetWriter(path, pa.schema([*schema, *_ORIGIN]), **_PARQUET) as writer:
        while unfinished:
            messages = consumer.consume(_CHUNK_RECORDS, 0.2)
            records = _records(messages, unfinished) if any(map(Message.error, messages)) else messages
            if records:
                waiting.append(_table(records, schema))
                gathered, gathered_bytes = gathered + len(records), gathered_bytes + waiting[-1].nbytes
            is_full = gathered >= _ROW_GROUP_ROWS or gathered_bytes >= _ROW_GROUP_BYTES
            if is_full or (gathered and not unfinished):
                writer.write_table(pa.concat_tables(waiting))
                rows, waiting, gathered, gathered_bytes = rows + gathered, [], 0, 0
    return rows


def _records(messages: list[Message], unfinished: set[int]) -> list[Message]:
    """Return the readable records; a completely read partition is removed from ``unfinished``."""
    records = []
    for message in messages:
        error = message.error()
        if error is None:
            records.append(message)
        elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001  (librdkafka's own code)
            unfinished.discard(message.partition())
        else:
            raise RuntimeError(error.str())
    return records


def _table(records: list[Message], schema: pa.Schema) -> pa.Table:
    block = b"\n".join([message.value() or b"" for message in records])
    decoded = pyarrow.json.read_json(
        pa.BufferReader(block),
        read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=len(block) + 1),
        parse_options=pyarrow.json.ParseOptions(explicit_schema=schema),
    )
    times = pa.array(
        [timestamp for _, timestamp in map(Message.timestamp, records)], pa.timestamp("ms", "UTC")
    )
    columns = [
        *decoded.columns,
        pa.array(map(Message.partition, records), pa.int32()),
        pa.array(map(Message.offset, records), pa.int64()),
        times.cast(pa.timestamp("us", "UTC")),
        pa.array(map(Message.key, records), pa.binary()).cast(pa.string()),
    ]
    return pa.Table.from_arrays(columns, schema=pa.schema([*schema, *_ORIGIN]))
