"""The configuration: every section and key with its unit, default and text, and what is in force.

A section is one model, whether a person writes it or a job receives it: docs/reference/configuration.md and
docs/sluice.schema.json are generated from it, so a description here is documentation. What a file holds
beside sections is ``file_models.py``; how files become a ``SluiceConfig`` is ``build.py``. Secrets stay
unresolved. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic import Field

from spark_jobs.config import values
from spark_jobs.config.columns import Columns
from spark_jobs.config.gateway import GatewaySettings
from spark_jobs.config.listener import CatalogServerSettings, MetricsSettings, ServeSettings, UiSettings
from spark_jobs.config.problems import ConfigProblem
from spark_jobs.config.quantities import StartText, next_tick_ms
from spark_jobs.config.redaction import redact_properties, redact_urls
from spark_jobs.config.sections import (
    CdcSettings,
    DeadLetterSettings,
    Envelope,
    Hot,
    KafkaAuth,
    MirrorSettings,
    NotifySettings,
    RouteSettings,
    SchemaSettings,
    UpkeepSettings,
)
from spark_jobs.config.suites import CheckSettings, Suite, Suites, When
from spark_jobs.config.value_format import KeySettings, ValueFormat, ValueSettings
from spark_jobs.config.values import Frozen, key

DEAD_LETTERS_SUFFIX = "_dead_letters"


class _WithSecrets(Frozen):
    """A model that shows no value of a secret key in ``repr``, ``str`` and ``model_dump``."""

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        for name in type(self).model_fields:
            value = getattr(self, name)
            yield name, _shown(value)


class CatalogSettings(_WithSecrets):
    """One catalog under PyIceberg's property names."""

    name: str = "sluice"
    properties: values.SecretProperties


class SparkSettings(_WithSecrets):
    """Where tasks run; by default the Connect server of `./sluice up`, else a session inside the run."""

    remote: values.ConnectUrl | None = key(
        None,
        "A Spark Connect server, `sc://host:port`, with `/;use_ssl=true;token=${NAME}` where it asks for it."
        " Not together with `master`.",
    )
    remote_command: values.Command | None = key(
        None,
        "An absolute program and its arguments, run for each session instead of `remote`: it prints that"
        " session's address, with its token (docs/how-to/spark-cluster.md).",
        shown="none",
    )
    master: str | None = key(
        None,
        "A Spark master for a session inside the run's process, e.g. `local[4,4]`."
        " Not together with `remote`.",
    )
    insecure: bool = key(
        "false", "Whether credentials may go to a Spark server on another machine without TLS."
    )
    session_secret: values.Secret | None = key(
        None,
        "What the ids of sessions on a server are made of, best as `${NAME}`: who knows it can attach to"
        " them. Processes with the same one share warm sessions, on any machine.",
        shown="32 random bytes, made once in the state folder",
    )
    ship_python: bool = key(
        "false",
        "Whether Python and the packages that tasks need go to a server elsewhere with the code, when its"
        " workers have neither.",
    )
    task_memory: values.Size = key(
        "512MiB",
        "Memory one task may use; reading, decoding and writing are sized to stay within it. On top comes"
        " what one batch of a producer's unpacks to, which nothing bounds.",
    )
    conf: values.SecretProperties = Field(
        default_factory=dict,
        description="Any Spark configuration, `spark.…`. Batches are cut for as many cores as"
        " `spark.default.parallelism` says; otherwise for as many as this machine has.",
    )

    @property
    def is_elsewhere(self) -> bool:
        """True if tasks run on a Connect server that Sluice does not start."""
        return bool(self.remote or self.remote_command)


class RegistryAuth(Frozen):
    """Who asks a registry: one of both, or nobody in particular. References in them are unresolved."""

    basic: values.Secret | None = key(None, "`user:password`, best as `${USER}:${PASSWORD}`.")
    bearer: values.Secret | None = key(None, "A token, best as `${TOKEN}`.")


class RegistrySettings(Frozen):
    """A schema registry that speaks Confluent's API."""

    url: values.RegistryUrl = Field(
        description="Its address up to its API, `http://host:8081`; Apicurio's ends in `/apis/ccompat/v7`."
    )
    auth: RegistryAuth = key(RegistryAuth(), "`basic: user:password` or `bearer: token`.", shown="none")
    ca: values.AbsolutePath | None = key(
        None, "File of the authorities (PEM) that its certificate may be of.", shown="those known to all"
    )
    cert: values.AbsolutePath | None = key(None, "File of our own certificate (PEM), where it asks for one.")
    private_key: values.AbsolutePath | None = key(
        None, "File of its private key (PEM), when `cert` does not hold it.", alias="key"
    )
    timeout_seconds: values.Duration = key("10s", "How long one question may take.", alias="timeout")


