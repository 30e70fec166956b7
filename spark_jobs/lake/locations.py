"""Where a table's data files lie, and the one deletion of a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_jobs.storage.errors import storage_error

if TYPE_CHECKING:
    from pyiceberg.table import Table


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
