"""Smaller sections of a pipeline: ``cdc``, ``mirror``, ``route``, ``hot``; what contradicts them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

from pydantic import BeforeValidator, Field

from spark_jobs.config.problems import Finding, UnreadableValueError
from spark_jobs.config.values import Frozen, OneOrMany, Size, SourceName, Table, choice, key, parsed
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
        raise UnreadableValueError(f"{value!r} is neither true nor false", "Write hot: true, or a map.")
    return {} if value == "true" else None


Hot = Annotated[HotSettings | None, BeforeValidator(_read, json_schema_input_type=bool | HotSettings | None)]


# ``mirror``: a table with one live row a key.


class BadChanges(StrEnum):
    """What becomes of a change that cannot be a row."""

    STOP = "stop"
    DEAD_LETTERS = "dead_letters"


class MirrorSettings(Frozen):
    """A table that is as its source is, with `layout: mirror` (docs/CHANGE_DATA.md)."""

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
    """Records of one topic as rows of several tables (docs/SHAPES.md)."""

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


def check_route_tables(route: RouteSettings, table: str, beside: Mapping[str, str]) -> Finding | None:
    """Return which routed table is one that the pipeline writes otherwise, ``beside`` by lower case."""
    for value, routed in route.tables.items():
        if routed != table and routed.lower() in beside:
            told = f"{routed} is {beside[routed.lower()]}"
            hint = f"Give it another name; {table} itself says that these rows stay there."
            return Finding(("route", "tables", value), told, hint)
    return None
