"""What an error of the storage means: Arrow has one kind for all of S3's, and tells the rest in words."""

from __future__ import annotations

import re

from spark_jobs.core.errors import ConfigError, RetryableError

_REFUSAL = re.compile(
    r"AWS Error (?:ACCESS_DENIED|INVALID_ACCESS_KEY_ID|INVALID_CLIENT_TOKEN_ID|SIGNATURE_DOES_NOT_MATCH"
    r"|UNKNOWN \(HTTP status 40[13]\))|ExceptionName: ExpiredToken"
)


def is_refusal(error: BaseException) -> bool:
    """Whether the storage refused what was asked, which only other rights or credentials mend."""
    return isinstance(error, PermissionError) or bool(
        isinstance(error, OSError) and _REFUSAL.search(str(error))
    )


def storage_error(error: OSError, doing: str, **where: object) -> ConfigError | RetryableError:
    """The error of a table's files for its caller: ``storage-refused``, or ``storage-failed``: try again.

    ``doing`` begins the message: "writing data files".
    """
    if is_refusal(error):
        return ConfigError(
            f"{doing} was refused: {error}",
            code="storage-refused",
            hint="Give Sluice the right to list, read, write and delete below the tables' locations, and"
            " credentials that have not expired.",
            **where,
        )
    return RetryableError(
        f"{doing} failed: {type(error).__name__}: {error}",
        code="storage-failed",
        hint="Check that the lake's storage can be reached from here, has room and may be written to; the"
        " next run tries again.",
        **where,
    )
