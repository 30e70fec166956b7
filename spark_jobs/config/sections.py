"""Sections: ``kafka``, ``runs``; a pipeline's ``hot``, ``mirror``, ``cdc``, ``upkeep`` and more. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from importlib import resources
from typing import Annotated

from pydantic import BeforeValidator, Field

from spark_jobs.config import values
from spark_jobs.config.columns import Growth, Incompatible, LetterColumn, NewFields
from spark_jobs.config.problems import Finding, closest, did_you_mean, mistake, wrong_value
from spark_jobs.config.values import (
    AwsRegion,
    Frozen,
    OneOrMany,
    Size,
    SourceName,
    Table,
    choice,
    key,
    parsed,
)
from spark_jobs.config.values import key as setting

# ``runs``: of all pipelines.


class RunStart(StrEnum):
    """How Dagster's runs get their process."""

    FORK = "fork"
    SPAWN = "spawn"


# ``hot``: whether queries may see what Kafka has beyond a pipeline's table.


class HotSettings(Frozen):
    """Queries that include records in Kafka (`--fresh`, `serve`). `hot: true` uses these defaults."""

    memory_bytes: Size = key(
        "500MB",
        "Maximum memory of rows that are not in the table yet. Above it, `query --fresh` is refused"
        " (`too-far-behind`), and `serve` reads no more from Kafka until some are drained.",
        alias="memory",
    )


def _read(value: object) -> object:
    if not isinstance(value, str):
        return value
    if value not in {"true", "false"}:
        raise wrong_value("not-hot", text=value)
    return {} if value == "true" else None


Hot = Annotated[HotSettings | None, BeforeValidator(_read, json_schema_input_type=bool | HotSettings | None)]


# ``mirror``: a table with one live row a key.


class BadChanges(StrEnum):
    """Handling of a change event that cannot become a row."""

    STOP = "stop"
    DEAD_LETTERS = "dead_letters"


class MirrorSettings(Frozen):
    """Settings of a mirror (`layout: mirror`, docs/how-to/debezium-mirror.md)."""

    key: OneOrMany[str] = setting(
        (),
        "Fields of the records' keys. If unset, those of the first batch. Other keys stop drains"
        " (`mirror-key-changed`).",
    )
    bad_changes: Annotated[BadChanges, choice(BadChanges)] = setting(
        "stop",
        "Handling of a change event that cannot become a row. `stop`: the drain fails and commits nothing."
        " `dead_letters`: it becomes a dead letter, its row is wrong, and the check `exact` fails.",
    )
    source: SourceName | None = setting(None, "Its source database, a name under `sources`.")


# ``cdc``: what change events are written as.


class Envelope(StrEnum):
    """Envelope of change events."""

    DEBEZIUM = "debezium"
    UPSERT = "upsert"
    SLUICE = "sluice"


class CdcSettings(Frozen):
    """Format of change events, for `layout: changes` and `layout: mirror`."""

    envelope: Annotated[Envelope, choice(Envelope)] | None = key(
        None,
        "`debezium`: Debezium's events in JSON, with or without schemas (`value.converter.schemas.enable`),"
        " or in Avro. `upsert`: a value is the current row of its key; a tombstone deletes the row."
        " `sluice`: events of a gateway stream with `envelope: sluice`.",
        shown="debezium",
    )


# ``route`` of ``sluice.yaml``: which records become rows of other tables.


class RouteSettings(Frozen):
    """Rows of one topic in several tables (docs/reference/expressions.md)."""

    by: Annotated[str, parsed(str)] | None = key(
        None,
        "DuckDB expression over one record. Its value selects the table of the row.",
    )
    tables: dict[str, Table] = Field(
        default_factory=dict,
        description="Table by value, for example `refund: sales.refunds`. Rows with other values stay in the"
        " pipeline's table. `{topic}` works as in `table`.",
    )


class UpkeepSettings(Frozen):
    """Automatic upkeep of tables. `./sluice upkeep` runs it at any time."""

    schedule: values.Cron = key(
        None,
        "Cron expression in the pipeline's `timezone`: run due upkeep only at these times. Without it, upkeep"
        " runs as soon as it is due. `off` removes a schedule set in `defaults`.",
    )
    compact_above: values.Count = key("20", "Number of small data files that starts a compaction.")
    keep_snapshots: values.Count = key(
        "100", "Number of snapshots to keep. Every snapshot makes commits slower."
    )
    keep_snapshots_for_seconds: values.Duration = key(
        "5d",
        "Maximum age of snapshots. Snapshots of tags and branches are kept.",
        alias="keep_snapshots_for",
    )
    orphans_older_than_seconds: values.OrphanAge = key(
        "3d",
        "Age at which files are deleted that belong to no snapshot and no unfinished batch. At least 1d.",
        alias="orphans_older_than",
    )


class DeadLetterSettings(Frozen):
    """Limit, columns and partitioning of dead letters."""

    # A share: 0.05 is 5 %.
    stop_above: values.Share | None = key(
        None,
        "Fail the drain and commit nothing if more than this share of a batch's records would be dead"
        " letters, for example `5%`. If unset, no limit applies.",
    )
    columns: dict[values.ColumnName, LetterColumn] = Field(
        default_factory=dict,
        description="Additional columns of the dead-letter table, each by an expression:"
        ' `{day: {type: date, sql: "CAST(_kafka_timestamp AS DATE)"}}` (docs/reference/expressions.md).',
    )
    partition_by: values.OneOrMany[values.PartitionField] = key(
        (), "Partition fields of the dead-letter table, in the form of the pipeline's `partition_by`."
    )


