"""What a task hands back to the driver: a row, never an exception whose type Spark would lose. Pure."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from spark_jobs.protocol.batch import Balance


class OutcomeKind(StrEnum):
    """How a split ended."""

    WRITTEN = "written"  # every offset of the split is accounted for, its files are complete
    OBSERVED = "observed"  # nothing written: values carry fields the table has no column for
    FAILED = "failed"  # an error that the same task would meet again


@dataclass(frozen=True, slots=True)
class SplitOutcome:
    """One split's result.

    ``balances`` by partition; files as ``spark_jobs.lake.data_files.to_json`` describes them;
    ``max_timestamp_ms`` the largest record time by partition (absent when none had one); ``cpu_us`` CPU
    microseconds by step (fetch, decode, shape, write); ``kafka`` what librdkafka tells of its consumer;
    ``evidence`` with OBSERVED only, ``error`` (see ``spark_jobs.protocol.errors.error_to_json``) with FAILED
    only. ``failed_tries`` of the same task may have left files behind.
    """

    split_id: int
    kind: OutcomeKind
    balances: dict[int, Balance] = field(default_factory=dict)
    data_files: tuple[dict[str, Any], ...] = ()
    dead_letter_files: tuple[dict[str, Any], ...] = ()
    bytes_read: int = 0
    max_timestamp_ms: dict[int, int] = field(default_factory=dict)
    cpu_us: dict[str, int] = field(default_factory=dict)
    kafka: dict[str, int] = field(default_factory=dict)
    peak_rss_bytes: int = 0
    evidence: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    failed_tries: int = 0

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
