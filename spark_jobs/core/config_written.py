"""``sluice.yaml`` as a person writes it: names, units, limits and one sentence about every key.

docs/CONFIG.md and docs/sluice.schema.json are generated from these models, so a description here is
documentation. The YAML reader hands over every scalar as its text; types are decided here. Pure.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from spark_jobs.core.config import (
    DEFAULT_FRESHNESS_SECONDS,
    DEFAULT_MAX_BATCH_BYTES,
    DEFAULT_MAX_BATCH_RECORDS,
    DEFAULT_TASK_MEMORY_BYTES,
    Frozen,
    Start,
    StartKind,
)
from spark_jobs.core.config_problems import UnreadableValueError
from spark_jobs.core.partition_terms import parse_partition_term
from spark_jobs.core.quantities import format_duration, format_size, parse_duration_seconds, parse_size_bytes
from spark_jobs.core.type_names import check_type_name

_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_TABLE = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)+")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_METADATA_COLUMN = re.compile(r"_kafka_.*|_ingested_at")


def _duration(value: object) -> int:
    return parse_duration_seconds(_text(value))


def _size(value: object) -> int:
    return parse_size_bytes(_text(value))


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise UnreadableValueError("must be one value", "Write key: value.")
    return value


def _topic(value: object) -> str:
    topic = _text(value)
    if not _TOPIC.fullmatch(topic) or topic in {".", ".."}:
        raise UnreadableValueError(
            f"{topic!r} is not a topic name", "Letters, digits, '.', '_' and '-', at most 249."
        )
    return topic


def _regex(value: object) -> str:
    try:
        re.compile(_text(value))
    except re.error as error:
        raise UnreadableValueError(
            f"{value!r} is not a regular expression: {error}", "It must match whole topic names."
        ) from error
    return _text(value)


def _table(value: object) -> str:
    table = _text(value)
    if not _TABLE.fullmatch(table.replace("{topic}", "topic")):
        raise UnreadableValueError(
            f"{table!r} is not a table name", "Write namespace.table, of letters, digits, '_' and '-'."
        )
    return table


def pipeline_name(value: object) -> str:
    """Check a pipeline's name: it becomes an asset key, a Spark session and a folder."""
    name = _text(value)
    if not _NAME.fullmatch(name):
        raise UnreadableValueError(
            f"{name!r} is not a pipeline name", "Letters, digits and '_', not starting with a digit."
        )
    return name


def _start(value: object) -> Start:
    if isinstance(value, dict):
        return Start(StartKind.OFFSETS, offsets=_offsets(value))
    text = _text(value)
    if text in {"earliest", "latest"}:
        return Start(StartKind(text))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise UnreadableValueError(
            f"{text!r} is not a start",
            "earliest, latest, a time such as 2026-01-31T06:00:00Z, or offsets by partition {0: 100, 1: 250}.",
        ) from None
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return Start(StartKind.TIMESTAMP, timestamp_ms=round(aware.timestamp() * 1000))


def _offsets(value: dict[Any, Any]) -> dict[int, int]:
    if not value or not all(str(item).isdecimal() for pair in value.items() for item in pair):
        raise UnreadableValueError("offsets must be whole numbers by partition", "Write {0: 100, 1: 250}.")
    return {int(partition): int(offset) for partition, offset in value.items()}


def _partition_term(value: object) -> str:
    return str(parse_partition_term(_text(value)))


