"""Tables: loading, properties and summaries of Sluice's commits, file locations, schema changes.

A change of shape is new columns, another sort order or partitioning: neither snapshot nor progress moves.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError
from pyiceberg.table.update import AssertTableUUID
from pyiceberg.types import IcebergType, ListType, MapType, StructType

from spark_jobs.config.settings import DEAD_LETTERS_SUFFIX
from spark_jobs.lake.catalog import catalog_error, refuse_remote_signing, released, staging
from spark_jobs.lake.moments import Moment, iso_of_ms
from spark_jobs.protocol.commit_summary import CommitSummary
from spark_jobs.protocol.errors import SluiceError, fault
from spark_jobs.protocol.progress import Progress, has_progress, progress_from_properties
from spark_jobs.schema.declared import order_to_set, partition_spec, partition_terms, reserved_names
from spark_jobs.storage.errors import storage_error

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table, Transaction
    from pyiceberg.table.snapshots import Snapshot

    from spark_jobs.schema.evolution import Path


def load_table(catalog: Catalog, identifier: str) -> Table | None:
    """Return the table's current state, or None if it does not exist.

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
    """True if the name is another writer's, or a table without rows; False if the lookup fails."""
    return error.code in {"foreign-table", "no-snapshot"}


def dead_letters_of(identifier: str) -> str:
    """Return the name of a table's dead-letter table."""
    return identifier + DEAD_LETTERS_SUFFIX


def progress_of(table: Table) -> Progress:
    """Return the table's progress; raises ``CorruptLog``."""
    return progress_from_properties(table.metadata.properties, table=".".join(table.name()))


def summary_of(snapshot: Snapshot | None) -> CommitSummary:
    """Return a snapshot's summary without its operation."""
    return CommitSummary(snapshot.summary.additional_properties if snapshot and snapshot.summary else {})


def snapshot_of(table: Table, attempt: str) -> int | None:
    """Return the id of the snapshot committed by the attempt.

    None when it has expired, or the catalog shows no history.
    """
    snapshots = reversed(table.metadata.snapshots)
    return next((s.snapshot_id for s in snapshots if summary_of(s).attempt == attempt), None)


# Which snapshot was main at a moment, also one that was rolled back since: for reading as of then.


def snapshot_at(table: Table, moment: Moment) -> Snapshot:
    """Return the snapshot with that id, or the main one at that time.

    Raises ``ConfigError``: ``no-history`` on a catalog that shows the newest snapshot only,
    ``no-such-snapshot`` when it has expired or never was.
    """
    snapshot_id = moment.snapshot_id if moment.snapshot_id is not None else _main_at(table, moment.at_ms or 0)
    snapshot = table.metadata.snapshot_by_id(snapshot_id) if snapshot_id is not None else None
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
    """True if several commits are kept, and not only the newest."""
    return len(table.metadata.snapshots) > 1 or not progress_of(table).last_commits


def _main_at(table: Table, at_ms: int) -> int | None:
    earlier = [entry for entry in table.metadata.snapshot_log if entry.timestamp_ms <= at_ms]
    return earlier[-1].snapshot_id if earlier else None


# Where a table's data files lie, and the one deletion of a file.


def data_location(table: Table) -> str:
    """Return the parent folder of the table's data files."""
    location = table.metadata.properties.get("write.data.path") or f"{table.location().rstrip('/')}/data"
    return location.rstrip("/")


def delete_file(table: Table, path: str) -> None:
    """Delete one file with the table's FileIO; a missing file is not an error.

    Raises ``ConfigError`` when deleting is refused, ``RetryableError`` when the storage does not answer.
    """
    try:
        table.io.delete(path)
    except FileNotFoundError:
        return  # another recovery was faster
    except OSError as error:
        raise storage_error(error, "deleting a file", file=path) from error


# Where the other tables of a catalog lie.


_PLACES = (
    "write.data.path",
    "write.metadata.path",
    "write.object-storage.path",
    "write.folder-storage.path",
)


def locations_of(table: Table) -> tuple[str, ...]:
    """Return all folders that the table may write to."""
    properties = table.metadata.properties
    return (table.location(), *(properties[name] for name in _PLACES if name in properties))


