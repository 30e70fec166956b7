"""Opening and closing catalogs, and what their exceptions mean.

Always a new object: after an exception the old one may show what never committed. The settings are Sluice's
own; a ``.pyiceberg.yaml`` or ``PYICEBERG_*`` variables of the user's are not consulted.
"""

from __future__ import annotations

import logging
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError
from pyiceberg.catalog import (
    AVAILABLE_CATALOGS,
    PY_CATALOG_IMPL,
    CatalogType,
    infer_catalog_type,
    load_catalog,
)
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import (
    ForbiddenError,
    NoSuchPropertyException,
    OAuthError,
    UnauthorizedError,
)
from requests import RequestException
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, OperationalError

from spark_jobs.core.errors import ConfigError, RetryableError, SluiceError
from spark_jobs.io.rest_catalog import PatientRestCatalog

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyiceberg.catalog import Catalog

# Beyond SQLite's own 5 s: a checkpoint of the write-ahead log or a slow disk is no outage.
SQLITE_BUSY_TIMEOUT_SECONDS = 30
_SQLITE_OPEN_TRIES = 10
_SETTINGS_ERRORS = (
    KeyError,
    ValueError,
    ImportError,
    TypeError,
    ArgumentError,
    NoSuchModuleError,
    NoSuchPropertyException,
)

_log = logging.getLogger(__name__)


def open_catalog(name: str, properties: Mapping[str, str]) -> Catalog:
    """Connect with a new catalog object; ``properties`` are PyIceberg's, secrets resolved.

    Raises ``RetryableError`` when the catalog does not answer, ``ConfigError`` for settings that cannot work.
    """
    try:
        return _open(name, dict(properties))
    except SluiceError:
        raise
    except (RequestException, ValidationError) as error:
        raise catalog_error(error, "could not be opened", catalog=name) from error
    except _SETTINGS_ERRORS as error:
        raise ConfigError(
            f"the catalog's properties do not open a catalog: {first_line(error)}",
            code="catalog-settings",
            hint="Check the properties under `catalog:`; they are PyIceberg's names.",
            catalog=name,
        ) from error
    except Exception as error:
        raise catalog_error(error, "could not be opened", catalog=name) from error


def close_catalog(catalog: Catalog) -> None:
    """Release the catalog's connections; never raises, since what matters has been decided before."""
    try:
        catalog.close()
    except Exception:  # noqa: BLE001  (closing a broken connection may fail in any way)
        _log.debug("closing the catalog failed", exc_info=True)


def catalog_error(error: Exception, action: str, **where: object) -> SluiceError:
    """What a catalog's exception means for the caller, when it is known that nothing was committed."""
    message = f"the catalog {action}: {first_line(error)}"
    if isinstance(error, (UnauthorizedError, ForbiddenError, OAuthError)):
        return ConfigError(
            message,
            code="catalog-refused",
            hint="Check the catalog's credentials and that they may create and change tables.",
            **where,
        )
    return RetryableError(
        message,
        code="catalog-away",
        hint="Check that the catalog and its storage can be reached from here; the next run tries again.",
        **where,
    )


def first_line(error: Exception) -> str:
    """What an exception of a library says, for one line of ours."""
    lines = str(error).splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def _open(name: str, properties: dict[str, str]) -> Catalog:
    if PY_CATALOG_IMPL in properties:
        return load_catalog(name, **properties)
    kind = _kind(name, properties)
    if kind is None:
        raise ConfigError(
            "the catalog's kind cannot be told from its properties",
            code="catalog-settings",
            hint="Set `type` under `catalog:`, for example `sql` or `rest`.",
            catalog=name,
        )
    if kind is CatalogType.REST:
        return PatientRestCatalog(name, **properties)
    if kind is CatalogType.SQL and properties.get("uri", "").startswith("sqlite"):
        return _open_sqlite(name, properties)
    return AVAILABLE_CATALOGS[kind](name, properties)


def _kind(name: str, properties: dict[str, str]) -> CatalogType | None:
    if "type" in properties:
        return CatalogType(properties["type"].lower())
    return infer_catalog_type(name, {**properties})


def _open_sqlite(name: str, properties: dict[str, str]) -> Catalog:
    url = make_url(properties["uri"])
    if url.database is None or url.database == ":memory:":
        raise ConfigError(
            "a SQLite catalog in memory is gone when its process ends",
            code="catalog-in-memory",
            hint="Give a file: sqlite:////path/to/catalog.db.",
            catalog=name,
        )
    _prepare_sqlite(Path(url.database))
    url = url.update_query_dict({"timeout": str(SQLITE_BUSY_TIMEOUT_SECONDS)})
    properties["uri"] = url.render_as_string(hide_password=False)
    for tries_left in reversed(range(_SQLITE_OPEN_TRIES)):
        try:
            return SqlCatalog(name, **properties)
        except OperationalError:
            # Two processes that open a new file at once both create its tables; the second then finds them.
            if not tries_left:
                raise
            time.sleep(0.05)
    raise AssertionError("unreachable")


def _prepare_sqlite(path: Path) -> None:
    """Create the folder and switch the file to a write-ahead log, which lets a commit pass beside readers.

    In the default journal a reader makes COMMIT fail after 5 s with the transaction still open, and the same
    catalog object then shows the rows that were never committed.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path, timeout=SQLITE_BUSY_TIMEOUT_SECONDS)) as connection:
        (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        raise ConfigError(
            f"the SQLite catalog's file system does not allow a write-ahead log (journal mode {mode})",
            code="catalog-not-on-local-disk",
            hint="Keep the embedded catalog on a local disk, or use a catalog server.",
            path=path,
        )
