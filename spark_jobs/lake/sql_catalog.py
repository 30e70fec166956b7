"""Catalogs in a database, SQLite or Postgres; imported only if one is configured."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from pyiceberg.catalog.sql import SqlCatalog
from sqlalchemy.engine import make_url
from sqlalchemy.exc import (
    ArgumentError,
    IntegrityError,
    NoSuchModuleError,
    OperationalError,
    ProgrammingError,
)

from spark_jobs.protocol.errors import fault, first_line, needs
from spark_jobs.storage.paths import is_local, normalise_path

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import CreateTableTransaction
    from pyiceberg.typedef import Identifier

# PyIceberg's own choice; SQLAlchemy's for a bare ``postgresql://`` is another.
POSTGRES_DRIVER = "postgresql+psycopg2"
# Beyond SQLite's own 5 s: a checkpoint of the write-ahead log or a slow disk is no outage.
SQLITE_BUSY_TIMEOUT_SECONDS = 30
# A server that went away without a word is noticed by these; libpq would wait for hours, or for ever.
_POSTGRES_PATIENCE = {
    "connect_timeout": "10",
    "tcp_user_timeout": "60000",
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "options": "-c statement_timeout=60s",
}
_OPEN_TRIES = 10
_PAUSE_SECONDS = 0.05


class NestingSqlCatalog(SqlCatalog):
    """PyIceberg's, which can begin a table's creation in a namespace inside another one too."""

    def create_table_transaction(
        self, identifier: str | Identifier, *terms: Any, **named: Any
    ) -> CreateTableTransaction:
        """Begin a creation: the database has a namespace's whole path as one text."""
        *namespace, name = self.identifier_to_tuple(identifier)
        return super().create_table_transaction((".".join(namespace), name), *terms, **named)


def open_sql_catalog(name: str, properties: dict[str, str]) -> Catalog:
    """Connect with a new catalog object; raises ``ConfigError`` for an address without a database."""
    try:
        uri = properties.get("uri", "")
        if uri.startswith("sqlite"):
            return _open_sqlite(name, properties)
        if uri.startswith("postgresql"):
            return _open_postgres(name, properties)
        return NestingSqlCatalog(name, **properties)
    except (ArgumentError, NoSuchModuleError) as error:
        raise fault("catalog-settings", why=first_line(error), catalog=name) from error


def _open_sqlite(name: str, properties: dict[str, str]) -> Catalog:
    url = make_url(properties["uri"])
    if url.database is None or url.database == ":memory:":
        raise fault("catalog-in-memory", catalog=name)
    path = Path(url.database)
    if not path.exists() and _holds_tables(properties.get("warehouse", "")):
        raise fault("catalog-missing", path=path, warehouse=properties["warehouse"])
    _prepare_sqlite(path)
    url = url.update_query_dict({"timeout": str(SQLITE_BUSY_TIMEOUT_SECONDS)})
    properties["uri"] = url.render_as_string(hide_password=False)
    return _opened(name, properties, OperationalError)


def _open_postgres(name: str, properties: dict[str, str]) -> Catalog:
    """Connect by the driver of the extra ``postgres``, unless the address names another."""
    url = make_url(properties["uri"])
    if url.drivername == "postgresql":
        url = url.set(drivername=POSTGRES_DRIVER)
    if url.drivername == POSTGRES_DRIVER:
        with needs("postgres"):
            import psycopg2  # noqa: F401, PLC0415
        # An empty one is no part of what SQLAlchemy reads, and says that a pooler takes none.
        written = parse_qs(urlsplit(properties["uri"]).query, keep_blank_values=True)
        missing = {key: value for key, value in _POSTGRES_PATIENCE.items() if key not in written}
        url = url.update_query_dict(missing)
    properties["uri"] = url.render_as_string(hide_password=False)
    return _opened(name, properties, IntegrityError, ProgrammingError)


def _opened(name: str, properties: dict[str, str], *crowded: type[Exception]) -> Catalog:
    """Open the catalog; two processes may create a new database: the second uses its tables."""
    for tries_left in reversed(range(_OPEN_TRIES)):
        try:
            return NestingSqlCatalog(name, **properties)
        except crowded:
            if not tries_left:
                raise
            time.sleep(_PAUSE_SECONDS)
    raise AssertionError("unreachable")


def _holds_tables(warehouse: str) -> bool:
    """True if a warehouse on a local disk contains tables, which an empty catalog would not know.

    An object store is not asked: what would have to be listed there has no bound.
    """
    return is_local(warehouse) and any(Path(normalise_path(warehouse)).rglob("*.metadata.json"))


def _prepare_sqlite(path: Path) -> None:
    """Create the folder and enable SQLite's write-ahead log, so that commits do not block readers.

    In the default journal a reader makes COMMIT fail after 5 s with the transaction still open, and the same
    catalog object then shows the rows that were never committed.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    mode = _journal_switched(path)
    if mode != "wal":
        raise fault("catalog-not-on-local-disk", mode=mode, path=path)


def _journal_switched(path: Path) -> str:
    """Return the journal mode after the switch; waits for another process that is creating the file."""
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
            time.sleep(_PAUSE_SECONDS)
