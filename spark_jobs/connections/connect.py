"""External dependencies of a job: clients, clock, ids, actor, lake and tables."""

from __future__ import annotations

import hashlib
import json
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from spark_jobs.config.registry_settings import RegistrySettings
from spark_jobs.config.secrets import resolve
from spark_jobs.config.settings import PipelineConfig, SluiceConfig
from spark_jobs.connections.endpoints import resolve_kafka_properties
from spark_jobs.lake import catalog as lake_catalog
from spark_jobs.lake.catalog import released
from spark_jobs.lake.tables import dead_letters_of, is_no_table_of_ours, load_table, progress_of
from spark_jobs.protocol.errors import ConfigError, SourceChanged, fault
from spark_jobs.protocol.progress_parts import LEAVES_OUT
from spark_jobs.protocol.work import FailPoints, NoFailPoints
from spark_jobs.storage.create_only import CreateOnlyStore
from spark_jobs.txlog.store import TxlogStore

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession

    from spark_jobs.connections.writer_schemas import RecordSchemas
    from spark_jobs.kafka.admin import KafkaAdmin
    from spark_jobs.registry.schema_store import SchemaStore


def open_catalog(config: SluiceConfig) -> Catalog:
    """Return a new catalog object, which the caller closes. Raises ``ConfigError`` for a missing secret."""
    return lake_catalog.open_catalog(config.catalog.name, resolve(config.catalog.properties))


def open_log(config: SluiceConfig) -> TxlogStore:
    """Return the log's store, which connects on first use. Raises ``ConfigError`` for a missing secret."""
    return TxlogStore(config.state, resolve(config.log_properties))


@dataclass(frozen=True, slots=True)
class Connections:
    """Clients of one job.

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
        """Return the store of other objects under ``state:``."""
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
    """Resolve secrets and addresses; every client connects on first use.

    Work that only reads the lake does not need Kafka, and runs where there is none. Raises ``ConfigError``:
    no broker is configured or running, or a secret is missing.
    """
    # Kafka's client and every format: for who connects alone.
    from spark_jobs.connections.writer_schemas import schema_sources  # noqa: PLC0415
    from spark_jobs.kafka.admin import KafkaAdmin  # noqa: PLC0415

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


def open_registry(
    registries: Mapping[str, RegistrySettings], store: CreateOnlyStore, name: str
) -> SchemaStore:
    """Return the registry's schema store with resolved secrets; it connects on first use.

    Raises ``ConfigError``: ``no-registry`` when none is called that, and for what ``access_of`` finds.
    """
    from spark_jobs.registry.kinds import CLIENTS  # noqa: PLC0415  (requests)
    from spark_jobs.registry.schema_store import SchemaStore  # noqa: PLC0415

    settings = registries.get(name)
    if settings is None:
        raise fault("no-registry", name=name)
    return SchemaStore(name, store, CLIENTS[settings.kind](name, settings))


# A pipeline's tables, loaded fresh: all as one, or its own with the check that it was drained at all.


def load_fresh(connections: Connections, identifier: str) -> Table | None:
    """Load a table by a catalog object of its own, which is closed; metadata and files stay readable."""
    with released(connections.open_catalog()) as catalog:
        return load_table(catalog, identifier)


@dataclass(frozen=True, slots=True)
class PipelineTables:
    """A pipeline's table, its dead-letter table and the tables it ever routed rows to, if they exist."""

    data: Table
    dead_letters: Table | None
    routed: Mapping[str, Table] = field(default_factory=dict)

    @property
    def every(self) -> tuple[Table, ...]:
        """Return all tables with rows or dead letters, the pipeline's own first."""
        letters = () if self.dead_letters is None else (self.dead_letters,)
        return (self.data, *letters, *self.routed.values())


def tables_as_one(connections: Connections, identifier: str) -> PipelineTables | None:
    """Return a pipeline's tables in one consistent state: no commit moved rows between them meanwhile.

    A drain may have committed: its rows in other tables are of offsets that this table has not reached.
    """
    with released(connections.open_catalog()) as catalog:
        load = partial(load_table, catalog)
        table = load(identifier)
        while table is not None:
            beside = load(dead_letters_of(identifier)), load_routed(load, table)
            now = load(identifier)
            if now is None or _epoch(now) == _epoch(table):
                return PipelineTables(table, *beside)
            table = now
    return None


def load_routed(load: Callable[[str], Table | None], table: Table) -> dict[str, Table]:
    """Return the tables that rows were ever routed to, without foreign tables of the same name."""
    own = str(table.metadata.table_uuid)
    found: dict[str, Table] = {}
    for name in progress_of(table).routes:
        try:
            there = load(name)
        except (ConfigError, SourceChanged) as error:
            if not is_no_table_of_ours(error):
                raise
            continue
        if there is not None and progress_of(there).routed_from == own:
            found[name] = there
    return found


def _epoch(table: Table) -> tuple[object, ...]:
    progress = progress_of(table)
    return table.metadata.table_uuid, progress.generation, progress.replay_epoch, progress.rollbacks


def load_drained(pipeline: PipelineConfig, connections: Connections) -> Table:
    """Return the current table. Raises ``ConfigError`` (``no-table-yet``) before its first batch."""
    table = load_fresh(connections, pipeline.table)
    if table is None:
        raise fault("no-table-yet", **pipeline.where)
    return table


# The digest of what decides what a record becomes: rows of two of them may differ, rows of one do not.
#
# What is in force is digested, defaults written out: a version with another default has another digest. What
# is absent (no columns, no file) is left out, so that a key that comes later changes no digest until it is
# used.


# Neither order, place nor time of rows is a matter of these, nor who is told: a test names every other key.
SHAPING = ("columns", "filter", "route", "table_schema", "value", "layout", "cdc", "record_key")
_HEX_DIGITS = 16


def shape_of(pipeline: PipelineConfig, connections: Connections) -> str:
    """Return the digest of the row shape with schema files. Raises like ``RecordSchemas.file_digests``."""
    files = connections.schemas(pipeline).file_digests() if pipeline.has_schemas else {}
    return shape_digest(pipeline, files)


def shape_digest(pipeline: PipelineConfig, files: Mapping[str, str]) -> str:
    """Return the digest of rows that this configuration makes; ``files`` are digests of schema files."""
    shaping = pipeline.model_dump(mode="json", include=set(SHAPING))
    # A short form of `key`, until it was left out: tables keep digests with its default.
    shaping |= {"cdc": pipeline.envelope, "key_format": "string"}
    text = json.dumps(_present({**shaping, "files": dict(files)}), sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(text.encode()).hexdigest()[:_HEX_DIGITS]
    # By these a record that could be a row may have none in the table.
    return LEAVES_OUT + digest if pipeline.filter or pipeline.value.header else digest


def _present(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    inside = {name: _present(each) for name, each in value.items()}
    return {name: each for name, each in inside.items() if each not in (None, [], {})}
