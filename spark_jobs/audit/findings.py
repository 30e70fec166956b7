"""Findings of a metadata audit: problem, location and the command that fixes it. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

from spark_jobs.protocol import mends
from spark_jobs.protocol.batch import Batch
from spark_jobs.protocol.errors import SluiceError, fault
from spark_jobs.protocol.progress import Progress
from spark_jobs.protocol.work import Layout
from spark_jobs.protocol.works.changes import ROLLBACK
from spark_jobs.txlog.entries import PHASE_NUMBERS, Attempt, Closed, Phase, Swept

_COMPLETE = PHASE_NUMBERS[Phase.FLUSH_COMPLETE]


@dataclass(frozen=True, slots=True)
class Finding:
    """``what`` is the problem, ``where`` a path, snapshot, attempt or range; ``mend`` is a command."""

    what: str
    where: str
    mend: str


@dataclass(slots=True)
class MetadataAudit:
    """Counts of checked objects, table and dead-letter table together, and up to 1,000 findings."""

    pipeline: str
    table: str
    snapshots: int = 0
    metadata_files: int = 0
    data_files: int = 0
    data_bytes: int = 0
    attempts: int = 0
    findings: list[Finding] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        """True if nothing was found."""
        return not self.findings


def unreadable(what: str, pipeline: str, table: str, error: Exception) -> SluiceError:
    """Return the error for rows that cannot be read to be compared."""
    return fault(
        "data-file-unreadable", what=what, type=type(error).__name__, why=error, owner=pipeline, table=table
    )


def log_findings(
    pipeline: str, attempts: Iterable[Attempt], progress: Progress, in_history: Collection[str]
) -> Iterator[Finding]:
    """Return contradictions between log and table.

    ``attempts`` were read before ``progress``, so that what landed in between is no contradiction;
    ``in_history`` are the attempts whose snapshots are kept.
    """
    attempts = tuple(attempts)
    rollbacks = (a.started_at_us for a in attempts if a.batch and a.batch.kind is ROLLBACK)
    rolled_back_us = max(rollbacks, default=0)
    for attempt in attempts:
        batch = attempt.batch
        if batch is None:
            yield Finding(
                "none of its log objects can be read", attempt.uuid, mends.command("recover", pipeline)
            )
            continue
        # An act has no files to miss: its commit may come after recovery has called it undone.
        is_swept = batch.kind.writes_files and bool(attempt.entry(Swept) or attempt.entry(Closed))
        if is_swept and (attempt.uuid in in_history or progress.has_landed(attempt.uuid)):
            mend = progress.table_layout.read_again(pipeline, str(batch.ranges))
            yield Finding(
                "the log records it as abandoned, but its commit is in the table", attempt.uuid, mend
            )
        is_judged = attempt.reached == _COMPLETE and attempt.started_at_us > rolled_back_us
        if is_judged and not _holds(progress, batch):
            yield Finding(
                f"the log records it as committed, but the table does not include {batch.ranges}",
                attempt.uuid,
                f"{mends.command('drain', pipeline)} shows what happened and how to accept or undo it",
            )


def _holds(progress: Progress, batch: Batch) -> bool:
    if progress.has_landed(batch.attempt):
        return True
    known = {**progress.earlier, progress.generation: progress.next_offsets}.get(batch.generation, {})
    new = batch.kind.new(batch.ranges) or ()
    return all(known.get(each.partition, 0) >= each.end for each in new)


# Columns of floating point in which versions before rounded integers, and what mends them.


@dataclass(frozen=True, slots=True)
class RoundedColumn:
    """A column, dotted, with the Iceberg type that holds its integers, and the number of rounded rows."""

    column: str
    exact_type: str
    rows: int

    def mend(self, pipeline: str, layout: Layout) -> str:
        """Return the command that makes the column exact."""
        if "columns" in layout.not_said:
            return f"a new table for {pipeline}"
        if "." in self.column or "retype" in layout.refused:
            top = self.column.partition(".")[0]
            return f"a new table for {pipeline} declaring {top} whole: {self.exact_type} for {self.column}"
        return mends.act("retype", pipeline, self.column, f"'{self.exact_type}'")


def merged(found: Iterable[RoundedColumn]) -> tuple[RoundedColumn, ...]:
    """Return each column once, with the type that holds all of its integers."""
    columns: dict[str, RoundedColumn] = {}
    for each in found:
        known = columns.get(each.column, RoundedColumn(each.column, each.exact_type, 0))
        # Of the two there are, only ``long`` does not hold all.
        kind = known.exact_type if each.exact_type == "long" else each.exact_type
        columns[each.column] = RoundedColumn(each.column, kind, known.rows + each.rows)
    return tuple(columns[name] for name in sorted(columns))
