"""Where a session on a Connect server is: the address with an id of our choice, and who listens there."""

from __future__ import annotations

import hmac
import socket
import uuid
from contextlib import suppress
from ipaddress import ip_address
from urllib.parse import urlsplit

from spark_jobs.config.redaction import redact_urls
from spark_jobs.config.secrets import scrub
from spark_jobs.protocol.errors import ConfigError, RetryableError

USER_ID = "sluice"
CONNECT_PORT = 15002  # Spark Connect's own default
CONNECT_SECONDS = 10.0


def connect_url(remote: str, work: str, forgotten: int, *, secret: bytes) -> str:
    """Return ``sc://host:port/;...`` with our session id; parameters of the configured URL are kept.

    The id is the same in every process that has the ``secret`` for the same work and number of forgotten
    sessions, and nobody else can tell it.
    Raises ``ConfigError`` (``spark-remote-not-connect``).
    """
    if urlsplit(remote).scheme != "sc":
        raise ConfigError(
            "spark.remote is not a Spark Connect URL",
            code="spark-remote-not-connect",
            hint="Write it as sc://host:15002, or set spark.master for a session in the run's own process.",
            remote=redact_urls(scrub(remote)),
        )
    digest = hmac.digest(secret, f"{work}|{forgotten}".encode(), "sha256")
    session_id = uuid.UUID(bytes=digest[:16], version=4)
    base, _, parameters = remote.partition("/;")
    kept = [p for p in parameters.split(";") if p and p.partition("=")[0] not in {"session_id", "user_id"}]
    return ";".join([base.rstrip("/") + "/", *kept, f"session_id={session_id}", f"user_id={USER_ID}"])


def refuse_clear(remote: str) -> None:
    """Raise ``ConfigError`` (``spark-in-clear``) for a server elsewhere that is reached without TLS.

    Kafka's, the catalog's and the store's credentials go to it.
    """
    address = urlsplit(remote)
    host = address.hostname or ""
    if "use_ssl=true" in remote.lower().split(";") or host == "localhost" or _is_loopback(host):
        return
    raise ConfigError(
        f"credentials would go to the Spark server on {host} in clear",
        code="spark-in-clear",
        hint="Write spark.remote: sc://host:port/;use_ssl=true for a server with TLS, or"
        " spark: {insecure: true} where nobody else is on the network between.",
        remote=redact_urls(scrub(remote)),
    )


def _is_loopback(host: str) -> bool:
    with suppress(ValueError):
        return ip_address(host).is_loopback
    return False


def refuse_silence(remote: str) -> None:
    """Raise ``RetryableError`` at once when nobody listens: PySpark itself would try for ten minutes."""
    address = urlsplit(remote)
    try:
        socket.create_connection((address.hostname, address.port or CONNECT_PORT), CONNECT_SECONDS).close()
    except OSError as error:
        raise no_answer(remote, error) from error


def no_answer(remote: str, error: Exception | None) -> RetryableError:
    """Return the error ``spark-away``; without an ``error`` the server refused every session id."""
    reason = scrub(str(error))[:300] if error else "every session id was refused"
    return RetryableError(
        f"the Spark Connect server does not answer: {reason}",
        code="spark-away",
        hint="Start it again (./sluice up starts its own) or correct spark.remote.",
        remote=redact_urls(scrub(remote)),
    )
