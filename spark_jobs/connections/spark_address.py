"""Where a session on a Connect server is: the address with an id of our choice, and who listens there."""

from __future__ import annotations

import socket
import uuid
from urllib.parse import urlsplit

from spark_jobs.config.secrets import scrub
from spark_jobs.protocol.errors import ConfigError, RetryableError

USER_ID = "sluice"
SESSION_NAMESPACE = uuid.UUID("6d1c57e4-7c0e-5f0b-9a53-2f6f2a1f9d3e")
CONNECT_PORT = 15002  # Spark Connect's own default
CONNECT_SECONDS = 10.0


def connect_url(remote: str, pipeline: str, work: str, forgotten: int) -> str:
    """Return ``sc://host:port/;...`` with our session id; parameters of the configured URL are kept.

    The id is the same in every process for the same pipeline, work and number of forgotten sessions.
    Raises ``ConfigError`` (``spark-remote-not-connect``).
    """
    if urlsplit(remote).scheme != "sc":
        raise ConfigError(
            "spark.remote is not a Spark Connect URL",
            code="spark-remote-not-connect",
            hint="Write it as sc://host:15002, or set spark.master for a session in the run's own process.",
            remote=scrub(remote),
        )
    session_id = uuid.uuid5(SESSION_NAMESPACE, f"{pipeline}|{work}|{forgotten}")
    base, _, parameters = remote.partition("/;")
    kept = [p for p in parameters.split(";") if p and p.partition("=")[0] not in {"session_id", "user_id"}]
    return ";".join([base.rstrip("/") + "/", *kept, f"session_id={session_id}", f"user_id={USER_ID}"])


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
        remote=scrub(remote),
    )
