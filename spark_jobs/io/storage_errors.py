"""What an error of the storage means: Arrow has one kind for all of S3's, and tells the rest in words."""

from __future__ import annotations

import re

_REFUSAL = re.compile(
    r"AWS Error (?:ACCESS_DENIED|INVALID_ACCESS_KEY_ID|INVALID_CLIENT_TOKEN_ID|SIGNATURE_DOES_NOT_MATCH"
    r"|UNKNOWN \(HTTP status 40[13]\))|ExceptionName: ExpiredToken"
)


def is_refusal(error: BaseException) -> bool:
    """Whether the storage refused what was asked, which only other rights or credentials mend."""
    return isinstance(error, PermissionError) or bool(
        isinstance(error, OSError) and _REFUSAL.search(str(error))
    )
