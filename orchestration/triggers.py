"""When a pipeline is due for a drain, and when to try again one that got nowhere. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

from spark_jobs.config.quantities import StartKind
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.protocol.words import records_wait
from spark_jobs.upkeep.figures import SMALL

FIRST_RETRY_SECONDS = 10.0
LONGEST_RETRY_SECONDS = 300.0
# Compaction starts at `compact_above` files and takes minutes; at ten times as many it does not keep up.
UNCOMPACTED_LIMIT_FACTOR = 10
LONGEST_PATIENCE = 10.0


@dataclass(frozen=True, slots=True)
class Backlog:
    """What one look at a topic and its table says.

    ``records`` is an upper bound (markers count), ``bytes`` an estimate. ``seconds_since_commit`` is None
    without a table. ``disagreement`` says in words how the source differs from what was drained.
    ``uncompacted_files`` are small data files that compaction has not got to.
    """

    records: int
    bytes: int
    seconds_since_commit: float | None
    disagreement: str | None = None
    uncompacted_files: int = 0


def should_drain(backlog: Backlog, pipeline: PipelineConfig) -> str | None:
    """Return why a run is due now, or None.

    A disagreement is a reason: the run fails with the named error, where a skipped tick would hide it.
    """
    if backlog.disagreement:
        return backlog.disagreement
    if backlog.seconds_since_commit is None:
        return _without_table(backlog, pipeline)
    return _with_table(backlog, backlog.seconds_since_commit, pipeline) if backlog.records else None


def should_drain_now(backlog: Backlog, pipeline: PipelineConfig) -> str | None:
    """Return why a run is due at the schedule's tick, or None: whatever waits is drained."""
    if backlog.disagreement or backlog.seconds_since_commit is None or not backlog.records:
        return should_drain(backlog, pipeline)
    return f"{records_wait(backlog.records)} at a tick of {pipeline.schedule}"


def _without_table(backlog: Backlog, pipeline: PipelineConfig) -> str | None:
    if pipeline.start.kind is StartKind.LATEST:
        return "the table does not exist and starts at what is the topic's end now"
    return f"the table does not exist and {records_wait(backlog.records)}" if backlog.records else None


def _with_table(backlog: Backlog, age_seconds: float, pipeline: PipelineConfig) -> str | None:
    if backlog.records >= pipeline.max_batch_records:
        return f"{records_wait(backlog.records)}, a full batch by count"
    if backlog.bytes >= pipeline.max_batch_bytes:
        return f"about {backlog.bytes:,} bytes wait, a full batch by size"
    if age_seconds < 0:
        return f"{records_wait(backlog.records)} and a clock was set back since the last commit"
    factor = patience(backlog.uncompacted_files, pipeline)
    every_seconds = pipeline.freshness_seconds * factor
    if age_seconds >= every_seconds:
        why = f"; waited longer for {backlog.uncompacted_files:,} uncompacted files" if factor > 1 else ""
        asked = f"freshness asks for a batch every {every_seconds:.0f} s"
        return f"{records_wait(backlog.records)}, and {asked}{why}"
    return None


def patience(uncompacted_files: int, pipeline: PipelineConfig) -> float:
    """Return how many times the freshness a batch may wait: larger batches leave compaction less to do."""
    limit = pipeline.upkeep.compact_above * UNCOMPACTED_LIMIT_FACTOR
    return max(1.0, min(LONGEST_PATIENCE, uncompacted_files / limit))


def uncompacted_files(summary: Mapping[str, str], compacted_files: int) -> int:
    """Return the data files since the last compaction, by main's summary; 0 when its last ones are not small.

    Large files need no compaction, so that a table of them never makes its pipeline wait.
    """
    added, size = int(summary.get("added-data-files", 0)), int(summary.get("added-files-size", 0))
    if not added or size >= added * SMALL.below_bytes:
        return 0
    return max(0, int(summary.get("total-data-files", 0)) - compacted_files)


def state_key(pipeline: PipelineConfig, table_state: object) -> str:
    """Return a short name of what a drain starts from: when it changes, a failing pipeline is tried at once.

    ``table_state`` is JSON-able: table uuid, generation and next offsets, or None without a table.
    """
    return short_hash([pipeline.model_dump(mode="json"), table_state])


def short_hash(value: object) -> str:
    """Return 16 hex digits that stand for a JSON-able value."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def retry_delay_seconds(attempts_made: int) -> float:
    """Return how long to wait after the last of ``attempts_made`` runs from the same state ended."""
    if attempts_made == 0:
        return 0.0
    return min(FIRST_RETRY_SECONDS * 2.0 ** min(attempts_made - 1, 10), LONGEST_RETRY_SECONDS)
