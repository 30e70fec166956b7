"""The built-in checks: their names, what holds while they pass, how bad it is when they fail. Pure."""

from __future__ import annotations

from enum import StrEnum


class CheckName(StrEnum):
    """Stable: alerts, dashboards and the runbook's anchors are made of them."""

    COMPLETE = "complete"
    FRESH = "fresh"
    LAG = "lag"
    STALL = "stall"
    RETENTION_HEADROOM = "retention_headroom"
    DEAD_LETTERS = "dead_letters"
    SCHEMA = "schema"

    @property
    def meaning(self) -> str:
        """One sentence: what holds while the check passes."""
        return _MEANINGS[self]

    @property
    def runbook(self) -> str:
        """Where docs/OPERATIONS.md tells what to do."""
        return f"docs/OPERATIONS.md#check-{self.value}"


class Severity(StrEnum):
    """How bad a failed check is: ``error`` wants a person now, ``warn`` a look."""

    ERROR = "error"
    WARN = "warn"
    OFF = "off"


DEFAULT_SEVERITIES = {
    CheckName.COMPLETE: Severity.ERROR,
    CheckName.FRESH: Severity.ERROR,
    CheckName.LAG: Severity.WARN,
    CheckName.STALL: Severity.ERROR,
    CheckName.RETENTION_HEADROOM: Severity.ERROR,
    CheckName.DEAD_LETTERS: Severity.WARN,
    CheckName.SCHEMA: Severity.WARN,
}

_MEANINGS = {
    CheckName.COMPLETE: "Every drained offset is accounted for, and the audit found none missing.",
    CheckName.FRESH: "The table holds every record up to a moment ago; an idle topic counts as fresh.",
    CheckName.LAG: "Not much more waits than the next runs take.",
    CheckName.STALL: "While records wait, batches are committed.",
    CheckName.RETENTION_HEADROOM: "Kafka keeps what waits for much longer than it takes to drain it.",
    CheckName.DEAD_LETTERS: "Few of the lately drained records could not become rows.",
    CheckName.SCHEMA: "The table's columns have not changed lately.",
}
