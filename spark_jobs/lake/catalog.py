"""Opens and closes catalogs, and classifies their exceptions: settings, a refusal, or an outage.

Always a new object: after an exception the old one may show what never committed. The settings are Sluice's
own; a ``.pyiceberg.yaml`` or ``PYICEBERG_*`` variables of the user's are not consulted.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING

from pydantic import ValidationError as InvalidAnswer
from pyiceberg.catalog import (
    AVAILABLE_CATALOGS,
    PY_CATALOG_IMPL,
    Catalog,
    CatalogType,
    infer_catalog_type,
    load_catalog,
)
from pyiceberg.exceptions import (
    ForbiddenError,
    NoSuchPropertyException,
    NotInstalledError,
    OAuthError,
    ResolveError,
    RESTError,
    UnauthorizedError,
    ValidationError,
    ValidationException,
)
from requests import RequestException

from spark_jobs.lake.glue_catalog import open_glue_catalog
from spark_jobs.lake.rest_catalog import PatientRestCatalog
from spark_jobs.protocol.errors import ConfigError, SluiceError, fault, first_line
from spark_jobs.storage import file_io  # noqa: F401  (what PyIceberg then opens locations with)
from spark_jobs.storage.errors import known_store_error, manifest_error

if TYPE_CHECKING:
    from pyiceberg.table import Table


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
    """Connect with a new catalog object; ``properties`` are PyIceberg's, with secrets resolved.

    Raises ``RetryableError`` when the catalog does not answer, ``ConfigError`` for settings that cannot work.
    """
    try:
        return _open(name, dict(properties))
    except SluiceError:
        raise
    except (RequestException, InvalidAnswer) as error:
        raise catalog_error(error, "could not be opened", catalog=name) from error
    except _SETTINGS_ERRORS as error:
        lacks_driver = isinstance(error, NotInstalledError | ImportError)
        raise fault(
            "catalog-settings.driver" if lacks_driver else "catalog-settings",
            why=first_line(error),
            catalog=name,
        ) from error
    except Exception as error:
        raise catalog_error(error, "could not be opened", catalog=name) from error


@contextmanager
def released(catalog: Catalog) -> Iterator[Catalog]:
    """Yield the catalog, then release its connections: tables loaded through it stay readable."""
    try:
        yield catalog
    finally:
        close_catalog(catalog)


def close_catalog(catalog: Catalog) -> None:
    """Release the catalog's connections; never raises, as results are already decided."""
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
    if kind is CatalogType.GLUE:
        return open_glue_catalog(name, properties)
    return AVAILABLE_CATALOGS[kind](name, properties)


# What the exceptions of a catalog mean, and of what is made for it: settings, a refusal, or an outage.


# Postgres before a session begins, where its driver knows no more than the words, and in one.
_POSTGRES_REFUSAL = re.compile(r"authentication failed|no pg_hba\.conf entry|role .* does not exist")
_NOT_PERMITTED = "42501"
_AWS_REFUSAL = re.compile(
    r"\((AccessDenied|UnrecognizedClient|InvalidClientTokenId|InvalidSignature|IncompleteSignature)\w*\) when"
    r"|Unable to locate credentials"
)
_AWS_SAME_AGAIN = re.compile(r"\((InvalidInput|Validation)\w*\) when")
_NO_STAGING = re.compile(r"stag\w*[- ]?creat", re.IGNORECASE)
_WORTH_ANOTHER_TRY = frozenset({401, 408, 409, 412, 419, 421, 423, 425, 429})
# What a library raises of values, columns and partitions as they are. Drivers' own are none of these.
_SAME_AGAIN = (
    ArithmeticError,
    AttributeError,
    LookupError,
    NotInstalledError,
    ResolveError,
    RuntimeError,
    TypeError,
    ValidationError,
    ValidationException,
    ValueError,
)


