"""Which configuration keys hold secrets, and how values are shown instead. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import unquote

if TYPE_CHECKING:
    from collections.abc import Mapping

MASK = "***"

_SECRET_WORDS = re.compile(
    r"password|passwd|passphrase|secret|token|credential|api[._-]?key|access[._-]?key|account[._-]?key|private[._-]?key"
    r"|sas[._-]|connection[._-]?string|jaas|authorization|userinfo|basic\.auth|keystore.*pem|\.key$|^key$|key\.pem",
    re.IGNORECASE,
)
_NOT_SECRET = re.compile(
    r"(token[._-](endpoint|uri|type)|endpoint\.url|token-refresh-enabled|location$)", re.IGNORECASE
)
_REFERENCES_ONLY = re.compile(r"(\$\{[^}]*\})+")
_USERINFO = re.compile(r"(?<=://)([^/@\s:]*):([^/@\s]+)(?=@)")


def is_secret_key(key: str) -> bool:
    """Whether values of this property (Kafka's, a catalog's, Spark's) must never be shown."""
    return bool(_SECRET_WORDS.search(key)) and not _NOT_SECRET.search(key)


def url_passwords(value: str) -> tuple[str, ...]:
    """Passwords written into URLs (``scheme://user:password@host``), as written and percent-decoded."""
    found = [match[2] for match in _USERINFO.finditer(value)]
    return tuple(dict.fromkeys([*found, *map(unquote, found)]))


def redact_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """A copy fit to be shown; unresolved ``${…}`` references stay, they name a place and hold nothing."""
    return {key: redact_value(key, value) for key, value in properties.items()}


def redact_value(key: str, value: str) -> str:
    """The value, or a mask where the key is secret; passwords inside URLs are masked under any key."""
    if is_secret_key(key) and not _REFERENCES_ONLY.fullmatch(value):
        return MASK
    return _USERINFO.sub(rf"\1:{MASK}", value)
