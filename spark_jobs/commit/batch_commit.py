"""The commit of a batch: files and offsets in one swap, on a table that stands at the batch's starts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_jobs.commit.anchor import check_anchor
from spark_jobs.commit.dead_letter_commit import commit_dead_letters
from spark_jobs.commit.landing import Committed, Intent, land
from spark_jobs.commit.replace import Rewriter, stage_replace
from spark_jobs.commit.replacing import ReplacedOffsets
from spark_jobs.commit.swap import stage_append
from spark_jobs.lake.data_files import to_data_file
from spark_jobs.lake.tables import progress_of
from spark_jobs.protocol.batch import BatchKind
from spark_jobs.protocol.commit_summary import CommitSummary, batch_summary
from spark_jobs.protocol.errors import CommitConflict, SourceChanged
from spark_jobs.protocol.fences import may_replay, stands_at_starts
from spark_jobs.protocol.progress import LastDrain, PendingDeadLetters

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

    from spark_jobs.commit.swap import Swap
    from spark_jobs.protocol.batch import Batch
    from spark_jobs.protocol.fail_points import FailPoints
    from spark_jobs.protocol.progress import Progress
    from spark_jobs.protocol.written_file import WrittenFile
    from spark_jobs.txlog.entries import ParquetWritten


@dataclass(frozen=True, slots=True)
class CommitRequest:
    """One batch, ready to be committed.

    ``table_uuid`` is that of the table the files were written for; no file is fine. ``summary`` goes into
    the snapshot's summary beside the batch id, the attempt and the offsets, which are added here; keys start
    with ``sluice.``.
    ``last_drain`` is what the next plan goes by.
    """

    identifier: str
    table_uuid: str
    batch: Batch
    data_files: tuple[WrittenFile, ...]
    pending_dead_letters: PendingDeadLetters | None
    summary: dict[str, str]
    last_drain: LastDrain | None = None


def request_of(
    table_uuid: str, batch: Batch, written: ParquetWritten, *, committed_at_ms: int
) -> CommitRequest:
    """The commit of files that are written, by the run that wrote them or by one that adopts them."""
    starts, ends = batch.ranges.starts, batch.ranges.ends
    dead_letters = written.dead_letter_files
    is_replay = batch.kind is BatchKind.REPLAY
    return CommitRequest(
        identifier=batch.table,
        table_uuid=table_uuid,
        batch=batch,
        data_files=written.data_files,
        # The dead letters that a replay's range has go with its rows, so it always owes a commit there.
        pending_dead_letters=(
            PendingDeadLetters(batch.attempt, starts, ends, dead_letters, replaces=is_replay)
            if dead_letters or is_replay
            else None
        ),
        summary=written.summary,
        last_drain=None
        if is_replay
        else LastDrain(
            batch.attempt,
            committed_at_ms,
            batch.ranges.records,
            written.bytes_read,
            CommitSummary(written.summary).valid_through_ms,
        ),
    )


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
        check_anchor(table)
        # A dead-letter commit that its own run has not finished would be forgotten with this commit.
        commit_dead_letters(open_catalog, request.identifier, progress, request.summary, fail_points)
        files = [to_data_file(file, table.metadata) for file in request.data_files]
        advanced = progress.advanced(request.batch, request.pending_dead_letters, request.last_drain)
        return stage_append(table, files, advanced, _summary_of(request))

    intent = Intent(request.identifier, request.batch.attempt, "commit", stage)
    return land(open_catalog, intent, fail_points)


def commit_replay(
    open_catalog: Callable[[], Catalog], request: CommitRequest, fail_points: FailPoints
) -> Committed:
    """Replace the rows of the batch's ranges by its files, once; the table's offsets stay where they are.

    Raises ``CommitConflict`` when another replay or a rollback landed since the plan, or somebody gave this
    one up: nothing of it will ever land. The rest as ``commit_batch``.
    """
    batch = request.batch
    rewriter = Rewriter(batch.attempt)
    replaced = ReplacedOffsets.of(batch.generation, batch.ranges)

    def stage(table: Table) -> Swap:
        _require_same_table(table, request)
        progress = progress_of(table)
        if not may_replay(progress, batch) or request.pending_dead_letters is None:
            raise _overtaken(request, progress)
        check_anchor(table)
        commit_dead_letters(open_catalog, request.identifier, progress, request.summary, fail_points)
        return stage_replace(
            table,
            replaced,
            [to_data_file(file, table.metadata) for file in request.data_files],
            progress=progress.replayed(batch, request.pending_dead_letters),
            summary=_summary_of(request),
            rewriter=rewriter,
        )

    return land(open_catalog, Intent(request.identifier, batch.attempt, "replay", stage), fail_points)


def commit_change(
    open_catalog: Callable[[], Catalog],
    batch: Batch,
    change: Callable[[Progress], Progress],
    summary: Mapping[str, str],
    fail_points: FailPoints,
) -> Committed:
    """Land an empty snapshot whose progress is ``change`` of the table's, once for ``batch.attempt``.

    ``change`` is asked again after every conflict and raises when it does not fit the table any more. Raises
    ``SourceChanged`` when another tool changed the table's rows: what is committed now would become the
    anchor and hide it. The rest as ``commit_batch``.
    """

    def stage(table: Table) -> Swap:
        check_anchor(table)
        changed = change(progress_of(table)).recorded(batch.attempt, batch.ranges.starts, batch.ranges.ends)
        return stage_append(table, (), changed, {**summary, **batch_summary(batch)})

    return land(open_catalog, Intent(batch.table, batch.attempt, "act", stage), fail_points)


def _require_same_table(table: Table, request: CommitRequest) -> None:
    if str(table.metadata.table_uuid) != request.table_uuid:
        raise SourceChanged(
            "the table was dropped and made again while the batch was being written for the earlier one",
            code="table-replaced",
            hint="Run again: the new table is drained from its own offsets.",
            table=request.identifier,
            batch=request.batch.batch_id,
        )


def _overtaken(request: CommitRequest, progress: Progress) -> CommitConflict:
    return CommitConflict(
        f"the replay was planned in epoch {request.batch.epoch}, the table is now in epoch"
        f" {progress.replay_epoch} of generation {progress.generation}",
        code="replay-overtaken",
        hint="Another replay or a rollback came first, or this one was given up: run it again.",
        table=request.identifier,
        batch=request.batch.batch_id,
        range=request.batch.ranges,
    )


def _offsets_moved(request: CommitRequest, progress: Progress) -> CommitConflict:
    where = f"generation {progress.generation}, offsets {progress.next_offsets}"
    is_back = request.batch.epoch < progress.rollbacks
    return CommitConflict(
        f"the table was rolled back to {where}" if is_back else f"the table moved on to {where}",
        code="offsets-moved",
        hint="Another run committed this range; nothing was deleted. The next run goes on from there.",
        table=request.identifier,
        batch=request.batch.batch_id,
        range=request.batch.ranges,
    )


def _summary_of(request: CommitRequest) -> dict[str, str]:
    return {**request.summary, **batch_summary(request.batch)}
