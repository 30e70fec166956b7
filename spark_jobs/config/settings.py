"""Configuration models: every section and key with its unit, default and description.

Each section is one model, for files and for jobs. The configuration reference and docs/sluice.schema.json are
generated from it, so a description here is documentation. Other keys of a file are in ``file_models.py``;
``build.py`` makes a ``SluiceConfig`` of files. Secrets stay unresolved. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

from pydantic import Field

from spark_jobs.config import values
from spark_jobs.config.columns import Columns
from spark_jobs.config.gateway import GatewaySettings
from spark_jobs.config.listener import CatalogServerSettings, MetricsSettings, ServeSettings, UiSettings
from spark_jobs.config.problems import ConfigProblem
from spark_jobs.config.quantities import StartText, next_tick_ms
from spark_jobs.config.redaction import redact_properties, redact_urls
from spark_jobs.config.registry_settings import RegistrySettings
from spark_jobs.config.sections import (
    CdcSettings,
    DeadLetterSettings,
    Envelope,
    Hot,
    KafkaAuth,
    MirrorSettings,
    NotifySettings,
    RouteSettings,
    RunStart,
    SchemaSettings,
    UpkeepSettings,
)
from spark_jobs.config.suites import CheckSettings, Suite, Suites, When
from spark_jobs.config.value_format import KeySettings, ValueFormat, ValueSettings
from spark_jobs.config.values import Frozen, key

DEAD_LETTERS_SUFFIX = "_dead_letters"


class _WithSecrets(Frozen):
    """Base of models that hide values of secret keys in ``repr``, ``str`` and ``model_dump``."""

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        for name in type(self).model_fields:
            value = getattr(self, name)
            yield name, _shown(value)


class CatalogSettings(_WithSecrets):
    """Name and properties of a catalog, under PyIceberg's property names."""

    name: str = "sluice"
    properties: values.SecretProperties


class SparkSettings(_WithSecrets):
    """Place of Spark tasks. Default: the Spark server of `./sluice up`, else a session inside the run."""

    remote: values.ConnectUrl | None = key(
        None,
        "Address of a Spark Connect server, `sc://host:port`. Append `/;use_ssl=true;token=${NAME}` for TLS"
        " and a token. Cannot be combined with `master`.",
    )
    remote_command: values.Command | None = key(
        None,
        "Program (absolute path) and arguments that print the address of a session, with its token. Run for"
        " each session, instead of `remote` (docs/how-to/spark-cluster.md).",
    )
    master: str | None = key(
        None,
        "Spark master of a session inside the run's process, for example `local[4,4]`."
        " Cannot be combined with `remote`.",
    )
    insecure: bool = key(
        "false", "Allow credentials to be sent to a Spark server on another machine without TLS."
    )
    session_secret: values.Secret | None = key(
        None,
        "Secret from which session ids are derived, for example `${NAME}`. Processes with the same secret"
        " share warm sessions, on any machine; anyone who knows it can attach to them. If unset, 32 random"
        " bytes are stored in the state folder.",
    )
    ship_python: bool = key(
        "false",
        "Send Python and the packages that tasks need to the Spark server, for workers that have neither.",
    )
    task_memory: values.Size = key(
        "512MiB",
        "Memory of one task. Reading, decoding and writing are sized to stay within it. The decompressed size"
        " of one producer batch comes on top and is not bounded.",
    )
    sleep_after_seconds: values.Duration = key(
        "15m",
        "Stop the server of `./sluice up` and `sluice-runs` after this time without work. A run starts both.",
        alias="sleep_after",
    )
    conf: values.SecretProperties = Field(
        default_factory=dict,
        description="Any Spark configuration, `spark.…`. Batches are split for `spark.default.parallelism`"
        " cores, or else for the cores of this machine.",
    )

    @property
    def is_elsewhere(self) -> bool:
        """True if tasks run on a Connect server that Sluice does not start."""
        return bool(self.remote or self.remote_command)


