"""Where a registry is and who asks it: what the configuration says, its secrets resolved."""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from spark_jobs.config.redaction import is_bare_url
from spark_jobs.config.secrets import remember, resolve
from spark_jobs.config.settings import RegistrySettings
from spark_jobs.protocol.errors import ConfigError

_TOKEN = re.compile(r"[!-~]+")
# Before the first colon that is not within a reference.
_USER = re.compile(r"((?:\$\{[^}]*\}|[^:$])+):")


@dataclass(frozen=True, slots=True)
class RegistryAccess:
    """Where a registry is and who asks it, secrets resolved; ``headers`` hold them, ``user`` is in words."""

    name: str
    url: str
    user: str
    headers: dict[str, str] = field(repr=False)
    verify: str | bool
    certificate: tuple[str, str] | str | None
    timeout_seconds: float


def access_of(name: str, settings: RegistrySettings) -> RegistryAccess:
    """Resolve what the configuration says of a registry, now.

    Raises ``ConfigError`` (``missing-secret``, ``registry-access``), which shows no secret.
    """
    auth = settings.auth
    written = {
        "url": settings.url,
        "auth.basic": auth.basic.get_secret_value() if auth.basic else "",
        "auth.bearer": auth.bearer.get_secret_value() if auth.bearer else "",
    }
    given = resolve({f"registries.{name}.{key}": value for key, value in written.items() if value})
    url, basic, bearer = (given.get(f"registries.{name}.{key}", "") for key in written)
    if not _is_address(url):
        raise _unusable(name, "url", "it is no plain address")
    if auth.basic and not basic.partition(":")[1]:
        raise _unusable(name, "auth.basic", "it is not user:password")
    if auth.bearer and not _TOKEN.fullmatch(bearer):
        raise _unusable(name, "auth.bearer", "it is not one word of ASCII")
    remember(basic.partition(":")[2])
    encoded = base64.b64encode(basic.encode()).decode()
    header = f"Basic {encoded}" if basic else f"Bearer {bearer}" if bearer else ""
    key = settings.private_key
    return RegistryAccess(
        name=name,
        url=url.rstrip("/"),
        user=_user_of(settings),
        headers={"Authorization": header} if header else {},
        verify=settings.ca or True,
        certificate=(settings.cert, key) if settings.cert and key else settings.cert,
        timeout_seconds=settings.timeout_seconds,
    )


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return (
            parts.scheme in {"http", "https"}
            and bool(parts.hostname)
            and parts.port != 0
            and is_bare_url(url)
        )
    except ValueError:
        return False


def _user_of(settings: RegistrySettings) -> str:
    """Say who asks by what is written, which holds no more than a reference where it is secret."""
    if settings.auth.basic:
        named = _USER.match(settings.auth.basic.get_secret_value())
        return f"user {named[1]}" if named else "a user with a password"
    return "a token" if settings.auth.bearer else "a certificate" if settings.cert else "anybody"


def _unusable(name: str, key: str, what: str) -> ConfigError:
    return ConfigError(
        f"registries.{name}.{key} cannot be used: {what}",
        code="registry-access",
        hint="Write url: https://host:8081, basic: user:password, bearer: the token alone. What a reference"
        " gives is looked at when a run starts.",
    )
