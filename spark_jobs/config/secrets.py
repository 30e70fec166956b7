"""Resolution of ``${ENV}`` and ``${file:…}``, masking of secrets in text, and the log level.

Remembered values live only in this process and are never written. A value is remembered if it may be secret:
reference values except under public keys, literals under secret keys, and passwords in URLs under any key.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from spark_jobs import WITHIN
from spark_jobs.config.redaction import FILE, REFERENCE, is_identity_key, is_secret_key, mask, url_passwords
from spark_jobs.protocol.errors import fault

_PUBLIC_KEYS = frozenset(
    {
        "bootstrap.servers",
        "uri",
        "spark.remote",
        "warehouse",
        "type",
        "s3.endpoint",
        "s3.region",
        "gcs.service.host",
        "client.region",
    }
)
_REGISTRY_URL = re.compile(r"registries\.\w+\.url")
_MIN_SECRET_LENGTH = 4

_remembered: set[str] = set()


def resolve(properties: Mapping[str, str]) -> dict[str, str]:
    """Return a copy with every reference replaced by its current value.

    Raises ``ConfigError`` (``missing-secret``) naming the key and the reference, never a value.
    """
    return {key: _resolve(key, value) for key, value in properties.items()}


def scrub(text: str) -> str:
    """Return the text with every remembered value masked, also in URL-encoded form."""
    for secret in sorted(_remembered, key=len, reverse=True):
        text = mask(secret, text)
    return text


def remember(secret: str) -> None:
    """Remember a value, so that ``scrub`` masks it."""
    if len(secret) >= _MIN_SECRET_LENGTH:
        _remembered.update({secret, quote(secret, safe=""), quote(secret)})


def _resolve(key: str, value: str) -> str:
    given = {reference: _read(key, reference) for reference in REFERENCE.findall(value)}
    resolved = REFERENCE.sub(lambda match: given[match[1]], value)
    secrets = set(url_passwords(resolved))
    if not (key in _PUBLIC_KEYS or is_identity_key(key) or _REGISTRY_URL.fullmatch(key)):
        secrets |= set(given.values())
    if is_secret_key(key):
        secrets.add(resolved)
    for secret in secrets:
        remember(secret)
    return resolved


def _read(key: str, reference: str) -> str:
    """Return the current value of the reference."""
    try:
        if reference.startswith(FILE):
            return Path(reference.removeprefix(FILE)).read_text(encoding="utf-8").rstrip("\r\n")
        return os.environ[reference]
    except KeyError:
        raise fault("missing-secret", name=reference, key=key) from None
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise fault("missing-secret.file", name=reference.removeprefix(FILE), why=why, key=key) from None


# How much is told: one level for the command line, Dagster's runs and librdkafka.


VARIABLE = "SLUICE_LOG_LEVEL"
LEVELS = ("debug", "info", "warning", "error")
_TOLD = ("spark_jobs", "resources", "gateway", "serving")
_LOGGERS = tuple(logging.getLogger(f"{WITHIN}{name}") for name in _TOLD)


class ScrubbedLines(logging.Formatter):
    """Log formatter that masks secrets, which an error's text may contain."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the message, with the traceback of an exception."""
        return scrub(super().format(record))


def use_log_level() -> None:
    """Set the log level of the environment, ``info`` by default. Raises ``ConfigError``."""
    level = os.environ.get(VARIABLE, "").lower() or "info"
    if level not in LEVELS:
        raise fault("log-level", level=level, levels=", ".join(LEVELS))
    for logger in _LOGGERS:
        logger.setLevel(level.upper())


@contextmanager
def log_to(handler: logging.Handler) -> Iterator[None]:
    """Attach ``handler`` to Sluice's log within the block. Raises ``ConfigError``."""
    before = [logger.level for logger in _LOGGERS]
    handler.setFormatter(ScrubbedLines())
    for logger in _LOGGERS:
        logger.addHandler(handler)
    try:
        use_log_level()
        yield
    finally:
        for logger, level in zip(_LOGGERS, before, strict=True):
            logger.removeHandler(handler)
            logger.setLevel(level)
