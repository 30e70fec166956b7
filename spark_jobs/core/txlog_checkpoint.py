"""Finished attempts folded into one line each: what a checkpoint of the transaction log holds. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_jobs.core.batch import Balance, total
from spark_jobs.core.errors import CorruptLog
from spark_jobs.core.json_fields import fields_from_json, fields_to_json
from spark_jobs.core.txlog import (
    LOG_FORMAT_VERSION,
    PHASE_NUMBERS,
    Closed,
    FlushComplete,
    IcebergSnapshotCreated,
    OffsetCommit,
    ParquetWritten,
    Phase,
    refuse_newer,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spark_jobs.core.offsets import OffsetRanges
    from spark_jobs.core.txlog import Attempt

# Listing a table's log costs one request per thousand objects; 50 attempts are 300 objects.
DEFAULT_DUE_ATTEMPTS = 50


@dataclass(frozen=True, slots=True)
class AttemptSummary:
    """One finished attempt. ``is_landed`` is False for a swept one.

    What its damaged or missing objects would have said is 0, empty or None.
    """

    attempt: str
    batch_id: str
    topic: str
    generation: int
    ranges: OffsetRanges
    is_landed: bool
    balance: Balance
    bytes_read: int
    file_bytes: int
    data_files: int
    dead_letter_files: int
    snapshot_id: int | None
    dead_letter_snapshot_id: int | None
    durations_ms: dict[str, int]
    actor: str
    run_id: str
    started_at_us: int
    finished_at_us: int


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What one fold took out of the log; checkpoints are never rewritten, the next one follows by number."""

    sequence: int
    attempts: tuple[AttemptSummary, ...]


def is_due(finished_attempts: int, *, due_attempts: int = DEFAULT_DUE_ATTEMPTS) -> bool:
    """Whether a checkpoint is worth making."""
    return finished_attempts >= due_attempts


def summarise(attempt: Attempt) -> AttemptSummary | None:
    """The one line a finished attempt becomes; None when none of its objects can be read."""
    batch = attempt.batch
    if batch is None:
        return None
    begun = attempt.entry(OffsetCommit)
    written = attempt.entry(ParquetWritten)
    created = attempt.entry(IcebergSnapshotCreated)
    complete = attempt.entry(FlushComplete)
    return AttemptSummary(
        attempt=attempt.uuid,
        batch_id=batch.batch_id,
        topic=batch.topic,
        generation=batch.generation,
        ranges=batch.ranges,
        is_landed=created is not None or complete is not None or attempt.reached == _COMPLETE,
        balance=total(written.balances.values()) if written else Balance(),
        bytes_read=written.bytes_read if written else 0,
        file_bytes=written.file_bytes if written else 0,
        data_files=len(written.data_files) if written else 0,
        dead_letter_files=len(written.dead_letter_files) if written else 0,
        snapshot_id=created.snapshot_id if created else None,
        dead_letter_snapshot_id=complete.dead_letter_snapshot_id if complete else None,
        durations_ms=complete.durations_ms if complete else {},
        actor=begun.actor if begun else "",
        run_id=begun.run_id if begun else "",
        started_at_us=begun.started_at_us if begun else batch.ingested_at_us,
        finished_at_us=_finished_at_us(attempt),
    )


def checkpoint_to_json(checkpoint: Checkpoint, table_uuid: str) -> str:
    """One checkpoint object."""
    value = {
        "format": LOG_FORMAT_VERSION,
        "table_uuid": table_uuid,
        "sequence": checkpoint.sequence,
        "attempts": [fields_to_json(summary) for summary in checkpoint.attempts],
    }
    return json.dumps(value, separators=(",", ":"))


def checkpoint_from_json(text: str, *, path: str) -> Checkpoint:
    """Read ``checkpoint_to_json`` back.

    Raises ``CorruptLog``: ``newer-log-format``, or ``damaged-checkpoint``, since what it folded is gone.
    """
    try:
        value = json.loads(text)
        refuse_newer(value["format"], object=path)
        summaries = tuple(fields_from_json(AttemptSummary, summary) for summary in value["attempts"])
        return Checkpoint(value["sequence"], summaries)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise CorruptLog(
            f"a checkpoint of the transaction log cannot be read: {type(error).__name__}: {error}",
            code="damaged-checkpoint",
            hint="It holds history only: restore it from a backup or delete it; no table depends on it.",
            object=path,
        ) from error


def merged(checkpoints: Iterable[Checkpoint]) -> tuple[AttemptSummary, ...]:
    """All folded attempts, each once, by the time they began.

    A fold that died while it deleted is repeated by the next one, which may see less: the first stands.
    """
    by_attempt: dict[str, AttemptSummary] = {}
    for summary in (summary for checkpoint in checkpoints for summary in checkpoint.attempts):
        by_attempt.setdefault(summary.attempt, summary)
    return tuple(sorted(by_attempt.values(), key=lambda summary: (summary.started_at_us, summary.attempt)))


_COMPLETE = PHASE_NUMBERS[Phase.FLUSH_COMPLETE]


def _finished_at_us(attempt: Attempt) -> int:
    complete, closed = attempt.entry(FlushComplete), attempt.entry(Closed)
    if complete is not None:
        return complete.completed_at_us
    return closed.closed_at_us if closed is not None else 0
