"""Commits of a batch: its files and its change of progress, in one swap."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from spark_jobs.commit.anchor import check_anchor
from spark_jobs.commit.mirror_commit import stage_mirror, stage_rebuilt
from spark_jobs.commit.pending_commit import commit_pending
from spark_jobs.commit.replace import ReplacedOffsets, Rewriter, stage_replace
from spark_jobs.commit.swap import Swap, stage_append
from spark_jobs.lake.data_files import to_data_file
from spark_jobs.lake.dead_letter_files import saved_coordinates
from spark_jobs.lake.tables import progress_of
from spark_jobs.protocol.batch import Batch
from spark_jobs.protocol.cdc import Cdc
from spark_jobs.protocol.commit_summary import CommitSummary, batch_summary
from spark_jobs.protocol.errors import SluiceError, fault
from spark_jobs.protocol.offsets import NO_RANGES, OffsetRanges, SchemaKey
from spark_jobs.protocol.progress import LastDrain, PendingDeadLetters, Progress
from spark_jobs.protocol.progress_parts import MOST_NAMED
from spark_jobs.protocol.source import is_in_epoch, may_replay, stands_at_starts
from spark_jobs.protocol.work import Work
from spark_jobs.protocol.works.drain import DRAIN
from spark_jobs.protocol.works.rebuild import REBUILD
from spark_jobs.protocol.works.redrive import REDRIVE
from spark_jobs.protocol.works.replay import REPLAY
from spark_jobs.txlog.entries import ParquetWritten

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table

    from spark_jobs.commit.columns_commit import PlannedColumns
    from spark_jobs.commit.swap import CatalogAccess, Committed


@dataclass(frozen=True)
class BatchIntent(ABC):
    """A commit with the table and attempt of a batch."""

    batch: Batch
    fail_point: ClassVar[str]

    @property
    def identifier(self) -> str:
        """Name of the table."""
        return self.batch.table

    @property
    def attempt(self) -> str:
        """The uuid by which the table knows whether it has landed."""
        return self.batch.attempt

    @abstractmethod
    def stage(self, table: Table, connections: CatalogAccess) -> Swap:
        """Stage it on the table just loaded."""


@dataclass(frozen=True)
class ChangeCommit(BatchIntent):
    """An empty snapshot that applies ``change`` to the table's progress.

    ``change`` is asked again after every conflict and raises when it does not fit the table any more. Staging
    raises ``SourceChanged`` when another tool changed the table's rows: what is committed now would become
    the anchor and hide it. What the table owes is committed first where it ``pays_first``.
    """

    change: Callable[[Progress], Progress]
    summary: Mapping[str, str]
    pays_first: bool = False
    fail_point: ClassVar[str] = "act"

    def stage(self, table: Table, connections: CatalogAccess) -> Swap:
        """Stage it on the table just loaded."""
        check_anchor(table)
        progress = progress_of(table)
        changed = self.change(progress).with_attempt(self.attempt, self.batch.ranges)
        if self.pays_first:
            commit_pending(connections, self.identifier, progress, self.summary)
        return stage_append(table, (), changed, {**self.summary, **batch_summary(self.batch)})


_BY_WORK: dict[Work, type[FilesCommit]] = {}


@dataclass(frozen=True)
class FilesCommit(BatchIntent):
    """Written files, committed by the run that wrote them or by one that adopts them.

    ``table_uuid`` is that of the table they were written for. ``written.summary`` goes into the snapshot's
    beside what the batch says. Staging raises ``SourceChanged`` when the table is another one by now, and
    ``CommitConflict`` when somebody was faster; nothing is deleted then: another run may have adopted them.
    """

    table_uuid: str
    written: ParquetWritten
    committed_at_ms: int
    columns: PlannedColumns | None = None

    def __init_subclass__(cls, work: Work) -> None:
        """Register the class for its work."""
        _BY_WORK[work] = cls

    def tries_with_files(self, committed: Committed) -> int:
        """Return the number of tries, lost to other commits, that may have left files."""
        return committed.retries

    def conflict(self, progress: Progress) -> SluiceError:
        """Return the error for a batch that no longer fits the table."""
        return overtaken(self.batch, progress)

    @property
    def summary(self) -> dict[str, str]:
        """Return the snapshot summary of the batch."""
        return {**self.written.summary, **batch_summary(self.batch)}

    @property
    def schemas(self) -> Mapping[SchemaKey, str]:
        """Return the schemas of its values that the table may not have."""
        return CommitSummary(self.written.summary).schemas

    def files(self, table: Table) -> list[DataFile]:
        """Return the files with this table's field ids."""
        return [to_data_file(file, table.metadata) for file in self.written.data_files]

    def progress_at_start(
        self, table: Table, connections: CatalogAccess, fits: Callable[[Progress, Batch], bool]
    ) -> Progress:
        """Return the progress of the table just loaded, if the batch ``fits`` it and no files are pending.

        What it owes is committed first: what a run left unfinished would be forgotten with this commit.
        Raises ``SourceChanged`` when the files were written for an earlier table of this name.
        """
        if str(table.metadata.table_uuid) != self.table_uuid:
            raise fault("table-replaced.during-commit", table=self.identifier, batch=self.batch.batch_id)
        progress = progress_of(table)
        if not fits(progress, self.batch):
            raise self.conflict(progress)
        check_anchor(table)
        commit_pending(connections, self.identifier, progress, self.written.summary)
        return progress