def _one_or_many(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _type_name(value: object) -> str:
    check_type_name(_text(value))
    return _text(value).strip()


def _column_name(value: object) -> str:
    if _METADATA_COLUMN.fullmatch(_text(value)):
        raise UnreadableValueError(f"{value!r} is a column that Sluice writes itself", "Leave it out.")
    return _text(value)


def _nothing_is_empty(value: object) -> object:
    return {} if value is None else value


def _positive(value: object) -> int:
    text = _text(value).replace("_", "")
    if not text.isdecimal() or int(text) == 0:
        raise UnreadableValueError(f"{value!r} is not a positive whole number", "Write 500000.")
    return int(text)


def _connect_url(value: object) -> str:
    if not _text(value).startswith("sc://"):
        raise UnreadableValueError(
            "is not a Spark Connect URL", "Write sc://host:15002, or use master for a Spark master."
        )
    return _text(value)


def _version(value: object) -> int:
    if value != "1":
        raise UnreadableValueError(f"version {value} is not known", "This Sluice reads version: 1.")
    return 1


_SCALAR = {"type": ["string", "number", "boolean"]}
Duration = Annotated[
    int, BeforeValidator(_duration), WithJsonSchema({"type": "string", "pattern": r"^\d+\s*[smhd]$"})
]
Size = Annotated[
    int, BeforeValidator(_size), WithJsonSchema({"type": "string", "pattern": r"^\d+\s*([KMGT]i?)?B$"})
]
Count = Annotated[int, BeforeValidator(_positive), WithJsonSchema({"type": "integer", "minimum": 1})]
Topic = Annotated[
    str, BeforeValidator(_topic), WithJsonSchema({"type": "string", "pattern": f"^{_TOPIC.pattern}$"})
]
Regex = Annotated[str, BeforeValidator(_regex), WithJsonSchema({"type": "string", "format": "regex"})]
Table = Annotated[
    str, BeforeValidator(_table), WithJsonSchema({"type": "string", "pattern": r"^[^.\s]+(\.[^.\s]+)+$"})
]
PipelineName = Annotated[
    str, BeforeValidator(pipeline_name), WithJsonSchema({"type": "string", "pattern": f"^{_NAME.pattern}$"})
]
StartText = Annotated[
    Start,
    BeforeValidator(_start),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string"},
                {"type": "object", "additionalProperties": {"type": "integer", "minimum": 0}},
            ]
        }
    ),
]
Term = Annotated[str, BeforeValidator(_partition_term), WithJsonSchema({"type": "string"})]
Terms = Annotated[
    tuple[Term, ...],
    BeforeValidator(_one_or_many),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
]
Names = Annotated[
    tuple[str, ...],
    BeforeValidator(_one_or_many),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
]
Properties = Annotated[
    dict[str, str],
    BeforeValidator(_nothing_is_empty),
    WithJsonSchema({"type": "object", "additionalProperties": _SCALAR}),
]
Columns = Annotated[
    dict[Annotated[str, BeforeValidator(_column_name)], Annotated[str, BeforeValidator(_type_name)]],
    BeforeValidator(_nothing_is_empty),
    WithJsonSchema({"type": "object", "additionalProperties": {"type": "string"}}),
]
ConnectUrl = Annotated[
    str, BeforeValidator(_connect_url), WithJsonSchema({"type": "string", "pattern": "^sc://"})
]
Version = Annotated[int, BeforeValidator(_version), WithJsonSchema({"const": 1})]


class WrittenDefaults(Frozen):
    """Settings for every pipeline of the same file that does not say otherwise; maps are merged key by key."""

    start: StartText | None = Field(
        None,
        description="Where a table that does not exist yet begins: `earliest`, `latest`, a time (ISO 8601, UTC when it has"
        " no zone) or offsets by partition. Resolved once, when the table is made.",
        json_schema_extra={"x-default": "earliest"},
    )
    freshness: Duration | None = Field(
        None,
        description="How old the oldest waiting record may get before a run starts.",
        json_schema_extra={"x-default": format_duration(DEFAULT_FRESHNESS_SECONDS)},
    )
    max_batch_records: Count | None = Field(
        None,
        description="Most records in one commit; this many waiting records start a run at once.",
        json_schema_extra={"x-default": str(DEFAULT_MAX_BATCH_RECORDS)},
    )
    max_batch_bytes: Size | None = Field(
        None,
        description="Most bytes (as Kafka holds them) in one commit; this much waiting starts a run at once.",
        json_schema_extra={"x-default": format_size(DEFAULT_MAX_BATCH_BYTES)},
    )
    partition_by: Terms | None = Field(
        None,
        description="Iceberg partition fields: a column, `year|month|day|hour(column)`, `bucket(16, column)`,"
        " `truncate(8, column)`. Used when the table is made.",
        json_schema_extra={"x-default": "none"},
    )
    table_properties: Properties | None = Field(
        None,
        description="Iceberg table properties, set when the table is made. `sluice.*` and `commit.retry.*` are refused.",
    )
    columns: Columns | None = Field(
        None,
        description="Declared Iceberg types by column; they win over what the records suggest.",
    )
    owners: Names | None = Field(
        None, description="Owners shown in Dagster: an e-mail address or `team:name`."
    )
    key_format: Literal["string", "binary"] | None = Field(
        None, description="Type of the column `_kafka_key`.", json_schema_extra={"x-default": "string"}
    )


