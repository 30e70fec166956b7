"""Loading tables, what their properties and snapshots say of Sluice's commits, and where their files lie."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

from spark_jobs.config.settings import DEAD_LETTERS_SUFFIX
from spark_jobs.lake.catalog_errors import catalog_error, refuse_remote_signing
from spark_jobs.lake.moments import Moment, iso_of_ms
from spark_jobs.protocol.commit_summary import CommitSummary
from spark_jobs.protocol.errors import SluiceError, fault
from spark_jobs.protocol.progress import Progress, has_progress, progress_from_properties
from spark_jobs.storage.errors import storage_error

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot


def load_table(catalog: Catalog, identifier: str) -> Table | None:
    """Return the table as it is now, or None when there is none.

    Raises ``ConfigError`` for a table that Sluice did not make or that its catalog signs for,
    ``SourceChanged`` for one without a snapshot, ``RetryableError`` when the catalog does not answer.
    """
    try:
        table = catalog.load_table(identifier)
    except (NoSuchTableError, NoSuchNamespaceError):
        return None
    except Exception as error:
        raise catalog_error(error, "could not load the table", table=identifier) from error
    if not has_progress(table.metadata.properties):
        raise fault("foreign-table", table=identifier)
    if table.metadata.current_snapshot_id is None:
        raise fault("no-snapshot", table=".".join(table.name()))
    refuse_remote_signing(table.io.properties, table=identifier)  # a REST server says it with each table
    return table


def is_no_table_of_ours(error: SluiceError) -> bool:
    """True if the name is another's, or of a table without a row: not if it could not be looked at."""
    return error.code in {"foreign-table", "no-snapshot"}


def dead_letters_of(identifier: str) -> str:
    """Return the name of a table's dead-letter table."""
    return identifier + DEAD_LETTERS_SUFFIX


def progress_of(table: Table) -> Progress:
    """Return the table's progress; raises ``CorruptLog``."""
    return progress_from_properties(table.metadata.properties, table=".".join(table.name()))


def summary_of(snapshot: Snapshot | None) -> CommitSummary:
    """Return what a snapshot's summary says beside its operation."""
    return CommitSummary(snapshot.summary.additional_properties if snapshot and snapshot.summary else {})


def snapshot_of(table: Table, attempt: str) -> int | None:
    """Return the id of the snapshot that the attempt's commit made.

    None when it has expired, or the catalog shows no history.
    """
    snapshots = reversed(table.metadata.snapshots)
    return next((s.snapshot_id for s in snapshots if summary_of(s).attempt == attempt), None)


# Which snapshot was main at a moment, also one that was rolled back since: for reading as of then.


def snapshot_at(table: Table, moment: Moment) -> Snapshot:
    """Return the snapshot of that id, or the one that was main at that time.

    Raises ``ConfigError``: ``no-history`` on a catalog that shows the newest snapshot only,
    ``no-such-snapshot`` when it has expired or never was.
    """
    wanted = moment.snapshot_id if moment.snapshot_id is not None else _main_at(table, moment.at_ms or 0)
    snapshot = table.metadata.snapshot_by_id(wanted) if wanted is not None else None
    if snapshot is not None:
        return snapshot
    if not keeps_history(table):
        raise fault("no-history.newest-only", table=".".join(table.name()))
    oldest = min(table.metadata.snapshots, key=lambda kept: kept.timestamp_ms)
    raise fault(
        "no-such-snapshot",
        oldest=oldest.snapshot_id,
        time=iso_of_ms(oldest.timestamp_ms),
        table=".".join(table.name()),
    )


def keeps_history(table: Table) -> bool:
    """True if there is more than the newest of several commits."""
    return len(table.metadata.snapshots) > 1 or not progress_of(table).last_commits


def _main_at(table: Table, at_ms: int) -> int | None:
    earlier = [entry for entry in table.metadata.snapshot_log if entry.timestamp_ms <= at_ms]
    return earlier[-1].snapshot_id if earlier else None


# Where a table's data files lie, and the one deletion of a file.


def data_location(table: Table) -> str:
    """Return the folder below which the table's data files are."""
    location = table.metadata.properties.get("write.data.path") or f"{table.location().rstrip('/')}/data"
    return location.rstrip("/")


def delete_file(table: Table, path: str) -> None:
    """Delete one file with the table's FileIO; one that is gone is no error.

    Raises ``ConfigError`` when deleting is refused, ``RetryableError`` when the storage does not answer.
    """
    try:
        table.io.delete(path)
    except FileNotFoundError:
        return  # another recovery was faster
    except OSError as error:
        raise storage_error(error, "deleting a file", file=path) from error


# The other tables of a catalog: where they lie, and which are leftovers of a creator that died.


_PLACES = (
    "write.data.path",
    "write.metadata.path",
    "write.object-storage.path",
    "write.folder-storage.path",
)


def locations_of(table: Table) -> tuple[str, ...]:
    """Return every folder the table may write to."""
    properties = table.metadata.properties
    return (table.location(), *(properties[name] for name in _PLACES if name in properties))


def locations_of_others(catalog: Catalog, *ours: str) -> dict[str, tuple[str, ...]]:
    """By identifier, the locations of every table of the catalog but ``ours``.

    Raises ``RetryableError`` when one cannot be loaded: it might lie anywhere.
    """
    found: dict[str, tuple[str, ...]] = {}
    name = ""
    try:
        for name in _all_tables(catalog):
            if name not in ours and (table := _load(catalog, name)) is not None:
                found[name] = locations_of(table)
    except SluiceError:
        raise
    except Exception as error:
        raise catalog_error(error, "could not show where another table lies", table=name) from error
    return found


def drop_stillborn(catalog: Catalog, identifier: str, *, before_ms: int) -> tuple[str, ...]:
    """Drop what creators of ``identifier`` that died left under private names; returns the names.

    Such a table has no row and last changed before ``before_ms`` (since the epoch).
    """
    namespace, _, name = identifier.rpartition(".")
    private = re.compile(rf"{re.escape(name)}-[0-9a-f]{{8}}")
    dropped: list[str] = []
    try:
        for parts in catalog.list_tables(namespace):
            table = _load(catalog, ".".join(parts)) if private.fullmatch(parts[-1]) else None
            if table is not None and _is_stillborn(table) and table.metadata.last_updated_ms < before_ms:
                catalog.purge_table(parts)
                dropped.append(".".join(parts))
    except Exception as error:
        raise catalog_error(error, "could not drop a table its creator left", table=identifier) from error
    return tuple(dropped)


def _is_stillborn(table: Table) -> bool:
    """Made by Sluice, or not even that far, and without a row."""
    snapshot = table.metadata.current_snapshot()
    if snapshot is None:
        return not table.metadata.snapshots
    rows = snapshot.summary["total-records"] if snapshot.summary else None
    return has_progress(table.metadata.properties) and rows in {None, "0"}


def _all_tables(catalog: Catalog) -> Iterator[str]:
    waiting = list(catalog.list_namespaces())
    while waiting:
        namespace = waiting.pop()
        waiting += [inner for inner in catalog.list_namespaces(namespace) if len(inner) > len(namespace)]
        yield from (".".join(parts) for parts in catalog.list_tables(namespace))


def _load(catalog: Catalog, identifier: str) -> Table | None:
    try:
        return catalog.load_table(identifier)
    except NoSuchTableError:
        return None  # dropped or renamed since it was listed
