"""Where a table that does not exist yet begins to read, and how a person writes that. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any

from pydantic import BeforeValidator, WithJsonSchema

from spark_jobs.config.problems import UnreadableValueError


class StartKind(StrEnum):
    """Where a table that does not exist yet begins to read."""

    EARLIEST = "earliest"
    LATEST = "latest"
    TIMESTAMP = "timestamp"
    OFFSETS = "offsets"


@dataclass(frozen=True, slots=True)
class Start:
    """``timestamp_ms`` (since the epoch) with TIMESTAMP only, ``offsets`` by partition with OFFSETS only."""

    kind: StartKind = StartKind.EARLIEST
    timestamp_ms: int | None = None
    offsets: dict[int, int] = field(default_factory=dict)


def parse_start(value: object) -> Start:
    """Return the start that a text or a map of offsets means; raises ``UnreadableValueError``."""
    if isinstance(value, Start):
        return value
    if isinstance(value, dict):
        return Start(StartKind.OFFSETS, offsets=_offsets(value))
    if not isinstance(value, str):
        raise UnreadableValueError("must be one value", "Write key: value.")
    if value in {StartKind.EARLIEST, StartKind.LATEST}:
        return Start(StartKind(value))
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        raise UnreadableValueError(
            f"{value!r} is not a start",
            "Write earliest, latest, a time such as 2026-01-31T06:00:00Z, or offsets {0: 100, 1: 250}.",
        ) from None
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return Start(StartKind.TIMESTAMP, timestamp_ms=round(aware.timestamp() * 1000))


def _offsets(value: dict[Any, Any]) -> dict[int, int]:
    if not value or not all(str(item).isdecimal() for pair in value.items() for item in pair):
        raise UnreadableValueError("offsets must be whole numbers by partition", "Write {0: 100, 1: 250}.")
    return {int(partition): int(offset) for partition, offset in value.items()}


_OFFSETS_SCHEMA = {"type": "object", "additionalProperties": {"type": "integer", "minimum": 0}}
_SCHEMA = WithJsonSchema({"anyOf": [{"type": "string"}, _OFFSETS_SCHEMA]})
StartText = Annotated[Start, BeforeValidator(parse_start), _SCHEMA]
