"""What Debezium writes that is no change of a row: known by what it says, passed over and counted. Pure."""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from typing import Any, Protocol

_MESSAGE = "m"
_MARKER = frozenset({"status", "id", "event_count", "data_collections"})
_SCHEMA_CHANGE = frozenset({"source", "ddl"})


class Beside(StrEnum):
    """Its kind, by the name of the term that counts it in a batch's balance."""

    HEARTBEAT = "heartbeats"
    MESSAGE = "messages"
    MARKER = "transaction_markers"
    SCHEMA_CHANGE = "schema_changes"
    NOTHING = "nulls"  # a tombstone as JSON's null, in its schema or without


class Said(Protocol):
    """A value of which names are known, whatever it is written in."""

    @property
    def names(self) -> Collection[str]:
        """Return the names that it has values under."""

    def said(self, name: str) -> Any:
        """Return the value under a name as JSON has it, None without one."""


def beside(value: Said) -> Beside | None:
    """Return of which kind a value is that is no change of a row; None of one that is, or should be."""
    operation, names = value.said("op"), value.names
    if operation is not None:
        return Beside.MESSAGE if operation == _MESSAGE else None
    if [*names] == ["ts_ms"]:
        return Beside.HEARTBEAT
    if {*names} >= _MARKER and value.said("status") in ("BEGIN", "END"):
        return Beside.MARKER
    return Beside.SCHEMA_CHANGE if {*names} >= _SCHEMA_CHANGE else None
