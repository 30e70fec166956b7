"""Which keys' rows a batch changed: for who keeps copies of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.table import FileScanTask

from spark_jobs.lake.data_files import to_scanned_file
from spark_jobs.lake.file_rows import rows_of_file
from spark_jobs.schema.change_columns import ROW_ID
from spark_jobs.storage.errors import storage_error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.table import Table

    from spark_jobs.protocol.batch import WrittenFile


def keys_in(table: Table, files: Sequence[WrittenFile], *, most: int) -> list[str] | None:
    """Return the keys of a batch's events in order, of its files; None where there are more than ``most``.

    None also where one of the files is not there any more. Raises ``RetryableError`` when storage fails.
    """
    keys: set[str] = set()
    schema = table.schema().select(ROW_ID)
    for file in files:
        try:
            for rows in rows_of_file(table.io, FileScanTask(to_scanned_file(file)), schema):
                keys.update(rows.column(ROW_ID).unique().to_pylist())
                if len(keys) > most:
                    return None
        except FileNotFoundError:
            return None
        except OSError as error:
            raise storage_error(error, "reading a batch's keys", file=file.path) from error
    return sorted(keys)
