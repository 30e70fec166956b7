"""The one call that changes a table: a snapshot and the progress that belongs to it, compared and swapped.

PyIceberg's own ``commit_transaction`` is never used: with retries it rebases, so that a stale run and its
replacement both land; without, it deletes the manifests after a 409 and does not look whether it landed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from pyiceberg.table import CommitTableResponse, Table, Transaction
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    AssertCurrentSchemaId,
    AssertRefSnapshotId,
    AssertTableUUID,
    SetCurrentSchemaUpdate,
)

from spark_jobs.lake.tables import progress_of
from spark_jobs.protocol.commit_summary import progress_summary
from spark_jobs.protocol.errors import fault
from spark_jobs.protocol.progress import Progress

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.manifest import DataFile
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.update import TableRequirement, TableUpdate
    from pyiceberg.table.update.snapshot import UpdateSnapshot

_log = logging.getLogger(__name__)

# Makes one snapshot of the transaction's table and gives its id.
Producer: TypeAlias = "Callable[[UpdateSnapshot], int]"
# Changes the transaction's table otherwise, before its snapshot is made.
Change: TypeAlias = "Callable[[Transaction], None]"


@dataclass(frozen=True, slots=True)
class Swap:
    """A commit ready to be sent: manifests are written, the catalog knows nothing yet."""

    requirements: tuple[TableRequirement, ...]
    updates: tuple[TableUpdate, ...]
    snapshot_id: int
    progress: Progress


def stage_append(
    table: Table, data_files: Sequence[DataFile], progress: Progress, summary: Mapping[str, str]
) -> Swap:
    """Stage one snapshot with these files (none is fine) and ``progress``, anchored at that snapshot."""
    return stage(table, partial(_append, data_files), progress, summary)


def stage_change(table: Table, change: Change, progress: Progress, summary: Mapping[str, str]) -> Swap:
    """Stage ``change`` of the table's columns or partitioning, an empty snapshot and ``progress``."""
    return stage(table, partial(_append, ()), progress, summary, change)


def stage(
    table: Table,
    snapshot: Producer,
    progress: Progress,
    summary: Mapping[str, str],
    change: Change = lambda _: None,
) -> Swap:
    """Stage the one snapshot that ``snapshot`` makes and ``progress``, anchored at that snapshot.

    There is always a snapshot, since the comparison is on main's snapshot id: a commit of properties alone
    would overwrite whatever came between. The table must have a snapshot: with a null id the
    comparison is ignored by some catalogs.
    """
    if table.metadata.current_snapshot_id is None:
        raise fault("no-snapshot", table=".".join(table.name()))
    swap = _stage(table, snapshot, progress, summary, change)
    if not any(isinstance(r, AssertRefSnapshotId) and r.snapshot_id is not None for r in swap.requirements):
        raise AssertionError("a commit without a comparison on main must never be sent")
    return swap


def stage_birth(table: Table, progress: Progress) -> Swap:
    """Stage the first, empty snapshot of a table under a name only its creator knows.

    It carries no comparison on main: a null one means nothing on some catalogs, and nobody can interfere.
    """
    swap = _stage(table, partial(_append, ()), progress, {})
    return replace(
        swap, requirements=tuple(r for r in swap.requirements if not isinstance(r, AssertRefSnapshotId))
    )


def send(catalog: Catalog, table: Table, swap: Swap) -> TableMetadata:
    """Send the swap once. After any exception the outcome is unknown to the caller, a 409 included."""
    response = catalog.commit_table(table, swap.requirements, swap.updates)
    _drop_old_metadata_files(table, response)
    return response.metadata


def _append(data_files: Sequence[DataFile], update: UpdateSnapshot) -> int:
    with update.fast_append() as append:
        for data_file in data_files:
            append.append_data_file(data_file)
    return append.snapshot_id


def _stage(
    table: Table,
    snapshot: Producer,
    progress: Progress,
    summary: Mapping[str, str],
    change: Change = lambda _: None,
) -> Swap:
    transaction = _without_past(table).transaction()
    change(transaction)
    properties = {**table.metadata.properties, **progress.to_properties()}
    full_summary = {**summary, **progress_summary(progress, properties)}
    snapshot_id = snapshot(transaction.update_snapshot(snapshot_properties=full_summary))
    anchored = replace(progress, anchor=snapshot_id)
    transaction.set_properties(anchored.to_properties())
    return Swap(
        (*transaction._requirements, AssertTableUUID(uuid=table.metadata.table_uuid)),  # noqa: SLF001  (no public way)
        # No public way to either; a test pins both names.
        tuple(_not_before(table.metadata, update) for update in transaction._updates),  # noqa: SLF001
        snapshot_id,
        anchored,
    )


