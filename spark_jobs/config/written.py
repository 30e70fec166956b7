"""``sluice.yaml`` as a person writes it: names, units, limits and one sentence about every key.

docs/CONFIG.md and docs/sluice.schema.json are generated from these models, so a description here is
documentation. Pure.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, ConfigDict, Field

from spark_jobs.config.quantities import format_duration, format_size
from spark_jobs.config.settings import (
    DEFAULT_FRESHNESS_SECONDS,
    DEFAULT_MAX_BATCH_BYTES,
    DEFAULT_MAX_BATCH_RECORDS,
    DEFAULT_TASK_MEMORY_BYTES,
    Frozen,
    UpkeepSettings,
)
from spark_jobs.config.values import (
    Columns,
    ConnectUrl,
    Count,
    Duration,
    Names,
    OrphanAge,
    Owners,
    PipelineName,
    Properties,
    Regex,
    Scalar,
    Share,
    Size,
    StartText,
    Table,
    Terms,
    Topic,
    Version,
    Webhook,
    nothing_is_empty,
)
from spark_jobs.config.written_checks import WrittenChecks, WrittenMetrics
from spark_jobs.config.written_quality import Suites  # noqa: TC001  (pydantic needs them at run time)

_UPKEEP = UpkeepSettings()


class WrittenUpkeep(Frozen):
    """When a table is tidied up by itself; `./sluice upkeep` does it at any time."""

    compact_above: Count | None = Field(
        default=None,
        description="Compact when there are this many small data files.",
        json_schema_extra={"default": str(_UPKEEP.compact_above)},
    )
    keep_snapshots: Count | None = Field(
        default=None,
        description="Snapshots beyond the newest so many expire; each costs time at every commit.",
        json_schema_extra={"default": str(_UPKEEP.keep_snapshots)},
    )
    keep_snapshots_for: Duration | None = Field(
        default=None,
        description="Snapshots older than this expire too. Tags and branches keep theirs.",
        json_schema_extra={"default": format_duration(_UPKEEP.keep_snapshots_for_seconds)},
    )
    orphans_older_than: OrphanAge | None = Field(
        default=None,
        description="Files that no snapshot names and no unfinished batch owns are deleted at this age;"
        " at least 1d.",
        json_schema_extra={"default": format_duration(_UPKEEP.orphans_older_than_seconds)},
    )


class WrittenDeadLetters(Frozen):
    """What happens when many records cannot become rows."""

    stop_above: Share | None = Field(
        default=None,
        description="Stop, with nothing committed, when more than this share of a batch's records would be"
        " dead letters, e.g. `5%`: a changed format then waits for a person instead of filling the table.",
        json_schema_extra={"default": "never"},
    )


class WrittenNotify(Frozen):
    """Who is told of commits, so that caches in front of the table can be dropped; see docs/OPERATIONS.md."""

    webhook: Webhook | None = Field(
        default=None,
        description="A URL that gets a POST with JSON after each commit that changes rows: at least once,"
        " never holding up a drain.",
        json_schema_extra={"default": "nobody"},
    )


class WrittenDefaults(Frozen):
    """Settings of every pipeline in the same file that does not say otherwise; maps merge key by key."""

    start: StartText | None = Field(
        default=None,
        description="Where a table that does not exist yet begins: `earliest`, `latest`, a time (ISO 8601,"
        " UTC when it has no zone) or offsets by partition. Resolved once, when the table is made.",
        json_schema_extra={"default": "earliest"},
    )
    freshness: Duration | None = Field(
        default=None,
        description="How old the last commit may get while records wait: then a run starts.",
        json_schema_extra={"default": format_duration(DEFAULT_FRESHNESS_SECONDS)},
    )
    max_batch_records: Count | None = Field(
        default=None,
        description="Most records in one commit; this many waiting records start a run at once.",
        json_schema_extra={"default": str(DEFAULT_MAX_BATCH_RECORDS)},
    )
    max_batch_bytes: Size | None = Field(
        default=None,
        description="Most bytes (as Kafka holds them) in one commit; this much waiting starts a run at once.",
        json_schema_extra={"default": format_size(DEFAULT_MAX_BATCH_BYTES)},
    )
    partition_by: Terms | None = Field(
        default=None,
        description="Iceberg partition fields: a column, `year|month|day|hour(column)`, `bucket(16, column)`,"
        " `truncate(8, column)`. Used when the table is made.",
        json_schema_extra={"default": "none"},
    )
    table_properties: Properties | None = Field(
        default=None,
        description="Iceberg table properties, set when the table is made."
        " `sluice.*` and `commit.retry.*` are refused.",
    )
    columns: Columns | None = Field(
        default=None,
        description="Declared Iceberg types by column; they win over what the records suggest.",
    )
    owners: Owners | None = Field(
        default=None, description="Owners shown in Dagster: an e-mail address or `team:name`."
    )
    key_format: Literal["string", "binary"] | None = Field(
        default=None,
        description="Type of the column `_kafka_key`.",
        json_schema_extra={"default": "string"},
    )
    upkeep: Annotated[WrittenUpkeep, BeforeValidator(nothing_is_empty)] | None = Field(
        default=None, description="When the tables are tidied up."
    )
    dead_letters: Annotated[WrittenDeadLetters, BeforeValidator(nothing_is_empty)] | None = Field(
        default=None, description="What happens when many records cannot become rows."
    )
    quality: Suites | None = Field(
        default=None, description="Great Expectations suites: what rows must be like."
    )
    checks: Annotated[WrittenChecks, BeforeValidator(nothing_is_empty)] | None = Field(
        default=None, description="How bad a failed check is, and its limit."
    )
    notify: Annotated[WrittenNotify, BeforeValidator(nothing_is_empty)] | None = Field(
        default=None, description="Who is told of commits."
    )


class WrittenPipeline(WrittenDefaults):
    """One topic, a list of topics, or all topics that match; each becomes one table."""

    model_config = ConfigDict(
        json_schema_extra={"oneOf": [{"required": [name]} for name in ("topic", "topics", "topics_regex")]}
    )

    topic: Topic | None = Field(
        default=None, description="The topic. Exactly one of `topic`, `topics`, `topics_regex` is given."
    )
    topics: tuple[Topic, ...] | None = Field(
        default=None,
        description="Several topics: one pipeline each, named after the topic; `table` holds `{topic}`.",
    )
    topics_regex: Regex | None = Field(
        default=None,
        description="Every topic whose whole name matches (internal ones, `__…`, never do):"
        " one pipeline each; `table` holds `{topic}`.",
    )
    table: Table = Field(
        description="`namespace.table`; `{topic}` is the topic, all but letters, digits and `_` as `_`."
    )


class WrittenCatalog(Frozen):
    """The Iceberg catalog, under PyIceberg's names. Left out: SQLite and a folder under the state folder."""

    model_config = ConfigDict(frozen=True, extra="allow", hide_input_in_errors=True)
    __pydantic_extra__: dict[str, Scalar] = Field(init=False)

    name: PipelineName = Field(
        default="sluice", description="Name of the catalog; SQL catalogs keep it with every table."
    )