@dataclass(frozen=True)
class DrainCommit(FilesCommit, work=DRAIN):
    """The files and offsets of a drained batch, on a table whose next offsets are the batch's starts."""

    fail_point: ClassVar[str] = "commit"

    def tries_with_files(self, committed: Committed) -> int:
        """See ``FilesCommit``: only mirrors write files here."""
        return committed.retries if committed.progress.table_layout.keeps_newest else 0

    def conflict(self, progress: Progress) -> SluiceError:
        """See ``FilesCommit``."""
        is_back = self.batch.epoch < progress.rollbacks
        return fault(
            "offsets-moved.back" if is_back else "offsets-moved",
            generation=progress.generation,
            offsets=progress.next_offsets,
            table=self.identifier,
            batch=self.batch.batch_id,
            range=self.batch.ranges,
        )

    def stage(self, table: Table, connections: CatalogAccess) -> Swap:
        """Stage it on the table just loaded."""
        progress = self.progress_at_start(table, connections, stands_at_starts)
        last_drain = LastDrain(
            self.attempt,
            self.committed_at_ms,
            self.batch.ranges.records,
            self.written.bytes_read,
            CommitSummary(self.written.summary).valid_through_ms,
        )
        pending = _pending(self.batch, self.written) if self.written.dead_letter_files else None
        advanced = progress.after_batch(self.batch, pending, last_drain).with_schemas(self.schemas)
        advanced = advanced.with_pending_routes(self.attempt, self.batch.ranges, self.written.routed_files)
        swap: Swap = progress.table_layout.stage(table, self, advanced)
        return swap


def stage_rows(table: Table, commit: FilesCommit, progress: Progress) -> Swap:
    """Stage the rows as an addition."""
    return stage_append(table, commit.files(table), progress, commit.summary)


def stage_keys(table: Table, commit: FilesCommit, progress: Progress) -> Swap:
    """Stage the rows as a replacement of rows with their keys."""
    return stage_mirror(table, commit.attempt, commit.written.data_files, progress, commit.summary)


@dataclass(frozen=True)
class ReplayCommit(FilesCommit, work=REPLAY):
    """The files of a replayed batch, which replace the rows of its ranges; the offsets do not move.

    Staging raises ``CommitConflict`` when another replay or a rollback landed since the plan, or somebody
    gave this one up: nothing of it will ever land.
    """

    fail_point: ClassVar[str] = "replay"

    @cached_property
    def rewriter(self) -> Rewriter:
        """Rewritten files, used again if the commit is staged again."""
        return Rewriter(self.attempt)

    def stage(self, table: Table, connections: CatalogAccess) -> Swap:
        """Stage it on the table just loaded."""
        progress = self.progress_at_start(table, connections, may_replay)
        # What is elsewhere of the range goes with its rows: a replay always owes these commits.
        replayed = progress.after_replay(self.batch, _pending(self.batch, self.written, replaces=True))
        owing = replayed.with_pending_routes(
            self.attempt, self.batch.ranges, self.written.routed_files, replaces=True
        )
        return stage_replace(
            table,
            ReplacedOffsets.of(self.batch.generation, self.batch.ranges),
            self.files(table),
            progress=owing.with_schemas(self.schemas),
            summary=self.summary,
            rewriter=self.rewriter,
        )


