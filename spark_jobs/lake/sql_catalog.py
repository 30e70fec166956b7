"""Catalogs in a database, SQLite above all: imported only where there is one."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from pyiceberg.catalog.sql import SqlCatalog
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, OperationalError

from spark_jobs.lake.catalog_errors import settings_error
from spark_jobs.protocol.errors import ConfigError
from spark_jobs.storage.paths import is_local, normalise_path

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

# Beyond SQLite's own 5 s: a checkpoint of the write-ahead log or a slow disk is no outage.
SQLITE_BUSY_TIMEOUT_SECONDS = 30
_SQLITE_OPEN_TRIES = 10
_SQLITE_PAUSE_SECONDS = 0.05


def open_sql_catalog(name: str, properties: dict[str, str]) -> Catalog:
    """Connect with a new catalog object; raises ``ConfigError`` for an address that names no database."""
    try:
        if properties.get("uri", "").startswith("sqlite"):
            return _open_sqlite(name, properties)
        return SqlCatalog(name, **properties)
    except (ArgumentError, NoSuchModuleError) as error:
        raise settings_error(error, name) from error


def _open_sqlite(name: str, properties: dict[str, str]) -> Catalog:
    url = make_url(properties["uri"])
    if url.database is None or url.database == ":memory:":
        raise ConfigError(
            "a SQLite catalog in memory is gone when its process ends",
            code="catalog-in-memory",
            hint="Give a file: sqlite:////path/to/catalog.db.",
            catalog=name,
        )
    path = Path(url.database)
    if not path.exists() and _holds_tables(properties.get("warehouse", "")):
        raise ConfigError(
            "the SQLite catalog's file is gone, and its warehouse holds tables",
            code="catalog-missing",
            hint=f"Put {path} back from a backup: no other file knows the tables. To begin anew beside what"
            " lies in the warehouse, make an empty file there.",
            path=path,
            warehouse=properties["warehouse"],
        )
    _prepare_sqlite(path)
    url = url.update_query_dict({"timeout": str(SQLITE_BUSY_TIMEOUT_SECONDS)})
    properties["uri"] = url.render_as_string(hide_password=False)
    for tries_left in reversed(range(_SQLITE_OPEN_TRIES)):
        try:
            return SqlCatalog(name, **properties)
        except OperationalError:
            # Two processes that open a new file at once both create its tables; the second then finds them.
            if not tries_left:
                raise
            time.sleep(_SQLITE_PAUSE_SECONDS)
    raise AssertionError("unreachable")


def _holds_tables(warehouse: str) -> bool:
    """True if tables lie in a warehouse on this machine's disk, which an empty catalog would not know.

    An object store is not asked: what would have to be listed there has no bound.
    """
    return is_local(warehouse) and any(Path(normalise_path(warehouse)).rglob("*.metadata.json"))


def _prepare_sqlite(path: Path) -> None:
    """Create the folder and switch the file to a write-ahead log, which lets a commit pass beside readers.

    In the default journal a reader makes COMMIT fail after 5 s with the transaction still open, and the same
    catalog object then shows the rows that were never committed.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    mode = _journal_switched(path)
    if mode != "wal":
        raise ConfigError(
            f"the SQLite catalog's file system does not allow a write-ahead log (journal mode {mode})",
            code="catalog-not-on-local-disk",
            hint="Keep the embedded catalog on a local disk, or use a catalog server.",
            path=path,
        )


def _journal_switched(path: Path) -> str:
    """Return the journal's mode after the switch; waits for another process that is just making the file."""
    deadline = time.monotonic() + SQLITE_BUSY_TIMEOUT_SECONDS
    while True:
        try:
            with closing(sqlite3.connect(path, timeout=SQLITE_BUSY_TIMEOUT_SECONDS)) as connection:
                (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
            return str(mode)
        except sqlite3.OperationalError as error:
            # Where somebody is about to write, the switch is refused at once, whatever the time-out.
            if error.sqlite_errorname != "SQLITE_BUSY" or time.monotonic() >= deadline:
                raise
            time.sleep(_SQLITE_PAUSE_SECONDS)
