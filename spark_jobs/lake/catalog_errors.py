"""What the exceptions of a catalog mean to the caller: settings, a refusal, or an outage."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pyiceberg.exceptions import ForbiddenError, NotInstalledError, OAuthError, UnauthorizedError

from spark_jobs.protocol.errors import ConfigError, RetryableError, SluiceError
from spark_jobs.storage.errors import UNEXPIRED, expired, is_expiry, is_refusal

# Postgres before a session begins, where its driver knows no more than the words, and in one.
_POSTGRES_REFUSAL = re.compile(r"authentication failed|no pg_hba\.conf entry|role .* does not exist")
_NOT_PERMITTED = "42501"


def catalog_error(error: Exception, action: str, **where: object) -> SluiceError:
    """Return what a catalog's exception means for the caller, when it is known that nothing was committed."""
    message = f"the catalog {action}: {first_line(error)}"
    if isinstance(error, (UnauthorizedError, ForbiddenError, OAuthError)) or _is_refused(error):
        return ConfigError(
            message,
            code="catalog-refused",
            hint="Check the catalog's credentials and that they may create and change tables.",
            **where,
        )
    if is_expiry(error):
        return expired(message, **where)
    if is_refusal(error):
        return ConfigError(
            message,
            code="storage-refused",
            hint=f"Give Sluice the right to read and write at the tables' locations, and {UNEXPIRED}.",
            **where,
        )
    return RetryableError(
        message,
        code="catalog-away",
        hint="Check that the catalog and its storage can be reached from here; the next run tries again.",
        **where,
    )


def _is_refused(error: Exception) -> bool:
    driver = getattr(error, "orig", None)  # SQLAlchemy's, which need not be installed here
    if driver is None:
        return False
    return getattr(driver, "pgcode", None) == _NOT_PERMITTED or bool(_POSTGRES_REFUSAL.search(str(driver)))


def first_line(error: Exception) -> str:
    """Return a library's exception as one line: its type and the first line it tells."""
    lines = str(error).splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def refuse_remote_signing(properties: Mapping[str, str], **where: object) -> None:
    """Raise ``ConfigError`` (``remote-signing``) where a catalog would sign each request to the storage."""
    if properties.get("s3.signer") or properties.get("s3.remote-signing-enabled", "").lower() == "true":
        raise ConfigError(
            "the catalog wants to sign the requests to its storage (s3.remote-signing-enabled, s3.signer)",
            code="remote-signing",
            hint="Have it hand out credentials with its tables instead (vended credentials), or give keys of"
            " the storage under `catalog:`; PyIceberg asks for a signer's token once and never again.",
            **where,
        )


def hive_error(name: str) -> ConfigError:
    """Return the error for a metastore that cannot hold what Sluice keeps with a table."""
    return ConfigError(
        "Hive's metastore is no catalog for Sluice: it may cut a table's properties off, which hold progress",
        code="hive-catalog",
        hint="Use a REST catalog, Postgres or SQLite: docs/CONFIG.md, catalog.",
        catalog=name,
    )


def settings_error(error: Exception, name: str) -> ConfigError:
    """Return the error for a catalog that could not even be set up."""
    if isinstance(error, NotInstalledError | ImportError):
        return ConfigError(
            f"the catalog's driver is not installed: {first_line(error)}",
            code="catalog-settings",
            hint="For Postgres say `extras: [postgres]`: the launcher installs it, elsewhere pip does from"
            " bootstrap/extra-postgres.txt. Other drivers are not tested.",
            catalog=name,
        )
    return ConfigError(
        f"the catalog's properties do not open a catalog: {first_line(error)}",
        code="catalog-settings",
        hint="Check the properties under `catalog:`; they are PyIceberg's names.",
        catalog=name,
    )
