"""The kinds of value ``sluice.yaml`` knows: how each is read, and how an editor is told about it. Pure.

The YAML reader hands over every scalar as its text; types are decided here.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import BeforeValidator, WithJsonSchema

from spark_jobs.core.config import Start, StartKind
from spark_jobs.core.config_problems import UnreadableValueError
from spark_jobs.core.partition_terms import parse_partition_term
from spark_jobs.core.quantities import parse_duration_seconds, parse_size_bytes
from spark_jobs.core.type_names import check_type_name

_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_TABLE = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)+")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OWNER = re.compile(r"team:\S+|[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\.[A-Za-z]{2,7}")
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


def _pipeline_name(value: object) -> str:
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
            "Write earliest, latest, a time such as 2026-01-31T06:00:00Z, or offsets {0: 100, 1: 250}.",
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


def _owner(value: object) -> str:
    # Dagster refuses all definitions for one owner that it cannot read.
    if not _OWNER.fullmatch(_text(value)):
        raise UnreadableValueError(f"{value!r} is not an owner", "Write an e-mail address or team:name.")
    return _text(value)


def nothing_is_empty(value: object) -> object:
    """A section whose every line is commented out is an empty one."""
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


Scalar = Annotated[str, WithJsonSchema({"type": ["string", "number", "boolean"]})]
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
    str, BeforeValidator(_pipeline_name), WithJsonSchema({"type": "string", "pattern": f"^{_NAME.pattern}$"})
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
Owners = Annotated[
    tuple[Annotated[str, BeforeValidator(_owner)], ...],
    BeforeValidator(_one_or_many),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
]
Properties = Annotated[
    dict[str, Scalar],
    BeforeValidator(nothing_is_empty),
]
Columns = Annotated[
    dict[Annotated[str, BeforeValidator(_column_name)], Annotated[str, BeforeValidator(_type_name)]],
    BeforeValidator(nothing_is_empty),
    WithJsonSchema({"type": "object", "additionalProperties": {"type": "string"}}),
]
ConnectUrl = Annotated[
    str, BeforeValidator(_connect_url), WithJsonSchema({"type": "string", "pattern": "^sc://"})
]
Version = Annotated[int, BeforeValidator(_version), WithJsonSchema({"const": 1})]
