"""Sections: ``kafka``; a pipeline's ``hot``, ``mirror``, ``cdc``, ``route``, ``upkeep`` and more. Pure."""

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

# ``hot``: whether queries may see what Kafka has beyond a pipeline's table.


class HotSettings(Frozen):
    """What of Kafka queries with `--fresh` see; `hot: true` is the section with its defaults."""

    memory_bytes: Size = key(
        "500MB",
        "Most bytes that records beyond the table may take once they are rows; beyond it a query that reads"
        " them itself is refused (`too-far-behind`), and `serve` takes in no more until some are drained.",
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
    """What becomes of a change that cannot be a row."""

    STOP = "stop"
    DEAD_LETTERS = "dead_letters"


class MirrorSettings(Frozen):
    """A table that is as its source is, with `layout: mirror` (docs/how-to/debezium-mirror.md)."""

    key: OneOrMany[str] = setting(
        (),
        "The fields that the records' keys have; other keys stop drains (`mirror-key-changed`).",
        shown="those of the first batch",
    )
    bad_changes: Annotated[BadChanges, choice(BadChanges)] = setting(
        "stop",
        "What becomes of a change that cannot be a row: `stop`, nothing is committed, as the row of its key"
        " would be wrong; or `dead_letters`, and the check `exact` fails from then on.",
    )
    source: SourceName | None = setting(None, "The database it is of, by its name under `sources`.")


# ``cdc``: what change events are written as.


class Envelope(StrEnum):
    """What is around a row."""

    DEBEZIUM = "debezium"
    UPSERT = "upsert"
    SLUICE = "sluice"


class CdcSettings(Frozen):
    """How change events are written, of a table with `layout: changes` or `mirror`."""

    envelope: Annotated[Envelope, choice(Envelope)] | None = key(
        None,
        "`debezium`: its events in JSON, with their schemas (`value.converter.schemas.enable`) or without, or"
        " in Avro;"
        " `upsert`: a value is the row that its key has from then on, no value that the row is gone;"
        " `sluice`: as a gateway's stream with `envelope: sluice` writes them.",
        shown="debezium",
    )


# ``route`` of ``sluice.yaml``: which records become rows of other tables.


class RouteSettings(Frozen):
    """Records of one topic as rows of several tables (docs/how-to/shape-rows.md)."""

    by: Annotated[str, parsed(str)] | None = key(
        None,
        "A DuckDB expression over one record, whose value says which table its row goes to.",
        shown="none",
    )
    tables: dict[str, Table] = Field(
        default_factory=dict,
        description="The table of each value, `refund: sales.refunds`; rows of other values stay in the"
        " pipeline's own. `{topic}` is as in `table`.",
    )


class UpkeepSettings(Frozen):
    """When a table is tidied up by itself; `./sluice upkeep` does it at any time."""

    schedule: values.Cron = key(
        None,
        "Cron, in the pipeline's `timezone`: what is due is done at these times only. `off` takes back what"
        " `defaults` say.",
        shown="as soon as it is due",
    )
    compact_above: values.Count = key("20", "Compact when there are this many small data files.")
    keep_snapshots: values.Count = key(
        "100", "Snapshots beyond the newest so many expire; each costs time at every commit."
    )
    keep_snapshots_for_seconds: values.Duration = key(
        "5d",
        "Snapshots older than this expire too. Tags and branches keep theirs.",
        alias="keep_snapshots_for",
    )
    orphans_older_than_seconds: values.OrphanAge = key(
        "3d",
        "Files that no snapshot names and no unfinished batch owns are deleted at this age; at least 1d.",
        alias="orphans_older_than",
    )


class DeadLetterSettings(Frozen):
    """What happens when many records cannot become rows, and what their table has beside them."""

    # A share: 0.05 is 5 %.
    stop_above: values.Share | None = key(
        None,
        "Stop, with nothing committed, when more than this share of a batch's records would be"
        " dead letters, e.g. `5%`: a changed format then waits for a person instead of filling the table.",
        shown="never",
    )
    columns: dict[values.ColumnName, LetterColumn] = Field(
        default_factory=dict,
        description="Columns of the dead-letter table by expressions:"
        ' `{day: {type: date, sql: "CAST(_kafka_timestamp AS DATE)"}}` (docs/how-to/shape-rows.md).',
    )
    partition_by: values.OneOrMany[values.PartitionField] = key(
        (), "Partition fields of the dead-letter table, as the pipeline's `partition_by`."
    )


class SchemaSettings(Frozen):
    """How a table takes fields that it has no column for."""

    new_fields: Annotated[NewFields, values.choice(NewFields)] = key(
        "add",
        "What becomes of a record's field without a column: `add` one; `ignore` it, its values being counted"
        " by name and kept nowhere; or the record is a `dead_letter`. A new table's first batch decides its"
        " columns; with `ignore` and a column that has `sql`, `jmespath` or `from` it has the declared ones"
        " alone.",
    )
    max_columns: values.Count = key(
        "1000",
        "Most columns that fields are added for, those inside structs counted. Beyond it a record with a new"
        " field is a dead letter that names it.",
    )

    incompatible: Annotated[Incompatible, values.choice(Incompatible)] = key(
        "new_column",
        "What becomes of a field that a new schema has in a type which its column does not hold and cannot be"
        " widened to: `new_column`, `name_2` beside it; its values are a `dead_letter` each, but for those"
        " that fit; or drains `stop`. A field of JSON, which has no schema, is always the second."
        " A mirror stops where nothing is written.",
    )

    @property
    def growth(self) -> Growth:
        """Return the same as decoders take it."""
        return Growth(self.new_fields, self.max_columns)


class NotifySettings(Frozen):
    """Who is told of commits, so that caches in front of the table can be dropped, and who of trouble.

    See docs/how-to/deploy.md.
    """

    # References in them are unresolved; all of both counts as secret.
    webhook: values.Webhook | None = key(
        None,
        "A URL that gets a POST with JSON after each commit that changes rows: at least once,"
        " never holding up a drain.",
        shown="nobody",
    )
    trouble: values.Webhook | None = key(
        None,
        "A URL that gets a POST with JSON when a run fails: once for each code, and again only after a run"
        " of the pipeline went well. Its `text` is what chat rooms show.",
        shown="nobody",
    )
    secret: values.Secret | None = key(
        None,
        "What both are signed with (HMAC, in the header `Sluice-Signature`), at least 16 characters, best as"
        " `${NAME}`.",
        shown="not signed",
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
    """Return every mistake in properties under librdkafka's names, in their order; values are not shown.

    A finding's path is the property's name. Values are librdkafka's to judge, when a client is made.
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
    """Amazon's IAM for MSK; needs `extras: [msk]`."""

    region: AwsRegion = Field(description="Region of the cluster, `eu-central-1`.")


class KafkaAuth(Frozen):
    """Who asks Kafka, where no property of librdkafka's says it."""

    aws_msk_iam: AwsMskIam | None = key(
        None, "Tokens by Amazon's IAM for MSK, signed with the credentials that AWS's SDK finds."
    )