def _not_before(metadata: TableMetadata, update: TableUpdate) -> TableUpdate:
    """Return the same with a snapshot later than the table's last change: clocks differ, or are set back.

    Java refuses a table whose times run backwards by more than a minute: catalog servers the commit, engines
    to read it.
    """
    if not isinstance(update, AddSnapshotUpdate):
        return update
    at_ms = max(update.snapshot.timestamp_ms, metadata.last_updated_ms + 1)
    return update.model_copy(update={"snapshot": update.snapshot.model_copy(update={"timestamp_ms": at_ms})})


def _without_past(table: Table) -> Table:
    """Return the table with no snapshot but the current one, which is all that the next is built on.

    A PyIceberg transaction copies the whole metadata more than ten times, snapshot by snapshot: with a
    hundred of them that was four fifths of a commit's time.
    """
    current = table.metadata.current_snapshot()
    present = table.metadata.model_copy(
        update={
            "snapshots": [] if current is None else [current],
            "snapshot_log": [],
            "metadata_log": [],
        }
    )
    return Table(table.name(), present, table.metadata_location, table.io, table.catalog)


def _drop_old_metadata_files(table: Table, response: CommitTableResponse) -> None:
    """Delete the metadata files that fell out of the table's metadata log, as its properties ask for.

    PyIceberg does so only in the transaction that is not used here. Best effort: the commit stands, and what
    stays behind is removed with other orphans.
    """
    if table.metadata.properties.get("write.metadata.delete-after-commit.enabled") != "true":
        return
    kept = {entry.metadata_file for entry in response.metadata.metadata_log}
    for entry in table.metadata.metadata_log:
        if entry.metadata_file in kept:
            continue
        try:
            table.io.delete(entry.metadata_file)
        except FileNotFoundError:
            continue  # a catalog server deletes them itself
        except Exception:  # noqa: BLE001  (the commit has landed: nothing here may make it look otherwise)
            _log.warning("an old metadata file could not be deleted: %s", entry.metadata_file, exc_info=True)


def stage_rewind(table: Table, snapshot_id: int, progress: Progress, summary: Mapping[str, str]) -> Swap:
    """Stage an empty snapshot on top of ``snapshot_id``, compared with what main is now.

    The snapshot must be in the table's metadata. Columns that others took the place of since are back.
    """
    main, now = table.metadata.refs[MAIN_BRANCH], table.metadata.current_schema_id
    earlier = as_it_was(table, snapshot_id)
    swap = stage_append(earlier, (), progress, summary)
    swap = replace(swap, requirements=tuple(_with_main(r, main.snapshot_id) for r in swap.requirements))
    then = earlier.metadata.current_schema_id
    if then == now:
        return swap
    is_as_now = AssertCurrentSchemaId.model_validate({"current-schema-id": now})
    comes_back = SetCurrentSchemaUpdate.model_validate({"schema-id": then})
    return replace(swap, requirements=(*swap.requirements, is_as_now), updates=(comes_back, *swap.updates))


def as_it_was(table: Table, snapshot_id: int) -> Table:
    """Return the table with main at a snapshot that its metadata has, to read or to build on."""
    main = table.metadata.refs[MAIN_BRANCH]
    earlier = table.metadata.model_copy(
        update={
            "refs": {
                **table.metadata.refs,
                MAIN_BRANCH: main.model_copy(update={"snapshot_id": snapshot_id}),
            },
            "current_snapshot_id": snapshot_id,
            "current_schema_id": _schema_of(table, snapshot_id),
        }
    )
    return Table(table.name(), earlier, table.metadata_location, table.io, table.catalog)


def _schema_of(table: Table, snapshot_id: int) -> int:
    """Return the table's schema, or a mirror's of then where other columns have the names of its own today.

    A rebuild puts another column in the place of one whose type was changed: the values of then are in that.
    """
    if not progress_of(table).table_layout.keeps_newest:
        return table.metadata.current_schema_id
    snapshot = table.metadata.snapshot_by_id(snapshot_id)
    then = None if snapshot is None or snapshot.schema_id is None else table.schemas().get(snapshot.schema_id)
    now = {each.name: each.field_id for each in table.schema().fields}
    gone = [each for each in (then.fields if then else ()) if each.field_id not in now.values()]
    if then is None or not any(each.name in now for each in gone):
        return table.metadata.current_schema_id
    return then.schema_id


def _with_main(requirement: TableRequirement, snapshot_id: int) -> TableRequirement:
    if not isinstance(requirement, AssertRefSnapshotId):
        return requirement
    return requirement.model_copy(update={"snapshot_id": snapshot_id})
