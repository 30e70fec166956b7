"""Commits of a column's change of type: the new column, then each file's rows with converted values."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from spark_jobs.commit.anchor import check_anchor
from spark_jobs.commit.batch_commit import BatchIntent, overtaken
from spark_jobs.commit.pending_commit import commit_pending
from spark_jobs.commit.replace import exchange_files, refuse_equality_deletes
from spark_jobs.commit.swap import Change, Swap, stage, stage_change
from spark_jobs.lake.data_files import to_data_file
from spark_jobs.lake.file_rows import rows_of_file
from spark_jobs.lake.parquet_writer import write_files
from spark_jobs.lake.tables import progress_of
from spark_jobs.protocol.commit_summary import batch_summary
from spark_jobs.protocol.errors import fault
from spark_jobs.protocol.source import may_replay
from spark_jobs.storage.errors import storage_error

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.table import FileScanTask, Table

    from spark_jobs.commit.swap import CatalogAccess
    from spark_jobs.protocol.batch import WrittenFile
    from spark_jobs.protocol.progress import Progress


@dataclass(frozen=True)
class TableChange(BatchIntent):
    """A change of columns or partitioning with an empty snapshot, computed on the current table.

    It fences drains and replays that were planned before, adoption too: their files are of the table before.
    """

    change: Callable[[Table], tuple[Change, Progress]]
    summary: Mapping[str, str]
    fail_point: ClassVar[str] = "change"

    def stage(self, table: Table, connections: CatalogAccess) -> Swap:
        """Stage it on the table just loaded."""
        check_anchor(table)
        commit_pending(connections, self.identifier, progress_of(table), self.summary)
        change, progress = self.change(table)
        paid = replace(progress.with_fence(), pending_dead_letters=None, owed_routes=None)
        summary = {**self.summary, **batch_summary(self.batch)}
        return stage_change(table, change, paid.with_attempt(self.attempt), summary)


@dataclass(frozen=True)
class RetypeFileCommit(BatchIntent):
    """A data file replaced by its rows with ``retyped`` applied; no row is added or lost.

    Staging raises ``CommitConflict`` when the file is not the table's any more, or a replay or a rollback
    came since: plan again.
    """

    path: str
    retyped: Callable[[pa.Table], pa.Table]
    summary: Mapping[str, str]
    fail_point: ClassVar[str] = "retype"
    _written: list[WrittenFile] = field(default_factory=list)

    def stage(self, table: Table, connections: CatalogAccess) -> Swap:  # noqa: ARG002  (of Intent)
        """Stage it on the table just loaded; files of an earlier try are used again."""
        progress = progress_of(table)
        if not may_replay(progress, self.batch):
            raise overtaken(self.batch, progress)
        check_anchor(table)
        refuse_equality_deletes(table)
        task = next((each for each in table.scan().plan_files() if each.file.file_path == self.path), None)
        if task is None:
            raise fault("file-gone", table=self.identifier, file=self.path)
        if not self._written:
            self._written.extend(self._write(table, task))

        added = [to_data_file(file, table.metadata) for file in self._written]
        exchange = partial(exchange_files, dropped=(task.file,), added=added)
        recorded = progress.with_attempt(self.attempt)
        return stage(table, exchange, recorded, {**self.summary, **batch_summary(self.batch)})

    def _write(self, table: Table, task: FileScanTask) -> tuple[WrittenFile, ...]:
        rows = map(self.retyped, rows_of_file(table.io, task, table.schema()))
        try:
            return write_files(table, f"{self.attempt}-{uuid.uuid4().hex[:8]}", rows)
        except OSError as error:
            raise storage_error(error, "reading a data file", file=self.path) from error
