"""Replacement of the rows of offset ranges: files are dropped, rewritten and added in one snapshot.

A file whose rows are all in the ranges is dropped. After a compaction a file may hold other rows too: it is
rewritten without those of the ranges, rows in the same order, delete files of other engines applied. Which
files these are is asked of the very snapshot that the swap is compared with.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
from pyiceberg.manifest import DataFile, DataFileContent, ManifestContent, ManifestFile
from pyiceberg.schema import Schema
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update.snapshot import UpdateSnapshot, _OverwriteFiles

from spark_jobs.commit.swap import Swap, stage
from spark_jobs.lake.coordinates import Coordinates, of_generation
from spark_jobs.lake.data_files import FileBounds, bounds_of, to_data_file
from spark_jobs.lake.file_rows import rows_by_name, rows_of_file
from spark_jobs.lake.parquet_writer import write_files
from spark_jobs.lake.row_filters import is_in_span
from spark_jobs.protocol.batch import WrittenFile
from spark_jobs.protocol.errors import fault
from spark_jobs.protocol.offsets import OffsetRange
from spark_jobs.protocol.progress import Progress
from spark_jobs.schema.iceberg_types import GENERATION, OFFSET, PARTITION
from spark_jobs.storage.errors import storage_error

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from pyiceberg.table import FileScanTask, Table


def rewritten_prefix(attempt: str, table: Table) -> str:
    """Return the file name prefix of files rewritten by any run of an attempt.

    The table is part of it: one sweeps its own, and several may share a folder.
    """
    return f"{attempt}-kept-{str(table.metadata.table_uuid)[:8]}-"


@dataclass(slots=True)
class Rewriter:
    """Rewrites rows, mostly those that stay in straddling files, under names that the sweep finds.

    Neither a data file nor a delete file ever changes, so what came of one set of them is used again when
    the swap has to be staged anew: otherwise a table with frequent commits would never let a replay through.
    """

    attempt: str
    _done: dict[tuple[object, ...], tuple[WrittenFile, ...] | None] = field(default_factory=dict)

    def rewrite(
        self, table: Table, task: FileScanTask, replaced: ReplacedOffsets
    ) -> tuple[WrittenFile, ...] | None:
        """Return files with the rows that stay; None if all do, so that the file itself stays.

        Raises ``RetryableError`` when storage fails, ``ConfigError`` when it refuses.
        """
        deletes = sorted(file.file_path for file in task.delete_files)
        metadata = table.metadata
        key = (task.file.file_path, *deletes, metadata.current_schema_id, metadata.default_spec_id)
        if key not in self._done:
            self._done[key] = self._written(table, task, replaced)
        return self._done[key]

    def copy(self, table: Table, file: WrittenFile) -> tuple[WrittenFile, ...]:
        """Return the table's own files with the rows of a file of another folder or partitioning.

        Columns are found by name, since an earlier table's had other ids. Raises as ``rewrite``.
        """
        key = (file.path,)
        if key not in self._done:
            try:
                self._done[key] = self._write(table, rows_by_name(table.io, file.path, table.schema()))
            except OSError as error:
                raise storage_error(error, "reading a data file", file=file.path) from error
        return self._done[key] or ()

    def write(self, table: Table, name: str, rows: pa.Table) -> tuple[WrittenFile, ...]:
        """Return the table's own files with these rows, told apart by ``name`` and number."""
        key = (name, len(rows))
        if key not in self._done:
            self._done[key] = self._write(table, [rows]) if len(rows) else ()
        return self._done[key] or ()

    @property
    def has_written(self) -> bool:
        """True if files with its names may exist."""
        return any(self._done.values())

    def _written(
        self, table: Table, task: FileScanTask, replaced: ReplacedOffsets
    ) -> tuple[WrittenFile, ...] | None:
        try:
            staying, leaving = _count(table, task, replaced)
            if not leaving:
                return None
            rows = rows_of_file(table.io, task, table.schema())
            stays = (each.filter(pa.array(~replaced.holds(each))) for each in rows)
            return self._write(table, stays) if staying else ()
        except OSError as error:
            raise storage_error(error, "reading a data file", file=task.file.file_path) from error

    def _write(self, table: Table, rows: Iterable[pa.Table]) -> tuple[WrittenFile, ...]:
        return write_files(table, f"{rewritten_prefix(self.attempt, table)}{uuid.uuid4().hex[:8]}", rows)


def stage_replace(
    table: Table,
    replaced: ReplacedOffsets,
    added: Sequence[DataFile],
    *,
    progress: Progress,
    summary: Mapping[str, str],
    rewriter: Rewriter,
) -> Swap:
    """Stage one snapshot without the rows of ``replaced`` and with the files ``added``.

    Everything is looked up in the table as it was loaded: call it again after every conflict. Raises
    ``ConfigError`` where another engine wrote equality deletes, which cannot be applied here, and when
    storage refuses, ``RetryableError`` when it fails.
    """
    dropped: list[DataFile] = []
    kept: list[DataFile] = []
    for task in affected_files(table, replaced):
        if task_overlap(table, task, replaced) is Overlap.STRADDLES:
            rewritten = rewriter.rewrite(table, task, replaced)
            if rewritten is None:
                continue
            kept += [to_data_file(file, table.metadata) for file in rewritten]
        dropped.append(task.file)

    exchange = partial(exchange_files, dropped=dropped, added=(*kept, *added))
    return stage(table, exchange, progress, summary)


