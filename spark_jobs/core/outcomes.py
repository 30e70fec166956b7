"""What a task hands back to the driver: a row, never an exception whose type Spark would lose. Pure."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from spark_jobs.core.batch import Balance


class OutcomeKind(StrEnum):
    """How a split ended."""

    WRITTEN = "written"  # every offset of the split is accounted for, files are complete
    NEW_FIELDS = "new-fields"  # values carry fields the table has no column for: evolve, then do it again
    OFFSETS_GONE = "offsets-gone"  # retention passed an offset of the split
    LOG_TRUNCATED = "log-truncated"  # the log ends below the split's end, or stays silent
    BROKER_AWAY = "broker-away"  # a fault that a later run may not meet
    REFUSED = "refused"  # authorisation, configuration: only a person can mend it


@dataclass(frozen=True, slots=True)
class SplitOutcome:
    """One split's result.

    ``balances`` by partition; ``data_files`` and ``dead_letter_files`` as ``spark_jobs.io.data_files.to_json``
    makes them; ``max_timestamp_ms`` the largest record time by partition (absent when none had one);
    ``cpu_us`` CPU microseconds by step (fetch, decode, shape, write); ``evidence`` with NEW_FIELDS only;
    ``message`` with the failures only.
    """

    split_id: int
    kind: OutcomeKind
    balances: dict[int, Balance] = field(default_factory=dict)
    data_files: tuple[dict[str, Any], ...] = ()
    dead_letter_files: tuple[dict[str, Any], ...] = ()
    bytes_read: int = 0
    max_timestamp_ms: dict[int, int] = field(default_factory=dict)
    cpu_us: dict[str, int] = field(default_factory=dict)
    peak_rss_bytes: int = 0
    evidence: dict[str, Any] | None = None
    message: str = ""

    def to_json(self) -> str:
        """One JSON object."""
        return json.dumps(asdict(self), separators=(",", ":"))


def outcome_from_json(text: str) -> SplitOutcome:
    """Read ``SplitOutcome.to_json`` back."""
    value = json.loads(text)
    value["kind"] = OutcomeKind(value["kind"])
    value["balances"] = {int(p): Balance(**b) for p, b in value["balances"].items()}
    value["max_timestamp_ms"] = {int(p): t for p, t in value["max_timestamp_ms"].items()}
    value["data_files"] = tuple(value["data_files"])
    value["dead_letter_files"] = tuple(value["dead_letter_files"])
    return SplitOutcome(**value)