class PipelineSettings(Frozen):
    """Settings of every pipeline in the same file that does not say otherwise; maps merge key by key."""

    start: StartText = key(
        "earliest",
        "Where a table that does not exist yet begins: `earliest`, `latest`, a time (ISO 8601,"
        " UTC when it has no zone) or offsets by partition. Resolved once, when the table is made.",
    )
    freshness_seconds: values.Duration = key(
        "1m", "How old the last commit may get while records wait: then a run starts.", alias="freshness"
    )
    schedule: values.Cron = key(
        None,
        "Cron, e.g. `0 2 * * *`: drains at these times only, each until it has caught up; `freshness` then"
        " starts none. `off` takes back what `defaults` say.",
        shown="as soon as `freshness` or a full batch asks for one",
    )
    timezone: values.TimeZone = key("UTC", "IANA zone of both schedules, e.g. `Europe/Berlin`.")
    max_batch_records: values.Count = key(
        "2000000", "Most records in one commit; this many waiting records start a run at once."
    )
    max_batch_bytes: values.Size = key(
        "1GiB", "Most bytes (as Kafka holds them) in one commit; this much waiting starts a run at once."
    )
    partition_by: values.OneOrMany[values.PartitionField] = key(
        (),
        "Iceberg partition fields: a column (no float or double), `year|month|day|hour(column)`,"
        " `bucket(16, column)`, `truncate(8, column)`. Used when the table is made.",
        shown="none",
    )
    sort_by: values.OneOrMany[values.SortColumn] = key(
        (),
        "Columns that rows are sorted by, ascending, nulls first, then as they came: the table's sort order."
        " A task sorts what it gathers before it writes, a row group of an eighth of `spark.task_memory`;"
        " compaction sorts whole files. Holds for what is drained next.",
        shown="as they came",
    )
    location: values.StoragePath | None = key(
        None,
        "A folder or bucket, `s3://other/lake`, that the table and its dead letters get folders of their own"
        " in when they are made.",
        shown="where the catalog puts them",
    )
    table_properties: values.Properties = Field(
        default_factory=dict,
        description="Iceberg table properties, set when the table is made."
        " `sluice.*` and `commit.retry.*` are refused. Codecs: zstd (level 1 unless you say another), gzip,"
        " lz4, snappy, uncompressed.",
    )
    columns: Columns = Field(
        default_factory=dict,
        description="Declared Iceberg types by column; they win over what the records suggest. A map gives"
        ' the source of values too: `{type: "decimal(12,2)", sql: "amount * quantity"}`'
        " (docs/how-to/shape-rows.md).",
    )
    filter: str | None = key(
        None,
        "A DuckDB expression over one record: those for which it is not true become no row and are counted as"
        " `filtered` (docs/how-to/shape-rows.md).",
        shown="every record is a row",
    )
    route: RouteSettings = key(
        RouteSettings(), "Which records become rows of other tables.", shown="every row is in the table"
    )
    table_schema: SchemaSettings = key(
        SchemaSettings(),
        "What becomes of fields without a column, and of those with another type.",
        alias="schema",
    )
    owners: values.OneOrMany[values.Owner] = key(
        (), "Owners shown in Dagster: an e-mail address or `team:name`."
    )
    value: ValueSettings = key(ValueSettings(), "What the records' values are written in.")
    layout: values.LayoutName = key(
        "flat",
        "What a row is: `flat`, the value's fields as columns; `archive`, the whole record with its bytes,"
        " tombstones and what cannot be read too; or of a database's table `changes`, one event each,"
        " or its `mirror`, which has the rows that it has (docs/how-to/debezium-mirror.md).",
    )
    cdc: CdcSettings = key(CdcSettings(), "What change events are written as.")
    mirror: MirrorSettings = key(MirrorSettings(), "What a mirror is of, and what stops it.")
    record_key: KeySettings = key(KeySettings(), "What the records' keys are written in.", alias="key")
    upkeep: UpkeepSettings = key(UpkeepSettings(), "When the tables are tidied up.")
    dead_letters: DeadLetterSettings = key(
        DeadLetterSettings(), "What happens when many records cannot become rows, and what is kept of them."
    )
    quality: Suites = key((), "Great Expectations suites: what rows must be like.")
    checks: CheckSettings = key(
        CheckSettings(), "Which checks only warn, which are off, and limits of their own."
    )
    notify: NotifySettings = key(NotifySettings(), "Who is told of commits and of trouble.")
    hot: Hot = key(
        None,
        "Whether queries may see what Kafka has beyond the table too (docs/reference/serving.md): `true`, or"
        " a map. Not of an archive or a mirror, nor beside a gate or `route`.",
        shown="false",
    )

    @property
    def declared(self) -> dict[str, str]:
        """Return the declared types by column."""
        return {name: column.type for name, column in self.columns.items()}

    @property
    def is_exact(self) -> bool:
        """True if a new table has the declared columns and no others: records are reshaped."""
        return self.table_schema.growth.ignores and any(each.source for each in self.columns.values())

    @property
    def envelope(self) -> Envelope | None:
        """Return what is around a row, None where rows are no events."""
        envelope: Envelope | None = self.layout.envelope(self.cdc)
        return envelope

    @property
    def key_is_binary(self) -> bool:
        """True if ``_kafka_key`` holds bytes, not text."""
        return self.layout.key_is_binary or self.record_key.is_binary


