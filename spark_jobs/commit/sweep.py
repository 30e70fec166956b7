"""Deletion of the files of an attempt that can never land, as decided by recovery."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from spark_jobs.lake.named_files import named_of, unnamed_files
from spark_jobs.lake.tables import data_location, delete_file
from spark_jobs.protocol.errors import ConfigError
from spark_jobs.storage.create_only import find_files
from spark_jobs.storage.errors import storage_error
from spark_jobs.storage.paths import is_inside, normalise_path
from spark_jobs.txlog.entries import Attempt, FlushStart

if TYPE_CHECKING:
    from pyiceberg.table import Table

_log = logging.getLogger(__name__)


def sweep_files(
    attempt: Attempt,
    tables: Sequence[Table],
    *,
    before_delete: Callable[[], None],
    spared: Iterable[str] = (),
) -> int:
    """Delete the attempt's files that no snapshot or pending list references; return their number.

    ``tables`` were loaded after the offsets had passed the attempt's starts, the data table first: what moves
    from "owed" to "named" in between is then seen in one of the two. Below the folders ``spared`` nothing is
    deleted: a swap that names files there may still arrive.
    """
    found = _files_of(attempt, tables)
    files = [path for path in found if not any(is_inside(path, folder) for folder in spared)]
    return _delete_unnamed(files, tables, before_delete)


def sweep_prefix(table: Table, prefix: str) -> None:
    """Delete the table's files with this name prefix that no snapshot references and none ever will.

    The table was loaded after that had become certain.
    """
    _delete_unnamed(_find([data_location(table)], prefix, table), [table], lambda: None)


def _delete_unnamed(files: Sequence[str], tables: Sequence[Table], before_delete: Callable[[], None]) -> int:
    found = {normalise_path(path): path for path in files}
    named = frozenset[str]().union(*(named_of(table, frozenset(found)) for table in tables))
    doomed = unnamed_files(sorted(found), named)
    for deleted, path in enumerate(doomed):
        before_delete()
        try:
            delete_file(tables[0], found[path])
        except ConfigError as error:
            _log.warning("%s Orphan removal takes away %d files.", error, len(doomed) - deleted)
            return deleted
    return len(doomed)


def _files_of(attempt: Attempt, tables: Sequence[Table]) -> list[str]:
    """Return every file with the attempt's name, including those of failed tries and killed writers."""
    begun = attempt.entry(FlushStart)
    fragment = begun.file_prefix if begun else attempt.uuid
    logged = {begun.data_location, begun.dead_letter_location, *begun.routed_locations} if begun else set()
    locations = {data_location(table) for table in tables} | {place for place in logged if place}
    return _find(locations, fragment, tables[0])


def _find(locations: Iterable[str], fragment: str, table: Table) -> list[str]:
    properties = table.io.properties
    try:
        return [file.location for place in locations for file in find_files(place, fragment, properties)]
    except OSError as error:
        raise storage_error(error, "listing files", files=fragment) from error
