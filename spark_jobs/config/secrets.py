"""Resolves ``${ENV}`` and ``${file:…}`` when a run starts, and takes what it resolved out of any text after.

The remembered values live in this process only and are never written. A value is remembered when a secret
could stand there: everything a reference gave except under plainly public keys, literals under secret keys,
and passwords inside URLs under any key.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from spark_jobs.config.property_references import substitute
from spark_jobs.config.redaction import MASK, is_secret_key, url_passwords
from spark_jobs.protocol.errors import ConfigError

_PUBLIC_KEYS = frozenset(
    {
        "bootstrap.servers",
        "uri",
        "warehouse",
        "type",
        "s3.endpoint",
        "s3.region",
        "client.region",
        "client.id",
        "group.id",
    }
)
# Shorter ones stand in every other word: masking them would destroy the text and show them by its holes.
_MIN_SECRET_LENGTH = 4

_remembered: set[str] = set()


def resolve(properties: Mapping[str, str]) -> dict[str, str]:
    """Return a copy with every reference replaced by its value, read now.

    Raises ``ConfigError`` (``missing-secret``) naming the key and the reference, never a value.
    """
    return {key: _resolve(key, value) for key, value in properties.items()}


def scrub(text: str) -> str:
    """Return the text with every remembered value masked, also where it stands URL-encoded."""
    for secret in sorted(_remembered, key=len, reverse=True):
        text = text.replace(secret, MASK)
    return text


def remember(secret: str) -> None:
    """Have ``scrub`` take this value out from now on."""
    if len(secret) >= _MIN_SECRET_LENGTH:
        _remembered.update({secret, quote(secret, safe=""), quote(secret)})


def _resolve(key: str, value: str) -> str:
    given: list[str] = []

    def environment(name: str) -> str:
        if name not in os.environ:
            raise _missing(
                key, f"the environment variable {name} is not set", f"Set {name} where Sluice runs."
            )
        given.append(os.environ[name])
        return given[-1]

    def file(path: str) -> str:
        try:
            given.append(Path(path).read_text(encoding="utf-8").rstrip("\r\n"))
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            raise _missing(
                key, f"{path} cannot be read: {reason}", "Check the file and its rights."
            ) from None
        return given[-1]

    resolved = substitute(value, environment, file)
    is_public = key in _PUBLIC_KEYS
    for secret in (
        *(() if is_public else given),
        *((resolved,) if is_secret_key(key) else ()),
        *url_passwords(resolved),
    ):
        remember(secret)
    return resolved


def _missing(key: str, message: str, hint: str) -> ConfigError:
    return ConfigError(message, code="missing-secret", hint=hint, key=key)