class PipelineConfig(PipelineSettings):
    """One topic into one table. ``template`` names the ``topics_regex`` entry it was expanded from.

    ``stream`` names the gateway's stream whose events its topic has, None where there is none.
    """

    name: str
    topic: str
    table: str
    template: str | None = None
    stream: str | None = None

    @property
    def is_of_stream(self) -> bool:
        """True if the gateway writes its topic."""
        return self.stream is not None

    @property
    def has_source_events(self) -> bool:
        """True if its rows say which event of which of the gateway's sources they are, one an event."""
        return self.is_of_stream and self.layout.tells_source_events

    @property
    def table_partition_by(self) -> tuple[str, ...]:
        """Return the partition fields that its table has."""
        return self.layout.partitions or tuple(self.partition_by)

    @property
    def table_sort_by(self) -> tuple[str, ...]:
        """Return the columns that rows of its table are sorted by."""
        return self.layout.sorting or tuple(self.sort_by)

    @property
    def can_be_hot(self) -> bool:
        """True if `hot: true` is taken of it."""
        return not ("hot" in self.layout.not_said or self.gates or self.routed_tables)

    @property
    def where(self) -> dict[str, str]:
        """Return what an error of its table is told with."""
        return {"pipeline": self.name, "table": self.table}

    @property
    def has_schemas(self) -> bool:
        """True if values or keys are read by schemas."""
        return self.value.format is not ValueFormat.JSON or self.record_key.format.has_schema

    @property
    def routed_tables(self) -> tuple[str, ...]:
        """Return the tables beside its own that rows are routed to."""
        return tuple(sorted({*self.route.tables.values()} - {self.table}))

    @property
    def dead_letter_table(self) -> str:
        """Table of the records that could not become rows."""
        return self.table + DEAD_LETTERS_SUFFIX

    def due_ms(self, since_ms: int) -> int | None:
        """Return when a drain should take what waits since then (ms), None without a schedule."""
        return next_tick_ms(self.schedule, self.timezone, since_ms) if self.schedule else None

    @property
    def gates(self) -> tuple[Suite, ...]:
        """Return the suites that a batch has to meet before it is committed."""
        return tuple(suite for suite in self.quality if suite.when is When.GATE)


class PipelineTemplate(PipelineSettings):
    """A ``topics_regex`` entry: a pipeline for every topic that matches whole; ``table`` has ``{topic}``.

    ``file`` and ``line`` say where it is written.
    """

    name: str
    topics_regex: str
    table: str
    file: str = ""
    line: int | None = None


class SluiceConfig(_WithSecrets):
    """Everything one ``sluice.yaml`` and its team files say.

    ``kafka``, ``catalog.properties``, ``state_properties``, ``spark.conf``, ``registries`` and ``sources``
    may hold ``${ENV}`` and ``${file:…}``; they are resolved per run in ``spark_jobs.connections``. ``state``
    is the transaction log's root, any FileIO path. ``home`` is the absolute state folder. ``source`` is the
    main file, None when there is none. ``problems`` are the mistakes of team files whose pipelines are left
    out.
    """

    home: str
    state: str
    kafka: values.SecretProperties = Field(default_factory=dict)
    kafka_auth: KafkaAuth = KafkaAuth()
    # None: what opens the lake opens the log.
    state_properties: values.SecretProperties | None = None
    catalog: CatalogSettings
    spark: SparkSettings = SparkSettings()
    registries: dict[values.RegistryName, RegistrySettings] = Field(default_factory=dict)
    sources: dict[values.SourceName, values.SourceUrl] = Field(default_factory=dict)
    ui: UiSettings = UiSettings()
    metrics: MetricsSettings = MetricsSettings()
    catalog_server: CatalogServerSettings = CatalogServerSettings()
    serve: ServeSettings = ServeSettings()
    gateway: GatewaySettings = GatewaySettings()
    pipelines: tuple[PipelineConfig, ...] = ()
    templates: tuple[PipelineTemplate, ...] = ()
    source: str | None = None
    problems: tuple[ConfigProblem, ...] = ()

    @property
    def log_properties(self) -> values.SecretProperties:
        """Return what opens the log: what opens the lake only where ``state`` is no map."""
        return self.catalog.properties if self.state_properties is None else self.state_properties

    @property
    def has_broker(self) -> bool:
        """True if the file names a broker; if not, the embedded one is meant."""
        return bool(self.kafka.get("bootstrap.servers"))

    def pipeline(self, name: str) -> PipelineConfig | None:
        """Return the pipeline of that name."""
        return next((pipeline for pipeline in self.pipelines if pipeline.name == name), None)


def _shown(value: object) -> object:
    if isinstance(value, str):
        return redact_urls(value)
    if isinstance(value, dict) and all(isinstance(each, str) for each in value.values()):
        return redact_properties(value)
    return value