class WrittenPipeline(WrittenDefaults):
    """One topic, a list of topics, or all topics that match; each becomes one table."""

    topic: Topic | None = Field(
        None, description="The topic. Exactly one of `topic`, `topics`, `topics_regex` is given."
    )
    topics: tuple[Topic, ...] | None = Field(
        None, description="Several topics: one pipeline each, named after the topic; `table` holds `{topic}`."
    )
    topics_regex: Regex | None = Field(
        None,
        description="Every topic whose whole name matches (internal ones that start with `__` never do): one pipeline each;"
        " `table` holds `{topic}`.",
    )
    table: Table = Field(
        description="`namespace.table`; `{topic}` stands for the topic with all but letters, digits and `_` as `_`."
    )


class WrittenCatalog(Frozen):
    """The Iceberg catalog, under PyIceberg's names. Left out: SQLite and a folder under the state folder."""

    model_config = {**Frozen.model_config, "extra": "allow"}
    __pydantic_extra__: dict[str, str] = Field(init=False)

    name: PipelineName = Field(
        "sluice", description="Name of the catalog; SQL catalogs keep it with every table."
    )


class WrittenSpark(Frozen):
    """Where tasks run. Nothing given: the Spark Connect server that `./sluice up` started, else a session in the run."""

    remote: ConnectUrl | None = Field(
        None, description="A Spark Connect server, `sc://host:port`. Not together with `master`."
    )
    master: str | None = Field(
        None,
        description="A Spark master for sessions inside the run's process, e.g. `local[4,4]`. Not together with `remote`.",
    )
    task_memory: Size = Field(
        DEFAULT_TASK_MEMORY_BYTES,
        description="Memory one task may use; reading, decoding and writing are sized to stay within it.",
        json_schema_extra={"x-default": format_size(DEFAULT_TASK_MEMORY_BYTES)},
    )
    conf: Properties = Field(default_factory=dict, description="Any Spark configuration, `spark.…`.")


Pipelines = Annotated[dict[PipelineName, WrittenPipeline], BeforeValidator(_nothing_is_empty)]
Defaults = Annotated[WrittenDefaults, BeforeValidator(_nothing_is_empty)]


class WrittenTeamFile(Frozen):
    """A file named by `include`: pipelines of one team, with defaults of their own."""

    defaults: Defaults = Field(
        WrittenDefaults(), description="As in the main file, for the pipelines of this file."
    )
    pipelines: Pipelines = Field(default_factory=dict, description="Pipelines by name.")


class WrittenFile(WrittenTeamFile):
    """The whole of `sluice.yaml`."""

    version: Version = Field(description="Version of this format.")
    kafka: Properties = Field(
        default_factory=dict,
        description="Any librdkafka property under its own name, `bootstrap.servers` first. Without it the embedded broker is"
        " meant. What decides that no record is lost (`isolation.level`, `auto.offset.reset`, …) is fixed and refused here.",
    )
    catalog: Annotated[WrittenCatalog, BeforeValidator(_nothing_is_empty)] = Field(
        WrittenCatalog(name="sluice"), description="`name` and any PyIceberg catalog or FileIO property."
    )
    state: str | None = Field(
        None,
        description="Root of the transaction log, a path or any URI the catalog's FileIO can write; never inside the warehouse.",
        json_schema_extra={"x-default": "log in the state folder"},
    )
    spark: Annotated[WrittenSpark, BeforeValidator(_nothing_is_empty)] = Field(
        WrittenSpark(), description="Where tasks run."
    )
    include: Names = Field((), description="Team files, as globs relative to this file.")
