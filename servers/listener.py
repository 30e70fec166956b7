"""Common rules of Sluice's listeners: one guard, and tokens for other machines."""

from __future__ import annotations

import logging
import ssl
from dataclasses import replace
from functools import cache
from typing import Any

from servers.process import free_ports, is_listening
from spark_jobs.config.listener import CLEAR_HINT, Address, ListenerSettings
from spark_jobs.config.secrets import resolve
from spark_jobs.protocol.errors import fault

_log = logging.getLogger(__name__)

SHORTEST_TOKEN = 16
INSECURE = "--insecure"  # lets one be open to others without tokens


def tokens_of(settings: ListenerSettings) -> dict[str, str]:
    """Return the current tokens by key. Raises ``ConfigError``: ``missing-secret``."""
    written = {f"tokens.{at}": token.get_secret_value() for at, token in enumerate(settings.tokens)}
    return resolve(written)


def guard_of(settings: ListenerSettings) -> dict[str, Any]:
    """Return the arguments of ``BrowserGuard`` with current tokens; ``listen`` is an accepted host name.

    Raises ``ConfigError``: ``missing-secret``, or ``token-too-short``, as an empty variable would be.
    """
    tokens = tokens_of(settings)
    for key, token in tokens.items():
        if len(token) < SHORTEST_TOKEN:
            raise fault("token-too-short", least=SHORTEST_TOKEN, key=key)
    listen = settings.listen
    own = [listen.host, *(["localhost"] if listen.is_loopback else [])] if listen else []
    return {"hosts": [*own, *settings.hosts], "origins": settings.origins, "tokens": list(tokens.values())}


def tls_of(settings: ListenerSettings) -> dict[str, Any]:
    """Return uvicorn's TLS options. Raises ``ConfigError``: ``tls-unreadable``."""
    tls = settings.tls
    if tls is None:
        return {}
    cert, private_key = tls.cert, tls.private_key or tls.cert
    try:
        # Nobody is asked for the password of a key.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(cert, private_key, password="")
    except OSError as error:
        raise fault("tls-unreadable", why=error, path=cert) from error
    return {"ssl_certfile": cert, "ssl_keyfile": private_key}


def refuse_open(settings: ListenerSettings, *, insecure: bool) -> None:
    """Raise ``ConfigError`` (``listener-without-tokens``) if other machines had access without tokens.

    Logs a warning, once per process, if tokens would be sent without encryption.
    """
    guard = guard_of(settings)
    if settings.tokens_in_clear and not insecure:
        _warn(f"{settings.section}: {settings.tokens_in_clear}. {CLEAR_HINT}")
    if settings.listen is None or settings.listen.is_loopback or guard["tokens"] or insecure:
        return
    raise fault("listener-without-tokens", listen=settings.listen)


@cache
def _warn(message: str) -> None:
    _log.warning(message)


def bound_at(listen: Address, port: int | None = None) -> Address:
    """Return the address to listen on, with ``port`` if given; port 0 becomes a free port."""
    return replace(listen, port=port or listen.port or free_ports(1)[0])


def refuse_taken(address: Address) -> None:
    """Raise ``ConfigError`` (``port-taken``) if another process listens there."""
    if is_listening(address.port, address.from_here.host):
        raise fault("port-taken", address=address)


def url_of(settings: ListenerSettings, address: Address) -> str:
    """Return the URL by which this machine reaches ``address``."""
    return f"{'https' if settings.tls else 'http'}://{address.from_here}"
