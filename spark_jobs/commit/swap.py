"""The only call that changes a table: compare and swap, and finding out if it landed.

PyIceberg's own ``commit_transaction`` is never used: with retries it rebases, so that a stale run and its
replacement both land; without, it deletes the manifests after a 409 and does not look whether it landed.

What a catalog answers proves nothing: a 409 may follow a commit that landed, a 504 may land seconds later, a
SQLite connection shows rows that were never committed. The only witness is ``sluice.last-commits``, read
through a new catalog object. Nothing here deletes a manifest or a data file.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeAlias

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import CommitTableResponse, CreateTableTransaction, Table, Transaction
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    AssertCreate,
    AssertCurrentSchemaId,
    AssertRefSnapshotId,
    AssertTableUUID,
    SetCurrentSchemaUpdate,
    SetPropertiesUpdate,
)

from spark_jobs.lake.catalog import refused_commit, released, staging
from spark_jobs.lake.tables import load_table, progress_of, snapshot_of
from spark_jobs.protocol.commit_summary import progress_summary
from spark_jobs.protocol.errors import CommitStateUnknown, SluiceError, fault, first_line
from spark_jobs.protocol.progress import Progress
from spark_jobs.protocol.work import FailPoints
from spark_jobs.schema.declared import refuse_newer_format

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.manifest import DataFile
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.update import TableRequirement, TableUpdate
    from pyiceberg.table.update.snapshot import UpdateSnapshot

    from spark_jobs.storage.create_only import CreateOnlyStore

_log = logging.getLogger(__name__)

# Makes one snapshot of the transaction's table and gives its id.
Producer: TypeAlias = "Callable[[UpdateSnapshot], int]"
# Changes the transaction's table otherwise, before its snapshot is made.
Change: TypeAlias = "Callable[[Transaction], None]"


@dataclass(frozen=True, slots=True)
class Swap:
    """A commit ready to be sent: its manifests are written, the catalog does not know it yet."""

    requirements: tuple[TableRequirement, ...]
    updates: tuple[TableUpdate, ...]
    snapshot_id: int
    progress: Progress


def stage_append(
    table: Table, data_files: Sequence[DataFile], progress: Progress, summary: Mapping[str, str]
) -> Swap:
    """Stage one snapshot with these files (possibly none) and ``progress``, anchored at that snapshot."""
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
    """Stage the snapshot that ``snapshot`` builds and ``progress``, anchored at that snapshot.

    There is always a snapshot, since the comparison is on main's snapshot id: a commit of properties alone
    would overwrite whatever came between. The table must have a snapshot: with a null id the
    comparison is ignored by some catalogs.
    """
    if table.metadata.current_snapshot_id is None:
        raise fault("no-snapshot", table=".".join(table.name()))
    transaction = _without_past(table).transaction()
    change(transaction)
    swap = _staged(table, transaction, snapshot, progress, summary)
    if not any(isinstance(r, AssertRefSnapshotId) and r.snapshot_id is not None for r in swap.requirements):
        raise AssertionError("a commit without a comparison on main must never be sent")
    return swap


def stage_creation(creation: CreateTableTransaction, progress: Progress) -> tuple[Table, Swap]:
    """Stage a table that does not exist yet with a first, empty snapshot; return both.

    Its comparison is that the name is free. One on main would be with null, which some catalogs ignore.
    Properties are set by one update: Nessie takes no second one in a creation.
    """
    table = creation._table  # noqa: SLF001  (see _staged)
    swap = _staged(table, creation, partial(_append, ()), progress, {})
    properties = {**table.metadata.properties, **swap.progress.to_properties()}
    others = (update for update in swap.updates if not isinstance(update, SetPropertiesUpdate))
    updates = (*others, SetPropertiesUpdate(updates=properties))
    return table, replace(swap, requirements=(AssertCreate(),), updates=updates)


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


def _staged(
    table: Table,
    transaction: Transaction,
    snapshot: Producer,
    progress: Progress,
    summary: Mapping[str, str],
) -> Swap:
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
    """Return the swap with a snapshot later than the table's last change: clocks differ, or are set back.

    Java refuses a table whose times run backwards by more than a minute: catalog servers the commit, engines
    to read it.
    """
    if not isinstance(update, AddSnapshotUpdate):
        return update
    at_ms = max(update.snapshot.timestamp_ms, metadata.last_updated_ms + 1)
    return update.model_copy(update={"snapshot": update.snapshot.model_copy(update={"timestamp_ms": at_ms})})


def _without_past(table: Table) -> Table:
    """Return the table with only the current snapshot, on which the next one is built.

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
    """Delete the metadata files that dropped out of the table's metadata log, as its properties request.

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
    """Stage an empty snapshot on top of ``snapshot_id``, compared with the current main.

    The snapshot must be in the table's metadata. Columns that others took the place of since are back.
    """
    main, now = table.metadata.refs[MAIN_BRANCH], table.metadata.current_schema_id
    earlier = _as_it_was(table, snapshot_id)
    swap = stage_append(earlier, (), progress, summary)
    swap = replace(swap, requirements=tuple(_with_main(r, main.snapshot_id) for r in swap.requirements))
    then = earlier.metadata.current_schema_id
    if then == now:
        return swap
    is_as_now = AssertCurrentSchemaId.model_validate({"current-schema-id": now})
    comes_back = SetCurrentSchemaUpdate.model_validate({"schema-id": then})
    return replace(swap, requirements=(*swap.requirements, is_as_now), updates=(comes_back, *swap.updates))


def _as_it_was(table: Table, snapshot_id: int) -> Table:
    """Return the table with main at a snapshot in its metadata, to build on."""
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
    """Return the table's schema, or a mirror's earlier schema if other columns now have its names.

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


