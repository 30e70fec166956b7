"""The commit of a batch: its files and its offsets, in one swap on a table that stands at the batch's starts.

Then, under the same protocol, the dead letters the batch owes to the dead-letter table.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from spark_jobs.core.errors import CommitConflict, SourceChanged
from spark_jobs.core.progress import LAST_COMMITS_KEPT, CommitRecord
from spark_jobs.core.recovery import stands_at_starts
from spark_jobs.io.catalog import close_catalog
from spark_jobs.io.data_files import from_json
from spark_jobs.io.landing import Committed, Intent, land
from spark_jobs.io.swap import stage_append
from spark_jobs.io.tables import create_dead_letter_table, dead_letters_of, load_table, progress_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

    from spark_jobs.core.batch import Batch
    from spark_jobs.core.fail_points import FailPoints
    from spark_jobs.core.progress import PendingDeadLetters, Progress
    from spark_jobs.io.swap import Swap


_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CommitRequest:
    """One batch, ready to be committed.

    ``table_uuid`` is that of the table the files were written for. ``data_files`` are as
    ``data_files.to_json`` makes them, none is fine. ``summary`` goes into the snapshot's summary beside
    the batch id, the attempt and the offsets, which are added here; keys start with ``sluice.``.
    """

    identifier: str
    table_uuid: str
    batch: Batch
    data_files: tuple[dict[str, Any], ...]
    pending_dead_letters: PendingDeadLetters | None
    summary: dict[str, str]


def commit_batch(
    open_catalog: Callable[[], Catalog], request: CommitRequest, fail_points: FailPoints
) -> Committed:
    """Land the batch once; asked again with the same attempt, return the commit that landed.

    Raises ``CommitConflict`` when the offsets moved (nothing is deleted: another run may have adopted the
    files), ``CommitStateUnknown`` when the outcome could not be established, ``SourceChanged`` when the
    table is gone or another one, ``RetryableError`` when nothing was sent.
    """

    def stage(table: Table) -> Swap:
        _require_same_table(table, request)
        progress = progress_of(table)
        if not stands_at_starts(progress, request.batch):
            raise _offsets_moved(request, progress)
        # A dead-letter commit that its own run has not finished would be forgotten with this commit.
        commit_dead_letters(open_catalog, request.identifier, progress, request.summary, fail_points)
        files = [from_json(file, table.metadata) for file in request.data_files]
        advanced = progress.advanced(request.batch, request.pending_dead_letters)
        return stage_append(table, files, advanced, _summary_of(request))

    intent = Intent(request.identifier, request.batch.attempt, "commit", stage)
    return land(open_catalog, intent, fail_points)


def commit_dead_letters(
    open_catalog: Callable[[], Catalog],
    identifier: str,
    progress: Progress,
    summary: Mapping[str, str],
    fail_points: FailPoints,
) -> Committed | None:
    """Append what ``progress`` of the data table ``identifier`` owes to its dead-letter table, once.

    Returns None when nothing is owed. Raises ``CommitConflict`` for a stale caller: the dead-letter table
    is past the starts of what it owes. The rest as ``commit_batch``.
    """
    pending = progress.pending_dead_letters
    if pending is None:
        return None
    is_new = _ensure_dead_letter_table(open_catalog, identifier, progress)

    def stage(table: Table) -> Swap:
        advanced = _advance_dead_letters(table, progress, pending)
        owed = _surviving(table, pending) if is_new else pending.files
        files = [from_json(file, table.metadata) for file in owed]
        full = {**summary, **_offsets_summary(pending.attempt, pending.starts, pending.ends)}
        return stage_append(table, files, advanced, full)

    intent = Intent(dead_letters_of(identifier), pending.attempt, "dead-letters", stage)
    return land(open_catalog, intent, fail_points)


def _require_same_table(table: Table, request: CommitRequest) -> None:
    if str(table.metadata.table_uuid) != request.table_uuid:
        raise SourceChanged(
            "the table was dropped and made again while the batch was being written for the earlier one",
            code="table-replaced",
            hint="Run again: the new table is drained from its own offsets.",
            table=request.identifier,
            batch=request.batch.batch_id,
        )


def _ensure_dead_letter_table(
    open_catalog: Callable[[], Catalog], identifier: str, progress: Progress
) -> bool:
    """Whether the dead-letter table had to be made."""
    catalog = open_catalog()
    try:
        is_missing = load_table(catalog, dead_letters_of(identifier)) is None
        if is_missing:
            create_dead_letter_table(catalog, identifier, {}, progress)
    finally:
        close_catalog(catalog)
    return is_missing


def _surviving(table: Table, pending: PendingDeadLetters) -> tuple[dict[str, Any], ...]:
    """The files that are still there: who dropped the dead-letter table may have purged them with it.

    A commit that names a file which is gone would make the new table unreadable.
    """
    there = tuple(file for file in pending.files if table.io.new_input(file["path"]).exists())
    if len(there) < len(pending.files):
        _log.warning(
            "%d dead-letter files of attempt %s were deleted together with the dead-letter table %s",
            len(pending.files) - len(there),
            pending.attempt,
            ".".join(table.name()),
        )
    return there


def _advance_dead_letters(table: Table, progress: Progress, pending: PendingDeadLetters) -> Progress:
    """The dead-letter table's progress after the commit; its offsets jump over batches that have none."""
    there = progress_of(table)
    is_same = there.generation == progress.generation
    known = there.next_offsets if is_same else {}
    is_past = any(known.get(partition, start) > start for partition, start in pending.starts.items())
    if there.generation > progress.generation or is_past:
        raise CommitConflict(
            "the dead-letter table is past the batch whose dead letters were to be added",
            code="dead-letters-moved",
            hint="Another run committed them or went on; nothing was deleted. Run again.",
            table=".".join(table.name()),
            attempt=pending.attempt,
        )
    record = CommitRecord(pending.attempt, pending.starts, pending.ends)
    return replace(
        progress,
        next_offsets={**known, **pending.ends},
        earlier=there.earlier if is_same else {**there.earlier, there.generation: there.next_offsets},
        last_commits=(*there.last_commits, record)[-LAST_COMMITS_KEPT:],
        pending_dead_letters=None,
    )


def _offsets_moved(request: CommitRequest, progress: Progress) -> CommitConflict:
    return CommitConflict(
        f"the table moved on to generation {progress.generation}, offsets {progress.next_offsets}",
        code="offsets-moved",
        hint="Another run committed this range; nothing was deleted. The next run goes on from there.",
        table=request.identifier,
        batch=request.batch.batch_id,
        range=request.batch.ranges,
    )


def _summary_of(request: CommitRequest) -> dict[str, str]:
    batch = request.batch
    offsets = _offsets_summary(batch.attempt, batch.ranges.starts, batch.ranges.ends)
    return {**request.summary, "sluice.batch-id": batch.batch_id, **offsets}


def _offsets_summary(attempt: str, starts: Mapping[int, int], ends: Mapping[int, int]) -> dict[str, str]:
    return {
        "sluice.attempt": attempt,
        "sluice.start-offsets": json.dumps(starts, sort_keys=True),
        "sluice.end-offsets": json.dumps(ends, sort_keys=True),
    }
