"""Fills topics: JSON orders of about 240 bytes and 11 fields, or records of another shape."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa
from confluent_kafka import Producer

from prove.lab.kafka_server import KafkaBroker

PARTITIONS = 4
PRODUCERS = 2
FIRST_SECOND = 1_767_225_600  # 2026-01-01, so that every run produces the same bytes

_RECORDS_PER_CALL = 5_000
_FEW_RECORDS = 50_000  # starting processes takes longer than producing these
_MOST_IN_FLIGHT = 200_000
_TIMEOUT_SECONDS = 60.0
_CURRENCIES = ("EUR", "USD", "GBP", "JPY", "CHF")
_CITIES = ("Amsterdam", "Bratislava", "Copenhagen", "Ljubljana", "Reykjavik", "Vienna", "Zagreb")

# What a reader who is told the types up front decodes the records with.
JSON_SCHEMA = pa.schema(
    [
        ("order_id", pa.int64()),
        ("customer", pa.string()),
        ("sku", pa.string()),
        ("quantity", pa.int64()),
        ("price", pa.float64()),
        ("discount", pa.float64()),
        ("currency", pa.string()),
        ("city", pa.string()),
        ("gift", pa.bool_()),
        ("placed_at", pa.timestamp("us", "UTC")),
        ("note", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True)
class GenerateResult:
    """Contents of a topic; ``value_bytes_per_record`` is the mean over one slice.

    ``records_per_second`` are those acknowledged, making them included.
    """

    value_bytes_per_record: float
    records_per_second: float


def order_values(first: int, count: int) -> list[bytes]:
    """Return orders numbered from ``first``; a number always gives the same bytes."""
    days = {}
    values = []
    for n in range(first, first + count):
        second, milli = divmod(n, 1000)
        if second not in days:
            days[second] = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(FIRST_SECOND + second))
        cents = n * 7919 % 99_991
        values.append(
            (
                f'{{"order_id":{n},"customer":"customer-{n * 31 % 200_003:06d}",'
                f'"sku":"SKU-{n * 17 % 9973:05d}","quantity":{n % 9 + 1},'
                f'"price":{cents / 100},"discount":{n % 40 / 80},'
                f'"currency":"{_CURRENCIES[n % 5]}","city":"{_CITIES[n % 7]}",'
                f'"gift":{"true" if n % 11 == 0 else "false"},"placed_at":"{days[second]}.{milli:03d}Z",'
                f'"note":"please leave it with neighbour no {n % 97}"}}'
            ).encode()
        )
    return values


def order_keys(first: int, count: int) -> list[bytes]:
    """Return the orders' keys: their customers."""
    return [b"customer-%06d" % (n * 31 % 200_003) for n in range(first, first + count)]


@dataclass(frozen=True, slots=True)
class Shape:
    """Shape of records: ``values`` gives JSON from a number on, ``schema`` its types."""

    name: str
    schema: pa.Schema
    values: Callable[[int, int], list[bytes]]


ORDERS = Shape("orders", JSON_SCHEMA, order_values)


def generate(
    bootstrap_servers: str, topic: str, records: int, shape: Shape = ORDERS, *, partitions: int = PARTITIONS
) -> None:
    """Create a topic with this many partitions, compressed by lz4, and fill it evenly."""
    KafkaBroker(bootstrap_servers).create_topic(topic, partitions)
    fill(bootstrap_servers, topic, 0, records, shape, partitions=partitions)


def fill(
    bootstrap_servers: str,
    topic: str,
    first: int,
    records: int,
    shape: Shape = ORDERS,
    *,
    partitions: int = PARTITIONS,
) -> GenerateResult:
    """Append records numbered from ``first``, evenly over the partitions, by several processes if many."""
    parts = _parts(first, records, partitions)
    began = time.monotonic()
    if records < _FEW_RECORDS:
        _append(bootstrap_servers, topic, parts, shape)
    else:
        spawn = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(PRODUCERS, mp_context=spawn) as pool:
            shares = [parts[number::PRODUCERS] for number in range(PRODUCERS)]
            for done in [pool.submit(_append, bootstrap_servers, topic, share, shape) for share in shares]:
                done.result()
    seconds = time.monotonic() - began
    sample = shape.values(first, min(records, 10_000))
    return GenerateResult(sum(map(len, sample)) / len(sample), records / seconds)


def fill_partition(bootstrap_servers: str, topic: str, partition: int, first: int, count: int) -> None:
    """Append ``count`` orders to one partition."""
    _append(bootstrap_servers, topic, [_Part(partition, first, count)], ORDERS)


class _Part(NamedTuple):
    """Records numbered from ``first`` for one partition."""

    partition: int
    first: int
    records: int


def _append(bootstrap_servers: str, topic: str, parts: Sequence[_Part], shape: Shape) -> None:
    """Append them in order and wait for acknowledgement."""
    failures: list[str] = []
    producer = Producer(
        {
            "bootstrap.servers": bootstrap_servers,
            "log_level": 0,
            "compression.type": "lz4",
            "linger.ms": 20,
            "batch.size": 1 << 20,
            "queue.buffering.max.messages": 2 * _MOST_IN_FLIGHT,
            "queue.buffering.max.kbytes": 512 << 10,
            "delivery.report.only.error": True,
            "on_delivery": lambda error, _message: failures.append(str(error)),
        }
    )
    for part in parts:
        for start, number in _slices(part.first, part.records):
            while len(producer) > _MOST_IN_FLIGHT:
                producer.poll(0.01)
            messages = [
                {"key": key, "value": value}
                for key, value in zip(order_keys(start, number), shape.values(start, number), strict=True)
            ]
            if producer.produce_batch(topic, messages, part.partition) != number:
                failures.append("librdkafka's queue is full")
    left = producer.flush(_TIMEOUT_SECONDS)
    producer.close()
    if left or failures:
        raise RuntimeError(f"{left} records were not acknowledged; {failures[:1]}")


def _parts(first: int, records: int, partitions: int) -> Sequence[_Part]:
    """Return every number once; partitions without records are left out."""
    edges = [first + records * partition // partitions for partition in range(partitions + 1)]
    parts = [_Part(p, edges[p], edges[p + 1] - edges[p]) for p in range(partitions)]
    return [part for part in parts if part.records]


def _slices(first: int, count: int) -> Iterator[tuple[int, int]]:
    for start in range(first, first + count, _RECORDS_PER_CALL):
        yield start, min(_RECORDS_PER_CALL, first + count - start)