@dataclass(frozen=True)
class RedriveCommit(FilesCommit, work=REDRIVE):
    """The rows of redriven dead letters; offsets and other rows stay.

    None of these letters had a row in the epoch it was planned in, and whatever gives one raises that. It
    owes the dead-letter table that they go and that those come which failed again. Staging raises as a
    replay's.
    """

    fail_point: ClassVar[str] = "redrive"

    def stage(self, table: Table, connections: CatalogAccess) -> Swap:
        """Stage it on the table just loaded."""
        progress = self.progress_at_start(table, connections, may_replay)
        if self.batch.letters is None:
            raise overtaken(self.batch, progress)
        places = saved_coordinates(connections.state, self.batch.letters)
        named = places.ranges if len(places) <= MOST_NAMED else None
        redriven = progress.after_redrive(self.batch, self.written.dead_letter_files, named)
        # In the epoch that it raises, as its letters: so it owes every table that, with or without a row.
        owing = redriven.with_pending_routes(
            self.attempt, NO_RANGES, self.written.routed_files, replaces=True
        )
        return stage_append(table, self.files(table), owing.with_schemas(self.schemas), self.summary)


@dataclass(frozen=True)
class RebuildCommit(FilesCommit, work=REBUILD):
    """A rebuilt mirror: the files of all changes of its topic, and nothing else.

    The table stands at the batch's ends from then on, which may lie behind it: the next drain goes on from
    there, and what was planned before is fenced. Staging raises as a replay's, and where the ``columns`` that
    the files were written for cannot come with them.
    """

    fail_point: ClassVar[str] = "rebuild"

    def stage(self, table: Table, connections: CatalogAccess) -> Swap:
        """Stage it on the table just loaded."""
        self.progress_at_start(table, connections, is_in_epoch)
        if self.columns is None:
            return self._staged(table)
        return self.columns.as_sent(self._staged(self.columns.on(table)), table)

    def _staged(self, table: Table) -> Swap:
        progress, ranges = progress_of(table), self.batch.ranges
        before = progress.last_drain.valid_through_ms if progress.last_drain else None
        last_drain = LastDrain(
            self.attempt, self.committed_at_ms, ranges.records, self.written.bytes_read, before
        )
        ends = {p: max(end, progress.next_offsets.get(p, end)) for p, end in ranges.ends.items()}
        pending = replace(
            _pending(self.batch, self.written, replaces=True),
            ranges=OffsetRanges.between(ranges.starts, ends),
        )
        rebuilt = (
            progress.after_batch(self.batch, pending, last_drain).with_fence().with_schemas(self.schemas)
        )
        kept = tuple(each for each in progress.skipped if each.generation != progress.generation)
        rebuilt = replace(rebuilt, skipped=kept, cdc=(progress.cdc or Cdc()).at_starts(ranges.starts))
        return stage_rebuilt(table, self.attempt, self.written.data_files, rebuilt, self.summary)


def commit_of(
    table_uuid: str,
    batch: Batch,
    written: ParquetWritten,
    *,
    committed_at_ms: int,
    columns: PlannedColumns | None = None,
) -> FilesCommit:
    """Return the commit of written files for the batch's work; ``columns`` may come with it."""
    return _BY_WORK[batch.kind](batch, table_uuid, written, committed_at_ms, columns)


def batch_of_change(
    table: Table,
    kind: Work,
    *,
    pipeline: str,
    attempt: str,
    now_us: int,
    ranges: OffsetRanges = NO_RANGES,
) -> Batch:
    """Return the batch under which a change of the table's progress is committed and logged.

    ``ranges`` are the offsets it speaks of; it writes no file.
    """
    progress = progress_of(table)
    return Batch(
        pipeline=pipeline,
        table=".".join(table.name()),
        topic=progress.topic,
        generation=progress.generation,
        ranges=ranges,
        attempt=attempt,
        ingested_at_us=now_us,
        kind=kind,
        epoch=progress.replay_epoch,
    )


def _pending(batch: Batch, written: ParquetWritten, *, replaces: bool = False) -> PendingDeadLetters:
    return PendingDeadLetters(batch.attempt, batch.ranges, written.dead_letter_files, replaces=replaces)


def overtaken(batch: Batch, progress: Progress) -> SluiceError:
    """Return the error for work that the table's replay epoch fences."""
    return fault(
        "replay-overtaken",
        kind=batch.kind,
        then=batch.epoch,
        epoch=progress.replay_epoch,
        generation=progress.generation,
        table=batch.table,
        batch=batch.batch_id,
        range=batch.ranges,
    )
