"""Check that main is still the state after the last commit, before any work on a table.

A rollback or a rewrite by another tool keeps the table's properties, so that the next offsets look right
while rows are missing. Snapshots of Sluice's and ``replace`` ones (compaction) after the anchor are fine.
Properties that were set by hand are found out by the last commit's summary: it has the offsets and a digest.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NoReturn

from pyiceberg.manifest import DataFileContent
from pyiceberg.table.snapshots import Operation, Snapshot, ancestors_of

from spark_jobs.config.settings import DEAD_LETTERS_SUFFIX
from spark_jobs.lake.data_files import FileBounds, bounds_of
from spark_jobs.lake.tables import progress_of, summary_of
from spark_jobs.protocol.commit_summary import digest
from spark_jobs.protocol.errors import fault
from spark_jobs.protocol.progress import Progress
from spark_jobs.schema.declared import refuse_newer_format

if TYPE_CHECKING:
    from pyiceberg.table import Table


def check_anchor(table: Table) -> None:
    """Check that main is the anchor, or descends from it only by our commits and compaction.

    Where history cannot be walked (expired, or a catalog that shows none) the files' bounds decide.
    Raises ``SourceChanged``, ``CorruptLog`` like ``check_properties``, and as ``refuse_newer_format``.
    """
    refuse_newer_format(table)
    progress = progress_of(table)
    snapshot = table.metadata.current_snapshot()
    while snapshot is not None and snapshot.snapshot_id != progress.anchor:
        if not is_harmless(snapshot):
            _raise_rewritten(table, progress, snapshot)
        parent = snapshot.parent_snapshot_id
        snapshot = table.metadata.snapshot_by_id(parent) if parent is not None else None
    if snapshot is not None:
        check_properties(table)
        return
    anchor_is_known = (
        progress.anchor is not None and table.metadata.snapshot_by_id(progress.anchor) is not None
    )
    if anchor_is_known or not _has_traces_of_last_commit(table, progress):
        raise fault(
            "table-rolled-back",
            current=table.metadata.current_snapshot_id,
            anchor=progress.anchor,
            table=".".join(table.name()),
        )


def check_properties(table: Table) -> None:
    """Check that the properties are those of the last commit, as far as main shows it.

    Whoever sets offsets back has rows read twice, whoever sets them forward has rows left out and the files
    of an unfinished batch swept; dead letters that are owed no more are swept too. Raises ``CorruptLog``.
    """
    progress = progress_of(table)
    last: Snapshot | None = None
    for snapshot in ancestors_of(table.metadata.current_snapshot(), table.metadata):
        if last is None and summary_of(snapshot).has_progress:
            last = snapshot
        if snapshot.snapshot_id == progress.anchor:
            break
    else:
        return  # rolled back, or expired: for ``check_anchor``
    if last is None:
        return
    summary = summary_of(last)
    is_as_written = summary.properties_digest in {None, digest(table.metadata.properties)}
    written = (summary.generation, summary.next_offsets)
    if not is_as_written or written != (progress.generation, progress.next_offsets):
        raise fault("damaged-progress.by-hand", snapshot=last.snapshot_id, table=".".join(table.name()))


def is_harmless(snapshot: Snapshot) -> bool:
    """True if a snapshot was written by Sluice or does not change rows."""
    is_replace = snapshot.summary is not None and snapshot.summary.operation is Operation.REPLACE
    return is_replace or summary_of(snapshot).is_of_sluice


def may_be_meant(snapshot: Snapshot) -> bool:
    """True if another program's snapshot removed or changed rows: a DELETE, a time-to-live, an UPDATE.

    A person may take it over. Rows that were added have no offsets and never belong here.
    """
    return snapshot.summary is not None and snapshot.summary.operation in {
        Operation.DELETE,
        Operation.OVERWRITE,
    }


def _raise_rewritten(table: Table, progress: Progress, snapshot: Snapshot) -> NoReturn:
    operation = snapshot.summary.operation.value if snapshot.summary else "unknown"
    main = table.metadata.current_snapshot_id
    if not may_be_meant(snapshot):
        raise fault(
            "table-rewritten.added",
            snapshot=snapshot.snapshot_id,
            how=operation,
            anchor=progress.anchor,
            table=".".join(table.name()),
        )
    raise fault(
        "table-rewritten",
        snapshot=snapshot.snapshot_id,
        how=operation,
        main=main,
        anchor=progress.anchor,
        table=".".join(table.name()),
    )


def _has_traces_of_last_commit(table: Table, progress: Progress) -> bool:
    """True if the files' bounds prove that main has a row of the last commit, and none after its offsets.

    A commit is atomic: one of its rows shows that main has all of it. Commits without a row leave no
    trace, so the answer may be a false alarm and never a false comfort. But in a table that is owed its rows
    not every drain leaves one: there only the newest commit is looked for, and no drain goes on from its
    offsets.
    """
    starts = progress.last_drained().starts
    if not starts:
        is_owed = progress.routed_from is not None or table.name()[-1].endswith(DEAD_LETTERS_SUFFIX)
        return is_owed or not _has_drained(progress)
    has_trace = False
    for bounds in _file_bounds(table, progress.generation):
        (first, last), (_, last_offset) = bounds.partition, bounds.offset
        known = {p: offset for p, offset in progress.next_offsets.items() if first <= p <= last}
        if all(last_offset >= offset for offset in known.values()):
            return False
        # The row with the last offset is of one of these partitions; it is new whichever it is.
        has_trace |= all(last_offset >= starts.get(p, offset) for p, offset in known.items())
    return has_trace


def _has_drained(progress: Progress) -> bool:
    """True if offsets of the generation were drained, not only skipped."""
    passed = sum(offset - progress.starts.get(p, 0) for p, offset in progress.next_offsets.items())
    return passed > sum(s.end - s.start for s in progress.skipped if s.generation == progress.generation)


def _file_bounds(table: Table, generation: int) -> Iterator[FileBounds]:
    """Return the bounds of every data file whose rows are all of this generation."""
    snapshot = table.metadata.current_snapshot()
    for manifest in snapshot.manifests(table.io) if snapshot else ():
        for entry in manifest.fetch_manifest_entry(table.io):
            is_data = entry.data_file.content is DataFileContent.DATA
            bounds = bounds_of(table, entry.data_file) if is_data else None
            if bounds is not None and bounds.generation == (generation, generation):
                yield bounds
