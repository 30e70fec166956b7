"""Properties as options give them, ``KEY=VALUE``; a secret is a reference, or it is refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from spark_jobs.config.redaction import REFERENCE, is_secret_key
from spark_jobs.protocol.errors import SluiceError, fault

_AUTH = "auth."


def broker_properties(given: tuple[str, ...]) -> dict[str, str]:
    """Return librdkafka's properties."""
    properties = dict(_pairs(given, "--property"))
    for key, value in properties.items():
        if is_secret_key(key) and "${" not in value:
            raise _in_plain_text("--property", key)
    return properties


def registry_settings(url: str | None, given: tuple[str, ...]) -> dict[str, Any]:
    """Return what stands below a registry's name; nothing when nothing is said of it."""
    settings: dict[str, Any] = {"url": url} if url else {}
    for key, value in _pairs(given, "--registry-property"):
        if not key.startswith(_AUTH):
            settings[key] = value
            continue
        # What is written of a password is behind the last colon that is not within a reference.
        if REFERENCE.sub("", value).rpartition(":")[2] or not REFERENCE.search(value):
            raise _in_plain_text("--registry-property", key)
        settings.setdefault("auth", {})[key.removeprefix(_AUTH)] = value
    return settings


def _pairs(given: tuple[str, ...], option: str) -> Iterator[tuple[str, str]]:
    for pair in given:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise click.BadParameter("write KEY=VALUE", param_hint=option)
        yield key, value


def _in_plain_text(option: str, key: str) -> SluiceError:
    return fault("secret-in-file", option=option, key=key)