class RunsSettings(Frozen):
    """Dagster's runs: their processes in `./sluice up`, and what the backlog sensor puts in them."""

    start: Annotated[RunStart, values.choice(RunStart)] = key(
        "fork",
        "`fork`: copy a process that has loaded Sluice and the definitions, where that is safe. `spawn`: each"
        " run loads them.",
    )
    rounds: values.Number | None = key(
        None,
        "Maximum number of runs at a time that drain up to 16 small backlogs each. `0`: a run a pipeline."
        " Default: two a core, six at most.",
    )


class PipelineSettings(Frozen):
    """Defaults of all pipelines in the same file. A pipeline's own keys win; maps are merged key by key."""

    start: StartText = key(
        "earliest",
        "Start of a table that does not exist yet: `earliest`, `latest`, a time (ISO 8601, UTC if it has no"
        " zone) or offsets by partition. Resolved once, when the table is created.",
    )
    freshness_seconds: values.Duration = key(
        "1m", "Start a run when records wait and the last commit is this old.", alias="freshness"
    )
    schedule: values.Cron = key(
        None,
        "Cron expression, for example `0 2 * * *`: drain only at these times, each time until caught up."
        " Without it, `freshness` or a full batch starts a run. `off` removes a schedule set in `defaults`.",
    )
    timezone: values.TimeZone = key(
        "UTC", "IANA time zone of `schedule` and `upkeep.schedule`, for example `Europe/Berlin`."
    )
    max_batch_records: values.Count = key(
        "2000000", "Maximum number of records in a commit. As many waiting records start a run at once."
    )
    max_batch_bytes: values.Size = key(
        "1GiB",
        "Maximum size of a commit, in bytes as Kafka stores them. As many waiting bytes start a run at once.",
    )
    partition_by: values.OneOrMany[values.PartitionField] = key(
        (),
        "Iceberg partition fields: a column (not float or double), `year|month|day|hour(column)`,"
        " `bucket(16, column)` or `truncate(8, column)`. Applied when the table is created.",
    )
    sort_by: values.OneOrMany[values.SortColumn] = key(
        (),
        "Sort columns, ascending, nulls first; the table's sort order. Without it, rows stay in Kafka's"
        " order. A task sorts each row group (an eighth of `spark.task_memory`); compaction sorts whole"
        " files. Applies to new batches.",
    )
    location: values.StoragePath | None = key(
        None,
        "Folder or bucket, for example `s3://other/lake`, in which the table and its dead-letter table are"
        " created. If unset, the catalog chooses.",
    )
    table_properties: values.Properties = Field(
        default_factory=dict,
        description="Iceberg table properties, set when the table is created."
        " `sluice.*` and `commit.retry.*` are refused. Codecs: zstd (default level 1), gzip, lz4, snappy,"
        " uncompressed.",
    )
    columns: Columns = Field(
        default_factory=dict,
        description="Iceberg types by column; they override derived types. A map also sets the source of the"
        ' values: `{type: "decimal(12,2)", sql: "amount * quantity"}` (docs/reference/expressions.md).',
    )
    filter: str | None = key(
        None,
        "DuckDB expression over one record. Records for which it is not true are dropped and counted as"
        " `filtered` (docs/reference/expressions.md).",
    )
    route: RouteSettings = key(RouteSettings(), "Records that become rows of other tables.")
    table_schema: SchemaSettings = key(
        SchemaSettings(),
        "Handling of new fields and of fields with another type.",
        alias="schema",
    )
    owners: values.OneOrMany[values.Owner] = key(
        (), "Owners shown in Dagster: e-mail addresses or `team:name`."
    )
    value: ValueSettings = key(ValueSettings(), "Format of the records' values.")
    layout: values.LayoutName = key(
        "flat",
        "Content of a row. `flat`: the value's fields as columns. `archive`: the whole record as bytes,"
        " including tombstones and unreadable values. `changes`: one change event of a database table."
        " `mirror`: the current rows of a database table (docs/how-to/debezium-mirror.md).",
    )
    cdc: CdcSettings = key(CdcSettings(), "Format of change events.")
    mirror: MirrorSettings = key(MirrorSettings(), "Settings of `layout: mirror`.")
    record_key: KeySettings = key(KeySettings(), "Format of the records' keys.", alias="key")
    upkeep: UpkeepSettings = key(UpkeepSettings(), "Upkeep: compaction, snapshot expiry, orphan removal.")
    dead_letters: DeadLetterSettings = key(
        DeadLetterSettings(), "Dead letters: limit, columns and partitioning of their table."
    )
    quality: Suites = key((), "Great Expectations suites that rows must pass.")
    checks: CheckSettings = key(CheckSettings(), "Severities and limits of the built-in checks.")
    notify: NotifySettings = key(NotifySettings(), "Webhooks for commits and failures.")
    hot: Hot = key(
        None,
        "Allow queries to include records in Kafka that are not in the table yet: `true`, or a map"
        " (docs/reference/serving.md). Not available with `layout: archive`, `layout: mirror`, a gate or"
        " `route`.",
        shown="false",
    )

    @property
    def declared(self) -> dict[str, str]:
        """Return the declared types by column."""
        return {name: column.type for name, column in self.columns.items()}

    @property
    def is_exact(self) -> bool:
        """True if a new table has only the declared columns, at least one of them computed or converted."""
        return self.table_schema.growth.ignores and any(each.source for each in self.columns.values())

    @property
    def envelope(self) -> Envelope | None:
        """Return the envelope of change events, or None if rows are not events."""
        envelope: Envelope | None = self.layout.envelope(self.cdc)
        return envelope

    @property
    def key_is_binary(self) -> bool:
        """True if ``_kafka_key`` holds bytes, not text."""
        return self.layout.key_is_binary or self.record_key.is_binary


