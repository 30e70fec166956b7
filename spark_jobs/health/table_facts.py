"""The facts for the built-in checks in a table's loaded metadata; nothing else is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from pyiceberg.schema import Schema, index_by_id, index_name_by_id
from pyiceberg.table.snapshots import Operation, Snapshot, ancestors_of

from spark_jobs.checks.facts import DrainedBatch, Removal, TableFacts
from spark_jobs.lake.tables import progress_of, summary_of
from spark_jobs.protocol.batch import total
from spark_jobs.protocol.commit_summary import CommitSummary

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata

    from spark_jobs.protocol.progress import Progress


def table_facts(table: Table, *, schema_since_ms: int) -> TableFacts:
    """Return the facts of a table; schema changes are those after ``schema_since_ms`` (since the epoch).

    If a catalog returns no history, only the newest snapshot's batch is judged.
    """
    progress = progress_of(table)
    last = progress.last_drain
    snapshots = main_history(table)
    return TableFacts(
        valid_through_ms=last.valid_through_ms if last else None,
        committed_at_ms=last.committed_at_ms if last else table.metadata.last_updated_ms,
        batches=tuple(_batches(snapshots, progress)),
        holes=tuple(_holes(snapshots)),
        removals=tuple(removals(snapshots)),
        schema_changes=_changes_since(table, snapshots, schema_since_ms),
        paused=progress.paused,
        snapshots=len(table.metadata.snapshots),
        shows_history=shows_history(table.metadata),
        skipped=sum(
            each.end - each.start for each in progress.skipped if each.generation == progress.generation
        ),
        restarts=len(progress.cdc.restarts) if progress.cdc else 0,
    )


def shows_history(metadata: TableMetadata) -> bool:
    """True if the catalog returns parent snapshots; else a rewritten table looks like a rolled back one."""
    snapshot = metadata.current_snapshot()
    if snapshot is None:
        return False
    return snapshot.sequence_number == 1 or snapshot.parent_snapshot_id is not None


def main_history(table: Table) -> list[Snapshot]:
    """Return the kept ancestors of the main branch, oldest first."""
    return list(ancestors_of(table.metadata.current_snapshot(), table.metadata))[::-1]


def removals(snapshots: Sequence[Snapshot]) -> Iterator[Removal]:
    """Yield the snapshots of other writers that removed rows, oldest first; compaction removes none."""
    for snapshot in snapshots:
        summary = summary_of(snapshot)
        operation = snapshot.summary.operation if snapshot.summary else None
        if summary.attempt is not None or operation not in {Operation.DELETE, Operation.OVERWRITE}:
            continue
        yield Removal(snapshot.snapshot_id, operation.value, snapshot.timestamp_ms, _rows_removed(summary))


def _rows_removed(summary: CommitSummary) -> int | None:
    """Return the number of removed rows, without rewritten ones; None for an equality delete."""
    if summary.count("added-equality-deletes"):
        return None
    removed = summary.count("deleted-records") + summary.count("added-position-deletes")
    return max(0, removed - summary.count("added-records"))


def _batches(snapshots: Sequence[Snapshot], progress: Progress) -> Iterator[DrainedBatch]:
    for snapshot in snapshots:
        summary = summary_of(snapshot)
        if summary.balances is None:
            continue
        yield DrainedBatch(
            attempt=summary.attempt or "",
            committed_at_ms=snapshot.timestamp_ms,
            offsets=summary.records,
            balance=total(summary.balances),
            added_rows=None if progress.table_layout.keeps_newest else summary.count("added-records"),
            unlisted_values=summary.unlisted_values,
        )


def _holes(snapshots: Sequence[Snapshot]) -> Iterator[str]:
    """Yield the commits of drains that do not begin where the previous one of their generation ended."""
    reached: dict[int, int] = {}
    generation = 0
    for snapshot in snapshots:
        summary = summary_of(snapshot)
        if not summary.has_progress:
            continue
        if summary.generation != generation:
            generation, reached = summary.generation, {}
        for partition, start in summary.drained.items():
            if reached.get(partition, start) != start:
                yield (
                    f"snapshot {snapshot.snapshot_id} begins at {partition}:{start},"
                    f" but the previous one ended at {partition}:{reached[partition]}"
                )
        reached = summary.next_offsets


def _changes_since(table: Table, snapshots: Sequence[Snapshot], since_ms: int) -> tuple[str, ...]:
    """Return the changes since the schema of that time, or since the first batch's if that is later."""
    with_schema = [snapshot for snapshot in snapshots if snapshot.schema_id is not None]
    before = [snapshot for snapshot in with_schema if snapshot.timestamp_ms <= since_ms]
    first_batches = [snapshot for snapshot in with_schema if summary_of(snapshot).attempt]
    base = before[-1] if before else next(iter(first_batches), None)
    schemas = table.schemas()
    if base is None or base.schema_id not in schemas:
        return ()
    return schema_changes(_columns(schemas[base.schema_id]), _columns(table.schema()))


# Dotted name and type by field id, which does not change with a rename.
_Columns: TypeAlias = Mapping[int, tuple[str, str]]


def _columns(schema: Schema) -> _Columns:
    """Return all columns, nested ones included; a nested type is named without its fields."""
    names, fields = index_name_by_id(schema), index_by_id(schema).items()
    return {number: (names[number], str(field.field_type).partition("<")[0]) for number, field in fields}


def schema_changes(before: _Columns, after: _Columns) -> tuple[str, ...]:
    """Return a phrase for each column that was added, dropped, renamed or retyped, in column order."""
    changes = []
    for number, (name, kind) in after.items():
        if number not in before:
            changes.append(f"added {name} ({kind})")
            continue
        was, former = before[number]
        if was != name:
            changes.append(f"renamed {was} to {name}")
        if former != kind:
            changes.append(f"changed {name} from {former} to {kind}")
    return (*changes, *(f"dropped {name}" for number, (name, _) in before.items() if number not in after))