class SchemaSettings(Frozen):
    """Handling of fields without a column and of fields with another type."""

    new_fields: Annotated[NewFields, values.choice(NewFields)] = key(
        "add",
        "Handling of a field without a column. `add`: add a column. `ignore`: drop its values and count"
        " them by name. `dead_letter`: the record becomes a dead letter. The first batch decides the columns"
        " of a new table. With `ignore` and a column that has `sql`, `jmespath` or `from`, it gets only the"
        " declared columns.",
    )
    max_columns: values.Count = key(
        "1000",
        "Maximum number of columns, including fields inside structs. Above it, a record with a new field"
        " becomes a dead letter that names the field.",
    )

    incompatible: Annotated[Incompatible, values.choice(Incompatible)] = key(
        "new_column",
        "Handling of a field whose type in a new schema does not fit its column and cannot be widened."
        " `new_column`: write it to an additional column `name_2`. `dead_letter`: values that do not fit"
        " become dead letters. `stop`: drains fail. JSON without a schema always uses `dead_letter`. A"
        " mirror stops unless this is set.",
    )

    @property
    def growth(self) -> Growth:
        """Return the settings in the form that decoders use."""
        return Growth(self.new_fields, self.max_columns)


class NotifySettings(Frozen):
    """Webhooks for commits, for example to invalidate caches, and for failures (docs/how-to/webhooks.md)."""

    # References in them are unresolved; all of both counts as secret.
    webhook: values.Webhook | None = key(
        None,
        "URL that receives a JSON POST after each commit that changes rows, at least once. It never delays a"
        " drain.",
    )
    trouble: values.Webhook | None = key(
        None,
        "URL that receives a JSON POST when a run fails: once per error code until a run of the pipeline"
        " succeeds. Chat services show its field `text`.",
    )
    secret: values.Secret | None = key(
        None,
        "Key that signs both webhooks (HMAC in the header `Sluice-Signature`), at least 16 characters, for"
        " example `${NAME}`. If unset, they are not signed.",
    )


# Which Kafka properties a person may set, and what to write instead of others; ``kafka_auth``.


# The properties librdkafka 2.16 takes as text, as `rd_kafka_conf_properties_show` lists them.
KAFKA_PROPERTY_NAMES = (resources.files(__package__) / "kafka_keys.txt").read_text("utf-8").split()
# Without any one of these, records are lost or doubled silently: `auto.offset.reset` by default skips what
# retention took and ends as if nothing were missing; `check.crcs` is off by default; uncommitted records may
# vanish; without the end-of-partition event a range that ends in markers is never done.
FIXED_PROPERTIES = {
    "isolation.level": "read_committed",
    "auto.offset.reset": "error",
    "check.crcs": "true",
    "enable.partition.eof": "true",
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    # A label the client library demands: partitions are assigned, no group is ever joined.
    "group.id": "sluice",
}

# Not librdkafka's: properties are text wherever they travel, and each client makes its callback of this.
AWS_MSK_IAM_REGION = "kafka_auth.aws_msk_iam.region"

ALIASES = {
    "metadata.broker.list": "bootstrap.servers",
    "sasl.mechanism": "sasl.mechanisms",
    "max.partition.fetch.bytes": "fetch.message.max.bytes",
    "max.in.flight": "max.in.flight.requests.per.connection",
    "auto.commit.enable": "enable.auto.commit",
}

# Those of the Java client alone, and what to write instead.
_JAVA_NAMES = dict(
    line.split(" ", 1)
    for line in (resources.files(__package__) / "java_keys.txt").read_text("utf-8").splitlines()
)


def validate_kafka_properties(properties: Mapping[str, str]) -> list[Finding]:
    """Return every mistake in librdkafka property names, in order; values are not shown.

    A finding's path is the property's name. librdkafka checks the values when a client is created.
    """
    findings = [finding for name, value in properties.items() if (finding := _judge(name, value))]
    for alias, name in ALIASES.items():
        if alias in properties and name in properties and properties[alias] != properties[name]:
            findings.append(mistake("same-property", (alias,), name=name))
    return findings


def _judge(name: str, value: str) -> Finding | None:
    fixed = FIXED_PROPERTIES.get(ALIASES.get(name, name))
    if fixed is not None:
        if str(value).lower() == fixed:
            return None
        return mistake("fixed-group" if name == "group.id" else "fixed", (name,), value=fixed)
    if name in _JAVA_NAMES:
        return mistake("property-of-java", (name,), how=_JAVA_NAMES[name])
    if name in KAFKA_PROPERTY_NAMES:
        return None
    meant = closest(name.lower().replace("_", ".").replace("-", "."), KAFKA_PROPERTY_NAMES)
    hint = did_you_mean(meant, "See the list of properties in librdkafka's CONFIGURATION.md.")
    return mistake("unknown-property", (name,), how=hint)


class AwsMskIam(Frozen):
    """IAM authentication of Amazon MSK; requires `extras: [msk]`."""

    region: AwsRegion = Field(description="Region of the cluster, for example `eu-central-1`.")


class KafkaAuth(Frozen):
    """Authentication that librdkafka properties cannot express."""

    aws_msk_iam: AwsMskIam | None = key(
        None, "IAM authentication of Amazon MSK, with the credentials that the AWS SDK finds."
    )