def locations_of_others(catalog: Catalog, *ours: str) -> dict[str, tuple[str, ...]]:
    """Return, by identifier, the locations of all other tables of the catalog.

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
        raise catalog_error(error, "could not show the location of another table", table=name) from error
    return found


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


# A table's new columns, when records carry fields it has none for, its sort order and its partitioning.


MAX_TRIES = 10


def evolve_table(
    open_catalog: Callable[[], Catalog], identifier: str, additions: Sequence[tuple[Path, IcebergType]]
) -> Table:
    """Add optional columns and return the table that has them; snapshot and progress do not change.

    A path names a field from the top; a list is passed through to its elements with or without
    ``element``. What is there already, by another run's doing too, stays as it is, of whatever type;
    nothing is added inside a field that is no struct. Raises ``RetryableError`` when other changes keep
    coming first or the catalog does not answer.
    """

    def staged(table: Table) -> Transaction | None:
        missing = [(path, kind) for path, kind in additions if _is_missing(table.schema(), path)]
        return _staged(table, missing) if missing else None

    return _changed(open_catalog, identifier, staged)


def set_sort_order(open_catalog: Callable[[], Catalog], table: Table, sort_by: Sequence[str]) -> Table:
    """Set the table's sort order by these columns and return it; existing files do not change.

    Raises as ``evolve_table``, and ``ConfigError`` (``sort-type``).
    """

    def staged(table: Table) -> Transaction | None:
        order = order_to_set(table.schema(), table.sort_order(), sort_by)
        if order is None:
            return None
        transaction = table.transaction()
        with transaction.update_sort_order() as update:
            for field in order.fields:
                name = table.schema().find_column_name(field.source_id)
                update.asc(str(name), field.transform, field.null_order)
        return transaction

    return _changed_if_any(open_catalog, table, staged)


def set_partitioning(open_catalog: Callable[[], Catalog], table: Table, partition_by: Sequence[str]) -> Table:
    """Set the partitioning of future writes; without terms it does not change.

    Returns it as it is then. Raises as ``evolve_table``, and as ``partition_spec`` for terms that do not fit.
    """

    def staged(table: Table) -> Transaction | None:
        schema, current = table.schema(), table.spec()
        declared = partition_spec(schema, partition_by, current)
        if not declared.fields or partition_terms(schema, declared) == partition_terms(schema, current):
            return None
        transaction = table.transaction()
        exchange_spec(schema, current, declared, transaction)
        return transaction

    return _changed_if_any(open_catalog, table, staged)


def exchange_spec(
    schema: Schema, there: PartitionSpec, wanted: PartitionSpec, transaction: Transaction
) -> None:
    """Replace the terms of one spec by those of another."""
    # Two updates: within one, PyIceberg still takes the name of a removed field for taken.
    with transaction.update_spec() as update:
        for field in there.fields:
            update.remove_field(field.name)
    with transaction.update_spec() as update:
        for field in wanted.fields:
            column = schema.find_column_name(field.source_id)
            update.add_field(column or "", field.transform, field.name)


def _changed_if_any(
    open_catalog: Callable[[], Catalog], table: Table, staged: Callable[[Table], Transaction | None]
) -> Table:
    """Return the table unchanged if nothing is ``staged`` on it, without a request to the catalog."""
    with staging(table):
        if staged(table) is None:
            return table
    return _changed(open_catalog, ".".join(table.name()), staged)


def refuse_held(table: Table, paths: Iterable[Path]) -> None:
    """Raise ``ConfigError`` if a new column has the name of a current or earlier partition field."""
    held = reserved_names(table.schema(), table.specs().values())
    if (name := next((each for each in map(".".join, paths) if each in held), None)) is not None:
        raise fault("column-clash.partitioning", table=".".join(table.name()), column=name)


def _changed(
    open_catalog: Callable[[], Catalog], identifier: str, staged: Callable[[Table], Transaction | None]
) -> Table:
    """Send the changes ``staged`` on the current table until none are left."""
    failure: Exception | None = None
    for attempt in range(MAX_TRIES):
        time.sleep(0.05 * attempt)
        with released(open_catalog()) as catalog:
            table = load_table(catalog, identifier)
            if table is None:
                raise fault("table-gone", table=identifier)
            with staging(table):
                transaction = staged(table)
            if transaction is None:
                return table
            failure = _try_send(catalog, table, transaction)
    if failure is None:
        raise fault("evolution-not-seen", table=identifier)
    raise catalog_error(
        failure, "did not accept the table's new columns or sort order", table=identifier
    ) from failure


def _try_send(catalog: Catalog, table: Table, transaction: Transaction) -> Exception | None:
    """Send the change once; the table itself shows if it was committed."""
    requirements = (*transaction._requirements, AssertTableUUID(uuid=table.metadata.table_uuid))  # noqa: SLF001  (see swap.py)
    try:
        catalog.commit_table(table, requirements, transaction._updates)  # noqa: SLF001  (see swap.py)
    except Exception as error:  # noqa: BLE001  (the outcome is unknown whatever it was: look again)
        return error
    return None


def _staged(table: Table, missing: Sequence[tuple[Path, IcebergType]]) -> Transaction:
    refuse_held(table, (path for path, _ in missing))
    transaction = table.transaction()
    with transaction.update_schema() as update:
        for path, kind in missing:
            update.add_column(path, kind)
    return transaction


def _is_missing(schema: Schema, path: tuple[str, ...]) -> bool:
    """True if the path is missing; False if a parent is not a struct: its values do not fit anyway."""
    kind: IcebergType = schema.as_struct()
    for name in path:
        if isinstance(kind, ListType):
            kind = kind.element_type
            if name == "element":
                continue
        elif isinstance(kind, MapType):
            kind = kind.value_type
            if name == "value":
                continue
        if not isinstance(kind, StructType):
            return False
        field = next((f for f in kind.fields if f.name == name), None)
        if field is None:
            return True
        kind = field.field_type
    return False
