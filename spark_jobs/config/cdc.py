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
        "`debezium`: its events in JSON, with their schemas (`value.converter.schemas.enable`) or without, or"
        " in Avro;"
        " `upsert`: a value is the row that its key has from then on, no value that the row is gone;"
        " `sluice`: as a gateway's stream with `envelope: sluice` writes them.",
        shown="debezium",
    )


def check_changes(
    layout: Layout,
    cdc: CdcSettings,
    envelope: Envelope,
    *,
    value: ValueSettings,
    key: KeySettings,
    columns: Mapping[str, ColumnSettings],
) -> Finding | None:
    """Return what neither a table of changes nor a mirror can have.

    ``cdc`` is what its own entry says, ``envelope`` what holds.
    """
    if not layout.is_of_events:
        if cdc.envelope is None:
            return None
        hint = "Add layout: changes or mirror, or leave it out."
        return Finding(("cdc",), f"is said of a pipeline of layout {layout}", hint)
    if finding := _check_formats(envelope, value, key):
        return finding
    return next(filter(None, (_check_column(*column) for column in columns.items())), None)


def _check_formats(envelope: Envelope, value: ValueSettings, key: KeySettings) -> Finding | None:
    is_debezium = envelope is Envelope.DEBEZIUM
    if value.format is ValueFormat.AVRO and is_debezium:
        if key.format is not ValueFormat.AVRO:
            hint = "Add key: {format: avro, registry: NAME}: keys are read as values are."
            return Finding(
                ("key", "format"), f"keys beside events in Avro are not read as {key.format}", hint
            )
        if "column" in key.model_fields_set:
            hint = "Leave it out: a row has the key's columns."
            return Finding(("key", "as"), "is not said of change events", hint)
        return None
    for part, place in (("value", value), ("key", key)):
        if place.format.has_schema or (part == "value" and place.format is not ValueFormat.JSON):
            known = "JSON (JsonConverter), best with schemas, or values and keys in Avro"
            hint = f"Have the connector write {known}." if is_debezium else "They are JSON."
            told = f"change events ({envelope}) are not read as {place.format}"
            return Finding((part, "format"), told, hint)
    return None


def _check_column(name: str, column: ColumnSettings) -> Finding | None:
    if name.startswith(OWN_NAMES):
        hint = "Leave it out: it says something of the event."
        return Finding(("columns", name), "is a column that every table of changes has", hint)
    if column.written_as is FieldForm.NUMBER:
        told = "is made of the document, and that is an event around a row"
        return Finding(("columns", name), told, "Write sql: over the row's columns.")
    return None
