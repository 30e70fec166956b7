"""The other tables of a catalog: where they lie, and which are leftovers of a creator that died."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyiceberg.exceptions import NoSuchTableError

from spark_jobs.lake.catalog_errors import catalog_error
from spark_jobs.protocol.errors import SluiceError
from spark_jobs.protocol.progress import has_progress

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

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
