"""What files of ``sluice.yaml``'s kind hold: pipelines, defaults, and the main file's own keys. Pure."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import BeforeValidator, ConfigDict, Field

from spark_jobs.config import values
from spark_jobs.config.frozen import Frozen, key
from spark_jobs.config.gateway import GatewaySettings
from spark_jobs.config.listener import CatalogServerSettings, MetricsSettings, ServeSettings, UiSettings
from spark_jobs.config.settings import KafkaAuth, PipelineSettings, RegistrySettings, SparkSettings


class Extra(StrEnum):
    """What may be installed beside; each has its lock in bootstrap."""

    POSTGRES = "postgres"
    MSK = "msk"


class WrittenPipeline(PipelineSettings):
    """One topic, a list of topics, or all topics that match; each becomes one table."""

    model_config = ConfigDict(
        json_schema_extra={"oneOf": [{"required": [name]} for name in ("topic", "topics", "topics_regex")]}
    )

    topic: values.Topic | None = key(
        None, "The topic. Exactly one of `topic`, `topics`, `topics_regex` is given."
    )
    topics: tuple[values.Topic, ...] | None = key(
        None, "Several topics: one pipeline each, named after the topic; `table` holds `{topic}`."
    )
    topics_regex: values.Regex | None = key(
        None,
        "Every topic whose whole name matches (internal ones, `__…`, never do), as RE2 reads it: one pipeline"
        " each; `table` holds `{topic}`.",
    )
    table: values.Table = Field(
        description="`namespace.table`; `{topic}` is the topic, all but letters, digits and `_` as `_`."
    )


class WrittenCatalog(Frozen):
    """The Iceberg catalog, under PyIceberg's names. Left out: SQLite and a folder under the state folder."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, values.Scalar] = Field(init=False)

    name: values.PipelineName = key("sluice", "Name of the catalog; SQL catalogs keep it with every table.")


class WrittenState(Frozen):
    """Where the log lies and what opens it, apart from what opens the lake."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, values.Scalar] = Field(init=False)

    uri: str = Field(description="As the text alone would be.")


class WrittenTeamFile(Frozen):
    """A file named by `include`: pipelines of one team, with defaults of their own."""

    defaults: PipelineSettings = key(
        PipelineSettings(), "As in the main file, for the pipelines of this file."
    )
    pipelines: dict[values.PipelineName, WrittenPipeline] = Field(
        default_factory=dict, description="Pipelines by name."
    )


class WrittenInclude(Frozen):
    """Team files and what this file lends them; a glob alone lends nothing."""

    files: str = Field(description="Team files, as a glob relative to this file.")
    secrets: values.OneOrMany[str] = key(
        (), "What their `notify` may name as `${…}`: `A_HOOK`, `file:/run/secrets/a`.", shown="none"
    )
    webhook_hosts: values.OneOrMany[str] = key(
        (), "Where their webhooks may go: `host[:port]` for https, `http://host[:port]`.", shown="none"
    )
    registries: values.OneOrMany[values.RegistryName] = key(
        (), "Which of `registries` their pipelines may be read by.", shown="none"
    )
    sources: values.OneOrMany[values.SourceName] = key(
        (), "Which of `sources` their mirrors may be of, and so be compared with.", shown="none"
    )


Includes = Annotated[
    tuple[str | WrittenInclude, ...],
    BeforeValidator(
        lambda value: value if isinstance(value, list) else [value],
        json_schema_input_type=str | tuple[str | WrittenInclude, ...],
    ),
]


State = Annotated[
    WrittenState,
    BeforeValidator(
        lambda value: {"uri": value} if isinstance(value, str) else value,
        json_schema_input_type=str | WrittenState,
    ),
]


class WrittenFile(WrittenTeamFile):
    """The whole of `sluice.yaml`."""

    version: values.Version = Field(description="Version of this format.")
    kafka: values.Properties = Field(
        default_factory=dict,
        description="Any librdkafka property under its own name, `bootstrap.servers` first. Without it the"
        " embedded broker is meant. What decides that no record is lost (`isolation.level`,"
        " `auto.offset.reset`, …) is fixed and refused here.",
    )
    kafka_auth: KafkaAuth = key(
        KafkaAuth(),
        "Logging in to Kafka as no property can say it. `aws_msk_iam: {region: eu-central-1}`:"
        " Amazon MSK knows the client by IAM; needs `extras: [msk]`.",
        shown="none",
    )
    catalog: WrittenCatalog = key(
        WrittenCatalog(name="sluice"),
        "`name` and the properties of the catalog and its FileIO, under PyIceberg's names.",
    )
    state: State | None = key(
        None,
        "Root of the transaction log and of kept schemas, a path or any URI that PyIceberg can write;"
        " never inside the warehouse. As a map it has credentials of its own, and nothing of the catalog's:"
        " `{uri: s3://bucket/log, s3.access-key-id: …}`, under PyIceberg's names.",
        shown="log in the state folder",
    )
    extras: values.OneOrMany[Annotated[Extra, values.choice(Extra)]] = key(
        (),
        "Packages beside those that are always there, which `./sluice` installs, locked, before it runs a"
        " command: `postgres` for a catalog in Postgres, `msk` for Amazon MSK with IAM.",
        shown="none",
    )
    spark: SparkSettings = key(SparkSettings(), "Where tasks run.")
    registries: dict[values.RegistryName, RegistrySettings] = Field(
        default_factory=dict, description="Schema registries by name."
    )
    sources: dict[values.SourceName, values.SourceUrl] = Field(
        default_factory=dict,
        description="Databases that mirrors are of, by name: `shop: ${SHOP_POSTGRES}`, which holds"
        " `postgresql://user:password@host/database`. Never shown.",
    )
    ui: UiSettings = key(UiSettings(), "Where Dagster's UI is served, and for whom.")
    metrics: MetricsSettings = key(MetricsSettings(), "Where Prometheus metrics are served.")
    catalog_server: CatalogServerSettings = key(
        CatalogServerSettings(), "Where the catalog is served to other engines, for reading."
    )
    serve: ServeSettings = key(
        ServeSettings(), "Where queries are answered with what Kafka has, and for whom."
    )
    gateway: GatewaySettings = key(
        GatewaySettings(), "Streams for clients that cannot speak Kafka, and for whom."
    )
    include: Includes = key(
        (), "Team files: globs relative to this file, each alone or as `files` beside what it is lent."
    )