def catalog_error(error: Exception, action: str, **where: object) -> SluiceError:
    """Return the error for a catalog's exception when nothing was committed."""
    description = _describe(error)
    if isinstance(error, (UnauthorizedError, ForbiddenError, OAuthError)) or _is_refused(error):
        return fault("catalog-refused", action=action, why=description, **where)
    if isinstance(error, RESTError) and _NO_STAGING.search(description):
        return fault("catalog-creates-in-steps", why=description, **where)
    if (known := known_store_error(error, f"the catalog {action}", description, **where)) is not None:
        return known
    if isinstance(error, FileNotFoundError):
        return fault("metadata-gone", action=action, why=description, **where)
    if _is_final(error):
        return fault("request-refused", action=action, why=description, **where)
    return fault("catalog-away", action=action, why=description, **where)


def refused_commit(error: Exception, **where: object) -> ConfigError | None:
    """Return the error of a commit that would always be refused; None for others.

    No answer proves that it did not land: who asks has looked for it in the table.
    """
    refusal = catalog_error(error, "did not accept the commit, according to the table", **where)
    is_of_login = isinstance(error, UnauthorizedError | OAuthError)  # the next one has another token
    return refusal if isinstance(refusal, ConfigError) and not is_of_login else None


def creation_error(error: Exception, **where: object) -> SluiceError:
    """Return the error of a table's creation, including PyIceberg's checks before its request."""
    if isinstance(error, _SAME_AGAIN) and not isinstance(error, OSError | InvalidAnswer):
        return fault("cannot-commit", why=first_line(error), **where)
    return catalog_error(error, "could not create the table", **where)


@contextmanager
def staging(table: Table) -> Iterator[None]:
    """Name errors while a commit is being prepared, before the catalog knows of it.

    Raises ``ConfigError`` (``cannot-commit``) for what fails again in the same way; the errors of manifests
    for what storage answers, ``catalog_error`` for what a driver does.
    """
    name = ".".join(table.name())
    try:
        yield
    except (SluiceError, AssertionError):
        raise
    except OSError as error:
        raise manifest_error(error, "writing manifests", table) from error
    except _SAME_AGAIN as error:
        raise fault("cannot-commit", why=first_line(error), table=name) from error
    except Exception as error:
        raise catalog_error(error, "could not accept the commit's manifests", table=name) from error


def _describe(error: Exception) -> str:
    if not isinstance(error, InvalidAnswer):
        return first_line(error)
    first = error.errors(include_input=False)[0]
    return f"its answer has an unexpected form: {'.'.join(map(str, first['loc']))} {first['msg']}"


def _is_final(error: Exception) -> bool:
    """True if the same request always gets the same answer: not expired logins, conflicts or timeouts."""
    if isinstance(error, InvalidAnswer):
        return error.errors(include_input=False)[0]["type"] != "json_invalid"  # that may be half an answer
    if _AWS_SAME_AGAIN.search(str(error)):
        return True
    if not isinstance(error, RESTError):
        return isinstance(error, _SAME_AGAIN) and not isinstance(error, OSError)
    status = getattr(getattr(error.__cause__, "response", None), "status_code", HTTPStatus.BAD_GATEWAY)
    return status < HTTPStatus.INTERNAL_SERVER_ERROR and status not in _WORTH_ANOTHER_TRY


def _is_refused(error: Exception) -> bool:
    if _AWS_REFUSAL.search(str(error)):
        return True
    driver = getattr(error, "orig", None)  # SQLAlchemy's, which need not be installed here
    if driver is None:
        return False
    return getattr(driver, "pgcode", None) == _NOT_PERMITTED or bool(_POSTGRES_REFUSAL.search(str(driver)))


def refuse_remote_signing(properties: Mapping[str, str], **where: object) -> None:
    """Raise ``ConfigError`` (``remote-signing``) if a catalog would sign each storage request."""
    if properties.get("s3.signer") or properties.get("s3.remote-signing-enabled", "").lower() == "true":
        raise fault("remote-signing", **where)