def affected_files(table: Table, replaced: ReplacedOffsets) -> Iterator[FileScanTask]:
    """Return the files that may contain rows of the ranges, with the delete files that apply to them."""
    if not replaced.places:
        return
    refuse_equality_deletes(table)
    # By the span of all ranges; each file is then judged by itself.
    span = is_in_span(replaced.places.hull, replaced.generation)
    for task in table.scan(span).plan_files():
        if task_overlap(table, task, replaced) is not Overlap.NONE:
            yield task


def task_overlap(table: Table, task: FileScanTask, replaced: ReplacedOffsets) -> Overlap:
    """Return the relation of one planned file to the ranges."""
    return replaced.overlap(bounds_of(table, task.file))


def refuse_equality_deletes(table: Table) -> None:
    """Raise ``ConfigError`` if the table has equality deletes.

    PyIceberg's plan refuses those that it meets. It leaves out those whose bounds lie beside the range, and
    rows of theirs may be in a straddling file, which is newer than they are once it is written again.
    """
    snapshot = table.metadata.current_snapshot()
    for manifest in snapshot.manifests(table.io) if snapshot else ():
        if manifest.content is not ManifestContent.DELETES:
            continue
        for entry in manifest.fetch_manifest_entry(table.io):
            if entry.data_file.content is DataFileContent.EQUALITY_DELETES:
                raise fault("equality-deletes", table=".".join(table.name()))


def _count(table: Table, task: FileScanTask, replaced: ReplacedOffsets) -> tuple[int, int]:
    """Return the number of rows that stay and of rows in the ranges; reads three columns."""
    rows_there = leaving = 0
    for rows in rows_of_file(table.io, task, table.schema().select(GENERATION, PARTITION, OFFSET)):
        rows_there += len(rows)
        leaving += int(replaced.holds(rows).sum())
    return rows_there - leaving, leaving


class Overlap(StrEnum):
    """Relation of a file's rows to the ranges."""

    NONE = "none"  # no row of the file is in a range
    INSIDE = "inside"  # every row is: the file is dropped
    STRADDLES = "straddles"  # some may be: the file is rewritten without them


@dataclass(frozen=True, slots=True)
class ReplacedOffsets:
    """Offset ranges of one generation with touching ones merged; a partition may have several."""

    generation: int
    places: Coordinates

    @classmethod
    def of(cls, generation: int, ranges: Iterable[OffsetRange]) -> ReplacedOffsets:
        """Merge the ranges; drop empty ones."""
        return cls(generation, Coordinates.of(ranges))

    def holds(self, rows: pa.Table) -> NDArray[np.bool_]:
        """Return a mask of rows in the ranges; a row without coordinates is in none."""
        return self.places.holds(rows) & of_generation(rows, self.generation)

    def overlap(self, bounds: FileBounds | None) -> Overlap:
        """Classify a file; without bounds (rows without coordinates, or not counted) it straddles.

        Bounds of several partitions do not say which offsets belong to which, so such a file is inside only
        when its whole span of offsets is replaced in each of them.
        """
        if bounds is None:
            return Overlap.STRADDLES
        if not bounds.generation[0] <= self.generation <= bounds.generation[1]:
            return Overlap.NONE
        first, last = bounds.offset
        spans = [OffsetRange(p, first, last + 1) for p in range(bounds.partition[0], bounds.partition[1] + 1)]
        if not any(map(self.places.overlap, spans)):
            return Overlap.NONE
        is_one_generation = bounds.generation[0] == bounds.generation[1]
        if is_one_generation and all(map(self.places.cover, spans)):
            return Overlap.INSIDE
        return Overlap.STRADDLES


# Data files dropped by their paths, and others added, in one snapshot.
#
# PyIceberg finds the manifests of dropped files by their partitions' values, and so never finds some: there
# is no comparison with NaN, and none with a value of a column that is gone.


class FilesByPath(_OverwriteFiles):
    """An overwrite that looks into each data manifest of a spec that a dropped file has."""

    def __init__(self, update: UpdateSnapshot) -> None:
        super().__init__(
            operation=Operation.OVERWRITE,
            transaction=update._transaction,  # noqa: SLF001  (no public way to a producer)
            io=update._io,  # noqa: SLF001
            snapshot_properties=update._snapshot_properties,  # noqa: SLF001
        )

    def schema(self) -> Schema:
        """Return the table's schema with removed columns of past specs, whose values are written by type."""
        metadata = self._transaction.table_metadata
        schema = metadata.schema()
        needed = {each.source_id for spec in metadata.partition_specs for each in spec.fields}
        gone = needed.difference(schema._lazy_id_to_field)  # noqa: SLF001  (no public way)
        past = {id_: each.find_field(id_) for each in metadata.schemas for id_ in gone & set(each.field_ids)}
        lost = [each.model_copy(update={"name": f"{each.name}-{id_}"}) for id_, each in past.items()]
        return Schema(*schema.fields, *lost, schema_id=schema.schema_id) if lost else schema

    def _build_delete_files_partition_predicate(self) -> None:
        """Disable the predicate."""

    def _build_manifest_evaluator(self, spec_id: int) -> Callable[[ManifestFile], bool]:
        is_needed = any(file.spec_id == spec_id for file in self._deleted_data_files)
        return lambda manifest: is_needed and manifest.content is ManifestContent.DATA


def exchange_files(update: UpdateSnapshot, dropped: Iterable[DataFile], added: Iterable[DataFile]) -> int:
    """Build the snapshot and return its id."""
    with FilesByPath(update) as producer:
        for file in dropped:
            producer.delete_data_file(file)
        for file in added:
            producer.append_data_file(file)
    return producer.snapshot_id
