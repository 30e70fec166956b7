"""``cdc``: what change events are written as, and what cannot be said of a table of them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

from spark_jobs.config.columns import ColumnSettings, FieldForm
from spark_jobs.config.frozen import Frozen, key
from spark_jobs.config.problems import Finding
from spark_jobs.config.value_format import KeySettings, Layout, ValueFormat, ValueSettings
from spark_jobs.config.values import choice

OWN_NAMES = "_cdc_"


class Envelope(StrEnum):
    """What is around a row."""

    DEBEZIUM = "debezium"
    UPSERT = "upsert"
    SLUICE = "sluice"


class CdcSettings(Frozen):
    """How change events are written, of a table with `layout: changes` or `mirror`."""

    envelope: Annotated[Envelope, choice(Envelope)] | None = key(
        None,
        "`debezium`: its events in JSON, with their schemas (`value.converter.schemas.enable`) or without;"
        " `upsert`: a value is the row that its key has from then on, no value that the row is gone;"
        " `sluice`: as a gateway's stream with `envelope: sluice` writes them.",
        shown="debezium",
    )


def check_changes(
    layout: Layout,
    cdc: CdcSettings,
    *,
    value: ValueSettings,
    key: KeySettings,
    columns: Mapping[str, ColumnSettings],
) -> Finding | None:
    """Return what neither a table of changes nor a mirror can have; ``cdc`` is what its own entry says."""
    if not layout.is_of_events:
        if cdc.envelope is None:
            return None
        hint = "Add layout: changes or mirror, or leave it out."
        return Finding(("cdc",), f"is said of a pipeline of layout {layout}", hint)
    for part, place in (("value", value), ("key", key)):
        if place.format.has_schema or (part == "value" and place.format is not ValueFormat.JSON):
            hint = "Have the connector write JSON (JsonConverter), best with schemas."
            return Finding((part, "format"), f"change events are not read as {place.format}", hint)
    return next(filter(None, (_check_column(*column) for column in columns.items())), None)


def _check_column(name: str, column: ColumnSettings) -> Finding | None:
    if name.startswith(OWN_NAMES):
        hint = "Leave it out: it says something of the event."
        return Finding(("columns", name), "is a column that every table of changes has", hint)
    if column.written_as is FieldForm.NUMBER:
        told = "is made of the document, and that is an event around a row"
        return Finding(("columns", name), told, "Write sql: over the row's columns.")
    return None
