"""A table's new columns, when records carry fields it has none for, its sort order and its partitioning."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from pyiceberg.table.update import AssertTableUUID
from pyiceberg.types import IcebergType, ListType, MapType, StructType

from spark_jobs.lake.catalog import released
from spark_jobs.lake.catalog_errors import catalog_error, staging
from spark_jobs.lake.tables import load_table
from spark_jobs.protocol.errors import fault
from spark_jobs.schema.partitioning import held_names, order_to_set, partition_spec, partition_terms

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table, Transaction

    from spark_jobs.schema.evolution import Path

MAX_TRIES = 10


def evolve_table(
    open_catalog: Callable[[], Catalog], identifier: str, additions: Sequence[tuple[Path, IcebergType]]
) -> Table:
    """Add optional columns and return the table that has them all; neither snapshot nor progress changes.

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
    """Give the table the order by these columns and return it as it is then; files there stay as they are.

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
    """Partition what is written to the table from now on; without terms it stays as it is.

    Returns it as it is then. Raises as ``evolve_table``, and as ``partition_spec`` for terms that do not fit.
    """

    def staged(table: Table) -> Transaction | None:
        schema, there = table.schema(), table.spec()
        wanted = partition_spec(schema, partition_by, there)
        if not wanted.fields or partition_terms(schema, wanted) == partition_terms(schema, there):
            return None
        transaction = table.transaction()
        exchange_spec(schema, there, wanted, transaction)
        return transaction

    return _changed_if_any(open_catalog, table, staged)


def exchange_spec(
    schema: Schema, there: PartitionSpec, wanted: PartitionSpec, transaction: Transaction
) -> None:
    """Put the terms of one spec in the place of another's."""
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
    """Return the table as it is where nothing is ``staged`` on it: no catalog is asked then."""
    with staging(table):
        if staged(table) is None:
            return table
    return _changed(open_catalog, ".".join(table.name()), staged)


def refuse_held(table: Table, paths: Iterable[Path]) -> None:
    """Raise ``ConfigError`` where a new column is called as a field of the partitioning, now or before."""
    held = held_names(table.schema(), table.specs().values())
    if (name := next((each for each in map(".".join, paths) if each in held), None)) is not None:
        raise fault("column-clash.partitioning", table=".".join(table.name()), column=name)


def _changed(
    open_catalog: Callable[[], Catalog], identifier: str, staged: Callable[[Table], Transaction | None]
) -> Table:
    """Send what is ``staged`` on the table as it is, until that is nothing."""
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
        failure, "would not take the table's new columns or order", table=identifier
    ) from failure


def _try_send(catalog: Catalog, table: Table, transaction: Transaction) -> Exception | None:
    """Send the change once; whether it landed is seen on the table itself."""
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
    """False as well where a field on the way is no struct: values that do not fit it are no columns."""
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
