"""Opening and closing catalogs.

Always a new object: after an exception the old one may show what never committed. The settings are Sluice's
own; a ``.pyiceberg.yaml`` or ``PYICEBERG_*`` variables of the user's are not consulted.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pydantic import ValidationError
from pyiceberg.catalog import (
    AVAILABLE_CATALOGS,
    PY_CATALOG_IMPL,
    Catalog,
    CatalogType,
    infer_catalog_type,
    load_catalog,
)
from pyiceberg.exceptions import NoSuchPropertyException, NotInstalledError
from requests import RequestException

from spark_jobs.lake.catalog_errors import catalog_error, refuse_remote_signing, settings_error
from spark_jobs.lake.rest_catalog import PatientRestCatalog
from spark_jobs.protocol.errors import SluiceError, fault

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


@contextmanager
def released(catalog: Catalog) -> Iterator[Catalog]:
    """Give the catalog, then release its connections: tables loaded through it stay readable."""
    try:
        yield catalog
    finally:
        close_catalog(catalog)


def close_catalog(catalog: Catalog) -> None:
    """Release the catalog's connections; never raises, since what matters has been decided before."""
    try:
        catalog.close()
    except Exception:  # noqa: BLE001  (closing a broken connection may fail in any way)
        _log.debug("closing the catalog failed", exc_info=True)


def _open(name: str, properties: dict[str, str]) -> Catalog:
    if PY_CATALOG_IMPL in properties:
        return load_catalog(name, **properties)
    named = properties.get("type")
    kind = infer_catalog_type(name, {**properties}) if named is None else CatalogType(named.lower())
    if kind is None:
        raise fault("catalog-settings.untold", catalog=name)
    refuse_remote_signing(properties, catalog=name)
    if kind is CatalogType.HIVE:
        raise fault("hive-catalog", catalog=name)
    if kind is CatalogType.REST:
        return PatientRestCatalog(name, **properties)
    if kind is CatalogType.SQL:
        # SQLAlchemy: half a second that no other catalog's process need wait for.
        from spark_jobs.lake.sql_catalog import open_sql_catalog  # noqa: PLC0415

        return open_sql_catalog(name, properties)
    return AVAILABLE_CATALOGS[kind](name, properties)
