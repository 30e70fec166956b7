"""Where a session on a Connect server is: the address with an id of our choice, and who listens there."""

from __future__ import annotations

import hmac
import os
import socket
import ssl
import uuid
from importlib.resources import files
from urllib.parse import SplitResult, urlsplit

from spark_jobs.config.listener import Address
from spark_jobs.config.redaction import redact_urls
from spark_jobs.config.secrets import scrub
from spark_jobs.protocol.errors import ConfigError, RetryableError, SluiceError

USER_ID = "sluice"
CONNECT_PORT = 15002  # Spark Connect's own default
CONNECT_SECONDS = 10.0
_GRPC_ROOTS = "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"  # gRPC's own variable
_REFUSALS = frozenset({"UNAUTHENTICATED", "PERMISSION_DENIED"})  # gRPC's names


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
    if "use_ssl=true" in remote.lower().split(";") or Address(host, 0).is_loopback:
        return
    raise ConfigError(
        f"credentials would go to the Spark server on {host} in clear",
        code="spark-in-clear",
        hint="Write spark.remote: sc://host:port/;use_ssl=true for a server with TLS, or"
        " spark: {insecure: true} where nobody else is on the network between.",
        remote=redact_urls(scrub(remote)),
    )


def refuse_silence(remote: str) -> None:
    """Raise at once when nobody listens or TLS does not come about: PySpark itself would try for ten minutes.

    ``RetryableError`` (``spark-away``), and ``ConfigError`` (``spark-tls``).
    """
    address = urlsplit(remote)
    place = (address.hostname, address.port or CONNECT_PORT)
    try:
        with socket.create_connection(place, CONNECT_SECONDS) as reached:
            if _speaks_tls(address):
                context = ssl.create_default_context(cafile=_grpc_roots())
                context.set_alpn_protocols(["h2"])
                context.wrap_socket(reached, server_hostname=address.hostname).close()
    except ssl.SSLEOFError as error:
        raise no_answer(remote, error) from error
    except ssl.SSLError as error:
        raise ConfigError(
            f"no TLS with the Spark server: {getattr(error, 'verify_message', '') or error.reason}",
            code="spark-tls",
            hint=f"An authority of your own is named by the environment variable {_GRPC_ROOTS} (a PEM file)."
            " Spark's server itself speaks no TLS: a proxy before it does.",
            remote=redact_urls(scrub(remote)),
        ) from error
    except OSError as error:
        raise no_answer(remote, error) from error


def _speaks_tls(address: SplitResult) -> bool:
    """True if PySpark will: when told to, and with a token to any other than ``localhost``."""
    words = address.path.lower().split(";")
    has_token = any(word.startswith("token=") for word in words)
    return "use_ssl=true" in words or (has_token and address.hostname != "localhost")


def _grpc_roots() -> str:
    """Return the file of the authorities that gRPC trusts."""
    return os.environ.get(_GRPC_ROOTS) or str(files("grpc") / "_cython" / "_credentials" / "roots.pem")


def no_answer(remote: str, error: Exception | None) -> SluiceError:
    """Return the error ``spark-away``, or ``spark-refused`` when the server does not take the token.

    Without an ``error`` the server refused every session id.
    """
    status = getattr(error, "getGrpcStatusCode", None)
    if status is not None and status().name in _REFUSALS:
        return ConfigError(
            "the Spark Connect server does not take the token, or wants one",
            code="spark-refused",
            hint="Correct token=${NAME} in spark.remote; a token of spark.remote_command may have ended.",
            remote=redact_urls(scrub(remote)),
        )
    reason = scrub(str(error))[:300] if error else "every session id was refused"
    return RetryableError(
        f"the Spark Connect server does not answer: {reason}",
        code="spark-away",
        hint="Start it again (./sluice up starts its own) or correct spark.remote.",
        remote=redact_urls(scrub(remote)),
    )