class WrittenSpark(Frozen):
    """Where tasks run; by default the Connect server of `./sluice up`, else a session inside the run."""

    remote: ConnectUrl | None = Field(
        default=None, description="A Spark Connect server, `sc://host:port`. Not together with `master`."
    )
    master: str | None = Field(
        default=None,
        description="A Spark master for a session inside the run's process, e.g. `local[4,4]`."
        " Not together with `remote`.",
    )
    task_memory: Size = Field(
        default=DEFAULT_TASK_MEMORY_BYTES,
        description="Memory one task may use; reading, decoding and writing are sized to stay within it.",
        json_schema_extra={"default": format_size(DEFAULT_TASK_MEMORY_BYTES)},
    )
    conf: Properties = Field(
        default_factory=dict,
        description="Any Spark configuration, `spark.…`. Batches are cut for as many cores as"
        " `spark.default.parallelism` says; otherwise for as many as this machine has.",
    )


Pipelines = Annotated[dict[PipelineName, WrittenPipeline], BeforeValidator(nothing_is_empty)]
Defaults = Annotated[WrittenDefaults, BeforeValidator(nothing_is_empty)]


class WrittenTeamFile(Frozen):
    """A file named by `include`: pipelines of one team, with defaults of their own."""

    defaults: Defaults = Field(
        default=WrittenDefaults(), description="As in the main file, for the pipelines of this file."
    )
    pipelines: Pipelines = Field(default_factory=dict, description="Pipelines by name.")


class WrittenFile(WrittenTeamFile):
    """The whole of `sluice.yaml`."""

    version: Version = Field(description="Version of this format.")
    kafka: Properties = Field(
        default_factory=dict,
        description="Any librdkafka property under its own name, `bootstrap.servers` first. Without it the"
        " embedded broker is meant. What decides that no record is lost (`isolation.level`,"
        " `auto.offset.reset`, …) is fixed and refused here.",
    )
    catalog: Annotated[WrittenCatalog, BeforeValidator(nothing_is_empty)] = Field(
        default=WrittenCatalog(name="sluice"),
        description="`name` and the properties of the catalog and its FileIO, under PyIceberg's names.",
    )
    state: str | None = Field(
        default=None,
        description="Root of the transaction log, a path or any URI the catalog's FileIO can write;"
        " never inside the warehouse.",
        json_schema_extra={"default": "log in the state folder"},
    )
    spark: Annotated[WrittenSpark, BeforeValidator(nothing_is_empty)] = Field(
        default=WrittenSpark(), description="Where tasks run."
    )
    metrics: Annotated[WrittenMetrics, BeforeValidator(nothing_is_empty)] = Field(
        default=WrittenMetrics(), description="Where Prometheus metrics are served."
    )
    include: Names = Field(default=(), description="Team files, as globs relative to this file.")
