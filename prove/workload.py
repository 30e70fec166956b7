"""Environment of scenarios: shared servers, and a topic, table and folder for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from prove.lab.azurite import container_at
from prove.lab.catalog_guard import VendedStore, guarded
from prove.lab.fault_proxy import FaultProxy
from prove.lab.gcs import gcs_at
from prove.lab.generated_changes import RandomSource
from prove.lab.kafka_server import KafkaBroker, Record, unique_name
from prove.lab.pipeline_lab import Lab, configure, make_lab, orders
from prove.lab.s3 import new_bucket
from prove.lab.secured_kafka import SecuredKafka
from spark_jobs.kafka.reader import MAX_CHUNK_RECORDS

PARTITIONS = 2
SQLITE = "sqlite"
POSTGRES = "postgres"
REST = "rest"
NESSIE = "nessie"
GLUE = "glue"
AZURE = "azure"
GCS = "gcs"
VENDED = "vended"
SECURED = "secured"
CATALOG_NAMES = {
    SQLITE: "the embedded catalog",
    POSTGRES: "a catalog in Postgres",
    REST: "Iceberg's REST server over S3",
    NESSIE: "Nessie over S3",
    GLUE: "AWS Glue by moto's server, made to compare versions",
    AZURE: "the embedded catalog; tables and log on Azure's storage, by Azurite",
    GCS: "the embedded catalog; tables and log on Google Cloud Storage, by fake-gcs-server",
    VENDED: "Iceberg's REST server behind OAuth, with vended credentials for S3",
    SECURED: "the embedded catalog; Kafka over TLS, by a user with rights on the topic alone",
}


@dataclass(frozen=True, slots=True)
class Testbed:
    """The servers' addresses; ``catalogs`` are PyIceberg's properties by name, except the embedded one."""

    folder: Path
    kafka: str
    s3_endpoint: str = ""
    spark_remote: str = ""
    catalogs: dict[str, dict[str, str]] = field(default_factory=dict)
    secured: SecuredKafka | None = None
    azurite: str = ""
    gcs: str = ""

    @contextmanager
    def workload(self, catalog: str, *, on_spark: bool = False, **settings: Any) -> Iterator[Workload]:
        """Open a pipeline over a new, empty topic; ``settings`` are the pipeline's."""
        secured = self.secured if catalog == SECURED else None
        broker = secured.open if secured else KafkaBroker(self.kafka)
        topic = broker.new_topic(PARTITIONS, retention_ms=-1)
        folder = self.folder / topic
        folder.mkdir()
        table = f"{unique_name('ns').replace('-', '_')}.orders"
        remote = self.spark_remote or None
        lab = make_lab(folder, bootstrap=broker, topic=topic, spark_remote=remote, table=table, **settings)
        if secured:
            configure(lab, "kafka", secured.reader(topic))
        workload = Workload(replace(lab, is_here=not on_spark), broker, folder)
        if catalog in {SQLITE, SECURED}:
            yield workload
            return
        if catalog == POSTGRES:
            configure(lab, "catalog", {"uri": self.catalogs[catalog]["uri"]})
            yield workload
            return
        if catalog == GLUE:
            configure(lab, "catalog", {"uri": None, **self.catalogs[catalog]})
            configure(lab, "", {"state": f"s3://{new_bucket(self.s3_endpoint)}/log"})
            yield workload
            return
        if catalog == AZURE:
            azure = container_at(self.azurite)
            configure(lab, "catalog", {"warehouse": azure.location("lake"), **azure.properties})
            configure(lab, "", {"state": azure.location("log")})
            yield workload
            return
        if catalog == GCS:
            google = gcs_at(self.gcs)
            configure(lab, "catalog", {"warehouse": google.location("lake"), **google.properties})
            configure(lab, "", {"state": google.location("log")})
            yield workload
            return
        with ExitStack() as stack:
            served, store = self.catalogs[catalog], None
            keys = {name: value for name, value in served.items() if name.startswith("s3.")}
            if catalog == VENDED:
                served, store = stack.enter_context(guarded(served))
            proxy = stack.enter_context(FaultProxy(served["uri"]))
            configure(lab, "catalog", {"warehouse": None, **served, "uri": proxy.url})
            log = f"s3://{new_bucket(self.s3_endpoint)}/log"
            configure(lab, "", {"state": {"uri": log, **keys} if store else log})
            yield replace(workload, proxy=proxy, vended=store)


@dataclass(slots=True)
class Contents:
    """Numbers of records of each kind in the topic; ``orders`` writes good ones.

    With a ``source`` those are its changes, and the rows are what it has by now.
    """

    rows: int = 0
    dead_letters: int = 0
    tombstones: int = 0
    orders: Callable[[int, int], Sequence[bytes | Record]] = orders
    source: RandomSource | None = None

    @property
    def records(self) -> int:
        """Return the total number."""
        return self.rows + self.dead_letters + self.tombstones


@dataclass(frozen=True, slots=True)
class Workload:
    """A scenario's pipeline. ``proxy`` is in front of a catalog server, ``vended`` the store it vends for."""

    lab: Lab
    kafka: KafkaBroker
    folder: Path
    proxy: FaultProxy | None = None
    vended: VendedStore | None = None
    contents: Contents = field(default_factory=Contents)

    def produce(
        self, good: Sequence[bytes | Record], bad: Sequence[bytes | None] = (), *, at_ms: int | None = None
    ) -> None:
        """Produce records, evenly over the partitions; None is a tombstone."""
        values = [*good, *bad]
        topic = self.lab.pipeline.topic
        records = [
            v if isinstance(v, Record) else Record(v, partition=n % PARTITIONS, timestamp_ms=at_ms)
            for n, v in enumerate(values)
        ]
        self.kafka.produce(topic, records)
        if self.lab.pipeline.layout == "archive":  # any record is a row
            self.contents.rows += len(values)
            return
        source = self.contents.source
        self.contents.rows = self.contents.rows + len(good) if source is None else len(source.rows)
        self.contents.tombstones += bad.count(None)
        self.contents.dead_letters += len(bad) - bad.count(None)

    def produce_batch(self) -> None:
        """Produce one batch: forty orders, three undecodable records, a tombstone."""
        self.produce(self.contents.orders(0, 40), [b"not json", b"null", b"\xff\xfe", None])

    def produce_long_batch(self) -> None:
        """Produce a batch that is too long to be read at once: a task reads it range by range."""
        self.produce(orders(1_000, LONG - BATCH))
        self.produce_batch()

    def drain_batches(self, number: int = 1) -> None:
        """Commit this many batches, one by one."""
        for _ in range(number):
            self.produce_batch()
            self.run()

    def drain_and_produce(self) -> None:
        """Commit one batch, and produce another."""
        self.drain_batches()
        self.produce_batch()

    def drain_and_produce_long(self) -> None:
        """Commit one batch, and produce a long one."""
        self.drain_batches()
        self.produce_long_batch()

    def recreate_topic(self) -> None:
        """Delete the topic with its records, and create it again."""
        self.kafka.delete_topic(self.lab.pipeline.topic)
        self.kafka.create_topic(self.lab.pipeline.topic, PARTITIONS, retention_ms=-1)

    def run(self, name: str = "drain") -> None:
        """Run work in its own process, undisturbed."""
        answer = self.lab.start(work=name).answer()
        assert answer.error in {None, "batch-held"}, f"{name} ended with {answer.message}"


BATCH = 44  # records of ``produce_batch``
LONG = PARTITIONS * (MAX_CHUNK_RECORDS + 30)  # of ``produce_long_batch``
