"""Everything a job needs from outside, handed in once: clients, clock, ids, who is asking."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from typing import TYPE_CHECKING

from spark_jobs.config.secrets import resolve
from spark_jobs.config.settings import PipelineConfig, RegistrySettings, SluiceConfig
from spark_jobs.connections.endpoints import resolve_kafka_properties
from spark_jobs.connections.lake import open_catalog, open_log
from spark_jobs.connections.writer_schemas import RecordSchemas, schema_sources
from spark_jobs.kafka.admin import KafkaAdmin
from spark_jobs.protocol.errors import fault
from spark_jobs.protocol.fail_points import FailPoints, NoFailPoints
from spark_jobs.registry.client import RegistryClient
from spark_jobs.registry.http_get import access_of
from spark_jobs.registry.kept_schemas import KeptSchemas
from spark_jobs.storage.create_only import CreateOnlyStore
from spark_jobs.txlog.store import TxlogStore

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Connections:
    """One job's clients.

    ``kafka`` are resolved librdkafka properties, ``open_catalog`` holds the catalog's: they have secrets and
    never reach a log. It gives a new catalog object every time (after an exception the old one may show what
    never committed).
    ``schemas`` gives those of a pipeline's records, and remembers them; a registry's secrets are resolved
    when it is first asked, and it never reaches a task.
    ``spark`` connects on first use. ``task_memory_bytes`` bounds what one Spark task may use and
    ``parallelism`` is how many tasks run at once. ``interrupt`` stops Spark work tagged with an attempt,
    best effort. ``now_us`` is microseconds since the epoch. ``refresh`` has ``kafka``, its ``admin`` and the
    log take secrets that were rotated, for work that goes on for days.
    """

    kafka: dict[str, str] = field(repr=False)
    admin: KafkaAdmin
    open_catalog: Callable[[], Catalog] = field(repr=False)
    txlog: TxlogStore
    spark: Callable[[], SparkSession]
    interrupt: Callable[[str], None]
    task_memory_bytes: int
    parallelism: int
    actor: str
    run_id: str
    now_us: Callable[[], int]
    new_attempt: Callable[[], str]
    schemas: Callable[[PipelineConfig], RecordSchemas] = field(repr=False)
    fail_points: FailPoints = field(default_factory=NoFailPoints)
    refresh: Callable[[], None] = lambda: None

    @property
    def state(self) -> CreateOnlyStore:
        """What lies under ``state:`` beside the log."""
        return self.txlog.store


def connect(
    config: SluiceConfig,
    *,
    spark: Callable[[], SparkSession],
    interrupt: Callable[[str], None],
    parallelism: int,
    actor: str,
    run_id: str,
    needs_kafka: bool = True,
) -> Connections:
    """Resolve secrets and addresses now; every client connects on first use.

    Work that only reads the lake does not need Kafka, and runs where there is none. Raises ``ConfigError``:
    no broker is configured or running, or a secret is missing.
    """
    kafka = resolve_kafka_properties(config) if needs_kafka else {}
    resolve(config.catalog.properties)  # one that is missing is told now, and each opening reads again
    txlog = open_log(config)

    def refresh() -> None:
        if kafka:
            kafka.update(resolve_kafka_properties(config))
        txlog.store.use(resolve(config.log_properties))

    return Connections(
        kafka=kafka,
        admin=KafkaAdmin(kafka),
        open_catalog=partial(open_catalog, config),
        txlog=txlog,
        spark=spark,
        interrupt=interrupt,
        task_memory_bytes=config.spark.task_memory,
        parallelism=parallelism,
        actor=actor,
        run_id=run_id,
        now_us=lambda: time.time_ns() // 1000,
        new_attempt=lambda: str(uuid.uuid4()),
        schemas=schema_sources(config, cache(partial(open_registry, config.registries, txlog.store))),
        refresh=refresh,
    )


# Opening a registry by the name that the configuration gives it.


def open_registry(
    registries: Mapping[str, RegistrySettings], store: CreateOnlyStore, name: str
) -> KeptSchemas:
    """Return its schemas, secrets resolved now; it connects on first use.

    Raises ``ConfigError``: ``no-registry`` when none is called that, and for what ``access_of`` finds.
    """
    settings = registries.get(name)
    if settings is None:
        raise fault("no-registry", name=name)
    return KeptSchemas(name, store, RegistryClient(access_of(name, settings)))
