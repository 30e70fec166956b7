"""The kinds of value ``sluice.yaml`` knows: how each is read, and how an editor is told about it. Pure.

The YAML reader hands over every scalar as its text; types are decided here.
"""

from __future__ import annotations

import difflib
import re
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import BeforeValidator, SecretStr, WithJsonSchema

from spark_jobs.config.expectation_names import KNOWN_EXPECTATIONS, SQL_EXPECTATIONS
from spark_jobs.config.partition_terms import parse_partition_term
from spark_jobs.config.problems import UnreadableValueError
from spark_jobs.config.quantities import parse_duration_seconds, parse_size_bytes
from spark_jobs.config.settings import DAY_SECONDS, Start, StartKind
from spark_jobs.config.suites import Expectation
from spark_jobs.config.type_names import check_type_name
from spark_jobs.protocol.names import BOOKS_TABLE

_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_TABLE = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)+")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OWNER = re.compile(r"team:\S+|[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\.[A-Za-z]{2,7}")
_HIGHEST_PORT = 65535
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
    if table.rpartition(".")[2].lower() == BOOKS_TABLE:
        raise UnreadableValueError(f"{table} is the name of the books", "Give the table another name.")
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


def _port(value: object) -> int:
    text = _text(value)
    if not text.isdecimal() or int(text) > _HIGHEST_PORT:
        raise UnreadableValueError(f"{value!r} is not a port", "Write a number up to 65535; 0 is off.")
    return int(text)


def _connect_url(value: object) -> str:
    if not _text(value).startswith("sc://"):
        raise UnreadableValueError(
            "is not a Spark Connect URL", "Write sc://host:15002, or use master for a Spark master."
        )
    return _text(value)


def _webhook(value: object) -> str:
    if not _text(value).startswith(("https://", "http://", "${")):
        raise UnreadableValueError(
            "is not a URL", "Write https://…, or ${VARIABLE} or ${file:…} that holds it."
        )
    return _text(value)


def _orphan_age(value: object) -> int:
    seconds = _duration(value)
    if seconds < DAY_SECONDS:
        raise UnreadableValueError(
            f"{value!r} is too young", "At least 1d: a file is written long before its commit names it."
        )
    return seconds


def _share(value: object) -> float:
    text = _text(value).strip()
    try:
        share = float(text.removesuffix("%")) / 100 if text.endswith("%") else -1.0
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise UnreadableValueError(f"{value!r} is not a share", "Write 5%.")
    return share


def _expectation(value: object) -> Expectation:
    if not isinstance(value, dict) or len(value) != 1:
        raise UnreadableValueError(
            "must be one expectation with its arguments",
            "Write - expect_column_values_to_not_be_null: {column: id}.",
        )
    ((name, kwargs),) = value.items()
    if name in SQL_EXPECTATIONS:
        raise UnreadableValueError(f"{name} needs a database", "Rows of a batch are judged without SQL.")
    if name not in KNOWN_EXPECTATIONS:
        closest = difflib.get_close_matches(name, KNOWN_EXPECTATIONS, n=1, cutoff=0.5)
        hint = f"Did you mean {closest[0]}?" if closest else "Use a name of Great Expectations' gallery."
        raise UnreadableValueError(f"{name} is not an expectation", hint)
    if not (kwargs is None or isinstance(kwargs, dict)):
        raise UnreadableValueError(f"the arguments of {name} must be a map", "Write {column: id}.")
    return Expectation(name, dict(kwargs or {}))


def _version(value: object) -> int:
    if value != "1":
        raise UnreadableValueError(f"version {value} is not known", "This Sluice reads version: 1.")
    return 1


def _matches(pattern: str) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "pattern": pattern})


_ONE_OR_MANY_SCHEMA = WithJsonSchema(
    {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
)
Scalar = Annotated[str, WithJsonSchema({"type": ["string", "number", "boolean"]})]
Duration = Annotated[int, BeforeValidator(_duration), _matches(r"^\d+\s*[smhd]$")]
OrphanAge = Annotated[int, BeforeValidator(_orphan_age), _matches(r"^\d+\s*[smhd]$")]
Share = Annotated[float, BeforeValidator(_share), _matches(r"^\d+(\.\d+)?\s*%$")]
Size = Annotated[int, BeforeValidator(_size), _matches(r"^\d+\s*([KMGT]i?)?B$")]
Count = Annotated[int, BeforeValidator(_positive), WithJsonSchema({"type": "integer", "minimum": 1})]
PortNumber = Annotated[
    int, BeforeValidator(_port), WithJsonSchema({"type": "integer", "minimum": 0, "maximum": _HIGHEST_PORT})
]
Topic = Annotated[str, BeforeValidator(_topic), _matches(f"^{_TOPIC.pattern}$")]
Regex = Annotated[str, BeforeValidator(_regex), WithJsonSchema({"type": "string", "format": "regex"})]
Table = Annotated[str, BeforeValidator(_table), _matches(r"^[^.\s]+(\.[^.\s]+)+$")]
PipelineName = Annotated[str, BeforeValidator(_pipeline_name), _matches(f"^{_NAME.pattern}$")]
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
Terms = Annotated[tuple[Term, ...], BeforeValidator(_one_or_many), _ONE_OR_MANY_SCHEMA]
Names = Annotated[tuple[str, ...], BeforeValidator(_one_or_many), _ONE_OR_MANY_SCHEMA]
Owners = Annotated[
    tuple[Annotated[str, BeforeValidator(_owner)], ...], BeforeValidator(_one_or_many), _ONE_OR_MANY_SCHEMA
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
Expectations = Annotated[
    tuple[Annotated[Expectation, BeforeValidator(_expectation)], ...],
    WithJsonSchema(
        {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "minProperties": 1,
                "maxProperties": 1,
                "propertyNames": {"enum": sorted(KNOWN_EXPECTATIONS)},
                "additionalProperties": {"type": "object"},
            },
        }
    ),
]
ConnectUrl = Annotated[str, BeforeValidator(_connect_url), _matches("^sc://")]
Webhook = Annotated[SecretStr, BeforeValidator(_webhook), _matches(r"^(https?://|\$\{)")]
Version = Annotated[int, BeforeValidator(_version), WithJsonSchema({"const": 1})]