MAX_CONFLICTS = 20
FIRST_PAUSE_SECONDS = 0.02
LONGEST_PAUSE_SECONDS = 1.0
# A gateway's 504 was seen to land 2 s later; what lands after these is settled by the next recovery.
READ_BACK_PAUSES_SECONDS: tuple[float, ...] = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0)


@dataclass(frozen=True, slots=True)
class Committed:
    """A commit that is in the table.

    ``progress`` and ``metadata`` are the table's when that was established; ``retries`` how often another
    writer's commit came first.
    """

    snapshot_id: int
    progress: Progress
    metadata: TableMetadata
    retries: int


class CatalogAccess(Protocol):
    """The parts of a job's connections that a commit needs."""

    @property
    def open_catalog(self) -> Callable[[], Catalog]:
        """Gives a new catalog object every time."""

    @property
    def state(self) -> CreateOnlyStore:
        """The storage under ``state:``."""

    @property
    def fail_points(self) -> FailPoints:
        """The fail points."""


class Intent(Protocol):
    """Plain values of a commit, which become a swap on the current table."""

    @property
    def identifier(self) -> str:
        """Name of the table."""

    @property
    def attempt(self) -> str:
        """The uuid by which the table knows whether it has landed."""

    @property
    def fail_point(self) -> str:
        """Name of the commit in fail points."""

    def stage(self, table: Table, connections: CatalogAccess) -> Swap:
        """Write the manifests for the table just loaded; raise if the commit is no longer right."""


def land(connections: CatalogAccess, intent: Intent) -> Committed:
    """Commit, or find that the attempt has already landed; return the landed commit.

    While only main moves (compaction, another writer) the same files are staged again on the new main.
    Raises what ``stage`` raises, ``CommitStateUnknown`` when a swap was sent and cannot be found, and
    ``RetryableError`` when none was sent or each met another writer's commit.
    """
    fail_points = connections.fail_points
    retries = 0
    is_sent = False
    while True:
        failure: Exception | None = None
        with _loaded(connections, intent, is_sent=is_sent) as (catalog, table):
            if (landed := _landed(table, intent.attempt, retries)) is not None:
                return landed
            refuse_newer_format(table)
            if retries > MAX_CONFLICTS:
                raise fault(
                    "commit-crowded-out",
                    tries=MAX_CONFLICTS + 1,
                    table=intent.identifier,
                    attempt=intent.attempt,
                )
            with staging(table):
                swap = intent.stage(table, connections)
            fail_points.reach(f"{intent.fail_point}.before-swap")
            is_sent = True
            try:
                metadata = send(catalog, table, swap)
            except CommitFailedException:
                pass  # it may have landed all the same: the table that is loaded next tells
            except Exception as error:  # noqa: BLE001  (whatever it was, it may have landed)
                failure = error
            else:
                fail_points.reach(f"{intent.fail_point}.after-swap")
                return Committed(swap.snapshot_id, swap.progress, metadata, retries)
        if failure is not None:
            return _read_back(connections, intent, failure, retries)
        _pause(retries)
        retries += 1


@contextmanager
def _loaded(connections: CatalogAccess, intent: Intent, *, is_sent: bool) -> Iterator[tuple[Catalog, Table]]:
    """Load the table through a new catalog object; after a swap was sent, a failure leaves it unknown."""
    with ExitStack() as stack:
        try:
            catalog = stack.enter_context(released(connections.open_catalog()))
            table = load_table(catalog, intent.identifier)
        except SluiceError as error:
            raise (_unknown(intent, error) if is_sent else error) from error
        if table is None:
            raise fault("table-gone.during-commit", table=intent.identifier)
        yield catalog, table


def _read_back(connections: CatalogAccess, intent: Intent, failure: Exception, retries: int) -> Committed:
    """Look for the attempt several times; an unavailable catalog is retried.

    What is not seen then is unknown; a refusal is told as the one it is, and settled like all else.
    """
    is_seen = False
    for pause in READ_BACK_PAUSES_SECONDS:
        time.sleep(pause)
        with suppress(CommitStateUnknown), _loaded(connections, intent, is_sent=True) as (_, table):
            if (landed := _landed(table, intent.attempt, retries)) is not None:
                return landed
            is_seen = True
    told = refused_commit(failure, table=intent.identifier, attempt=intent.attempt) if is_seen else None
    raise (told or _unknown(intent, failure)) from failure


def _landed(table: Table, attempt: str, retries: int) -> Committed | None:
    progress = progress_of(table)
    if not progress.has_landed(attempt):
        return None
    # A catalog without history shows the newest snapshot only, which is or descends from the attempt's.
    snapshot_id = snapshot_of(table, attempt) or table.metadata.current_snapshot_id
    if snapshot_id is None:
        raise AssertionError("a loaded table has a snapshot")
    return Committed(snapshot_id, progress, table.metadata, retries)


def _pause(retries: int) -> None:
    longest = min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2**retries)
    time.sleep(longest * random.uniform(0.5, 1.0))  # noqa: S311  (spreads competing writers, guards nothing)


def _unknown(intent: Intent, failure: Exception) -> SluiceError:
    return fault(
        "commit-state-unknown", why=first_line(failure), table=intent.identifier, attempt=intent.attempt
    )
