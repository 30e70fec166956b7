"""When a pipeline is due for a drain, and when to try again one that got nowhere. Pure."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_jobs.core.config import StartKind

if TYPE_CHECKING:
    from spark_jobs.core.config import PipelineConfig

FIRST_RETRY_SECONDS = 10.0
LONGEST_RETRY_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Backlog:
    """What one look at a topic and its table says.

    ``records`` is an upper bound (markers count), ``bytes`` an estimate. ``seconds_since_commit`` is None
    without a table. ``disagreement`` says in words how the source differs from what was drained.
    """

    records: int
    bytes: int
    seconds_since_commit: float | None
    disagreement: str | None = None


def should_drain(backlog: Backlog, pipeline: PipelineConfig) -> str | None:
    """Why a run is due now, or None.

    A disagreement is a reason: the run fails with the named error, where a skipped tick would hide it.
    """
    if backlog.disagreement:
        return backlog.disagreement
    if backlog.seconds_since_commit is None:
        return _without_table(backlog, pipeline)
    return _with_table(backlog, backlog.seconds_since_commit, pipeline) if backlog.records else None


def _without_table(backlog: Backlog, pipeline: PipelineConfig) -> str | None:
    if pipeline.start.kind is StartKind.LATEST:
        return "the table does not exist and starts at what is the topic's end now"
    return f"the table does not exist and {backlog.records:,} records wait" if backlog.records else None


def _with_table(backlog: Backlog, age_seconds: float, pipeline: PipelineConfig) -> str | None:
    if backlog.records >= pipeline.max_batch_records:
        return f"{backlog.records:,} records wait, a full batch by count"
    if backlog.bytes >= pipeline.max_batch_bytes:
        return f"about {backlog.bytes:,} bytes wait, a full batch by size"
    if age_seconds >= pipeline.freshness_seconds:
        return f"{backlog.records:,} records wait and the last commit was {age_seconds:.0f} s ago"
    return None


def state_key(pipeline: PipelineConfig, table_state: object) -> str:
    """Short name of everything a drain starts from: when it changes, a failing pipeline is tried at once.

    ``table_state`` is JSON-able: table uuid, generation and next offsets, or None without a table.
    """
    state = json.dumps([pipeline.model_dump(mode="json"), table_state], sort_keys=True)
    return hashlib.sha256(state.encode()).hexdigest()[:16]


def retry_delay_seconds(attempts_made: int) -> float:
    """How long to wait after the last of ``attempts_made`` runs from the same state ended."""
    if attempts_made == 0:
        return 0.0
    return min(FIRST_RETRY_SECONDS * 2.0 ** min(attempts_made - 1, 10), LONGEST_RETRY_SECONDS)
