"""Classification of storage errors: Arrow has one type for all of S3's, with details in text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from spark_jobs.protocol.errors import SluiceError, fault, without_signature

if TYPE_CHECKING:
    from pyiceberg.table import Table

# Google answers a token that ended, or never was one, by 401.
_EXPIRY = re.compile(
    r"ExceptionName: ExpiredToken|<Code>ExpiredToken</Code>|\(ExpiredToken\w*\) when"
    r"|UNAUTHENTICATED: |<Code>AuthenticationRequired</Code>"
)
_GOOGLES = re.compile(
    r"google::cloud::Status\((\w+: ).*?last message of"
    r" (?:Could not create a OAuth2.*?underlying error message was: )?(.*?) error_info=.*"
)
# Of files of credentials: Arrow has them among errors of arguments.
_NO_LOGIN = re.compile(r"Status\((?!UNAVAILABLE).*Could not create a OAuth2 access token")
# S3 answers an expired token with 400, and to HEAD, which has no body, with nothing else.
_REFUSAL = re.compile(
    r"AWS Error (?:ACCESS_DENIED|INVALID_ACCESS_KEY_ID|INVALID_CLIENT_TOKEN_ID|SIGNATURE_DOES_NOT_MATCH"
    rf"|UNKNOWN \(HTTP status 40[013]\))|Azure Error: \[\w*\] 40[13]|{_EXPIRY.pattern}"
)
# What Arrow asks Azure for of itself: it lists before it writes, and writes (a lease) before it deletes.
_AZURE_STEPS = {
    "put": re.compile(r"UploadFrom failed|acquire a lease"),
    "get": re.compile(r"GetProperties failed for"),
    "list": re.compile(r"ListBlobsByHierarchy failed|Failed to list"),
    "delete": re.compile(r"Failed to delete"),
}

_NO_BUCKET = re.compile(r"NO_SUCH_BUCKET|NoSuchBucket|ContainerNotFound")
_LONGEST = 400


def in_a_line(error: BaseException) -> str:
    """Return the error's text in one line."""
    text = " ".join(_told(error).split())
    return without_signature(_GOOGLES.sub(r"\1\2", text))[:_LONGEST]


def _told(error: BaseException) -> str:
    """Return the error's text; PyIceberg leaves out why access was denied."""
    is_bare = isinstance(error, PermissionError) and isinstance(error.__cause__, OSError)
    return str(error.__cause__ if is_bare else error)


def refused_step(error: BaseException) -> str | None:
    """Return what Azure refused (put, get, list or delete), whatever was to be done; None for others."""
    if "Azure Error" not in str(error) or not is_refusal(error):
        return None
    return next((step for step, words in _AZURE_STEPS.items() if words.search(str(error))), None)


def known_store_error(error: BaseException, doing: str, why: str, **where: object) -> SluiceError | None:
    """Return the error of a missing bucket, expired credentials or denied access; None for others."""
    if _EXPIRY.search(_told(error)):
        return fault("credentials-expired", doing=doing, why=why, **where)
    if _NO_BUCKET.search(str(error)):
        return fault("no-bucket", doing=doing, why=why, **where)
    if not is_refusal(error):
        return None
    return fault("storage-refused", doing=doing, why=why, **where)


def is_refusal(error: BaseException) -> bool:
    """True if the storage denied access; retrying with the same credentials cannot succeed."""
    is_told = isinstance(error, OSError) and _REFUSAL.search(str(error))
    return isinstance(error, PermissionError) or bool(is_told or _NO_LOGIN.search(str(error)))


def storage_error(error: OSError, doing: str, **where: object) -> SluiceError:
    """Return the error of a table's files: like ``known_store_error``, or ``storage-failed``.

    ``doing`` begins the message: "writing data files".
    """
    why = in_a_line(error)
    if (known := known_store_error(error, f"{doing} failed", why, **where)) is not None:
        return known
    return fault("storage-failed", doing=doing, type=type(error).__name__, why=why, **where)


def manifest_error(error: OSError, doing: str, table: Table) -> SluiceError:
    """Return the error of manifests: ``manifest-unreadable`` for a missing one, else ``storage_error``."""
    name = ".".join(table.name())
    if not isinstance(error, FileNotFoundError):
        return storage_error(error, doing, table=name)
    return fault("manifest-unreadable", why=error, table=name)


@contextmanager
def manifests_readable(table: Table) -> Iterator[None]:
    """Translate errors within the block; a missing manifest was replaced or expired meanwhile.

    Raises ``RetryableError`` then (``manifest-unreadable``), and ``storage_error`` for all else.
    """
    try:
        yield
    except OSError as error:
        raise manifest_error(error, "reading manifests", table) from error
