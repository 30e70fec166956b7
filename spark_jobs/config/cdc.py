"""``cdc``: what change events are written as. Pure."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from spark_jobs.config.frozen import Frozen, key
from spark_jobs.config.values import choice


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
