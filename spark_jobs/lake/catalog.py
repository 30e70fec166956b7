"""Opening and closing catalogs, and what their exceptions mean.

Always a new object: after an exception the old one may show what never committed. The settings are Sluice's
own; a ``.pyiceberg.yaml`` or ``PYICEBERG_*`` variables of the user's are not consulted.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pydantic import ValidationError
from pyiceberg.catalog import (
    AVAILABLE_CATALOGS,
    PY_CATALOG_IMPL,
    CatalogType,
    infer_catalog_type,
    load_catalog,
)
from pyiceberg.exceptions import (
    ForbiddenError,
    NoSuchPropertyException,
    NotInstalledError,
    OAuthError,
    UnauthorizedError,
)
from requests import RequestException

from spark_jobs.lake.rest_catalog import PatientRestCatalog
from spark_jobs.protocol.errors import ConfigError, RetryableError, SluiceError
from spark_jobs.storage.errors import is_refusal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyiceberg.catalog import Catalog

_SETTINGS_ERRORS = (
    KeyError,
    ValueError,
    ImportError,
    TypeError,
    NoSuchPropertyException,
    NotInstalledError,
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
        raise settings_error(error, name) from error
    except Exception as error:
        raise catalog_error(error, "could not be opened", catalog=name) from error


def settings_error(error: Exception, name: str) -> ConfigError:
    """What it means that a catalog could not even be set up."""
    if isinstance(error, NotInstalledError | ImportError):
        return ConfigError(
            f"the catalog's driver is not installed: {first_line(error)}",
            code="catalog-settings",
            hint="Sluice installs what REST catalogs and SQLite need. Any other needs its driver in .venv"
            " and is not tested.",
            catalog=name,
        )
    return ConfigError(
        f"the catalog's properties do not open a catalog: {first_line(error)}",
        code="catalog-settings",
        hint="Check the properties under `catalog:`; they are PyIceberg's names.",
        catalog=name,
    )


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
    if is_refusal(error):
        return ConfigError(
            message,
            code="storage-refused",
            hint="Give Sluice the right to read and write at the tables' locations, and credentials that have"
            " not expired.",
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
    if kind is CatalogType.SQL:
        # SQLAlchemy: half a second that no other catalog's process need wait for.
        from spark_jobs.lake.sql_catalog import open_sql_catalog  # noqa: PLC0415

        return open_sql_catalog(name, properties)
    return AVAILABLE_CATALOGS[kind](name, properties)


def _kind(name: str, properties: dict[str, str]) -> CatalogType | None:
    if "type" in properties:
        return CatalogType(properties["type"].lower())
    return infer_catalog_type(name, {**properties})
