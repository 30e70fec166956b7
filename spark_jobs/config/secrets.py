"""Resolves ``${ENV}`` and ``${file:…}`` when a run starts, and takes what it resolved out of any text after.

The remembered values live in this process only and are never written. A value is remembered when a secret
could stand there: everything a reference gave except under plainly public keys, literals under secret keys,
and passwords inside URLs under any key.
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
        "client.region",
    }
)
_REGISTRY_URL = re.compile(r"registries\.\w+\.url")
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
        text = mask(secret, text)
    return text


def remember(secret: str) -> None:
    """Have ``scrub`` take this value out from now on."""
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
    """Return what the reference stands for now."""
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
    """A record's line without secrets: an error's text may carry what a broker or catalog was told."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the message; of an exception its traceback too."""
        return scrub(super().format(record))


def use_log_level() -> None:
    """Take over the level that the environment names, ``info`` without one. Raises ``ConfigError``."""
    level = os.environ.get(VARIABLE, "").lower() or "info"
    if level not in LEVELS:
        raise fault("log-level", level=level, levels=", ".join(LEVELS))
    for logger in _LOGGERS:
        logger.setLevel(level.upper())


@contextmanager
def told_by(handler: logging.Handler) -> Iterator[None]:
    """Give ``handler`` what Sluice says on its way, for as long as the body runs. Raises ``ConfigError``."""
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