class PipelineConfig(PipelineSettings):
    """Settings of one pipeline: one topic into one table.

    ``template`` is the ``topics_regex`` entry it was expanded from; ``stream`` is the gateway stream that
    writes its topic. Both are None if there is none.
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
        """True if each row is one event of a gateway source and has that source's event number."""
        return self.is_of_stream and self.layout.tells_source_events

    @property
    def table_partition_by(self) -> tuple[str, ...]:
        """Return the partition fields of its table."""
        return self.layout.partitions or tuple(self.partition_by)

    @property
    def table_sort_by(self) -> tuple[str, ...]:
        """Return the sort columns of its table."""
        return self.layout.sorting or tuple(self.sort_by)

    @property
    def can_be_hot(self) -> bool:
        """True if `hot: true` is allowed for it."""
        return not ("hot" in self.layout.not_said or self.gates or self.routed_tables)

    @property
    def where(self) -> dict[str, str]:
        """Return the coordinates that errors of its table carry."""
        return {"pipeline": self.name, "table": self.table}

    @property
    def has_schemas(self) -> bool:
        """True if values or keys are read by schemas."""
        return self.value.format is not ValueFormat.JSON or self.record_key.format.has_schema

    @property
    def routed_tables(self) -> tuple[str, ...]:
        """Return the other tables that rows are routed to."""
        return tuple(sorted({*self.route.tables.values()} - {self.table}))

    @property
    def dead_letter_table(self) -> str:
        """Return the name of the dead-letter table."""
        return self.table + DEAD_LETTERS_SUFFIX

    def due_ms(self, since_ms: int) -> int | None:
        """Return the next scheduled drain after ``since_ms`` (epoch ms); None without a schedule."""
        return next_tick_ms(self.schedule, self.timezone, since_ms) if self.schedule else None

    @property
    def gates(self) -> tuple[Suite, ...]:
        """Return the suites that a batch must pass before its commit."""
        return tuple(suite for suite in self.quality if suite.when is When.GATE)


class PipelineTemplate(PipelineSettings):
    """A ``topics_regex`` entry: one pipeline per topic that matches completely; ``table`` has ``{topic}``.

    ``file`` and ``line`` are its place in the configuration.
    """

    name: str
    topics_regex: str
    table: str
    file: str = ""
    line: int | None = None


class SluiceConfig(_WithSecrets):
    """The complete configuration of one ``sluice.yaml`` and its team files.

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
    runs: RunsSettings = RunsSettings()
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
        """Return the FileIO properties of the log: its own if ``state`` is a map, else the catalog's."""
        return self.catalog.properties if self.state_properties is None else self.state_properties

    @property
    def has_broker(self) -> bool:
        """True if a broker is configured; otherwise the embedded one is used."""
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
