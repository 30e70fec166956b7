"""Addresses of Spark Connect sessions with chosen ids, and checks of the server."""

from __future__ import annotations

import hmac
import os
import signal
import socket
import ssl
import subprocess
import uuid
from collections.abc import Sequence
from contextlib import suppress
from importlib.resources import files
from typing import Any
from urllib.parse import SplitResult, urlsplit

from spark_jobs.config.listener import Address
from spark_jobs.config.redaction import MASK, redact_urls, url_passwords
from spark_jobs.config.secrets import remember, resolve, scrub
from spark_jobs.config.settings import SluiceConfig
from spark_jobs.lake.catalog_names import spark_catalog_conf
from spark_jobs.protocol.errors import SluiceError, fault

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
        raise fault("spark-remote-not-connect", remote=redact_urls(scrub(remote)))
    digest = hmac.digest(secret, f"{work}|{forgotten}".encode(), "sha256")
    session_id = uuid.UUID(bytes=digest[:16], version=4)
    base, _, parameters = remote.partition("/;")
    kept = [p for p in parameters.split(";") if p and p.partition("=")[0] not in {"session_id", "user_id"}]
    return ";".join([base.rstrip("/") + "/", *kept, f"session_id={session_id}", f"user_id={USER_ID}"])


def refuse_clear(remote: str) -> None:
    """Raise ``ConfigError`` (``spark-in-clear``) for a remote server without TLS.

    It receives the credentials of Kafka, the catalog and the store.
    """
    address = urlsplit(remote)
    host = address.hostname or ""
    if "use_ssl=true" in remote.lower().split(";") or Address(host, 0).is_loopback:
        return
    raise fault("spark-in-clear", host=host, remote=redact_urls(scrub(remote)))


def refuse_silence(remote: str) -> None:
    """Raise at once if no server listens or TLS fails; PySpark itself would try for ten minutes.

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
        raise fault(
            "spark-tls",
            why=getattr(error, "verify_message", "") or error.reason,
            remote=redact_urls(scrub(remote)),
        ) from error
    except OSError as error:
        raise no_answer(remote, error) from error


def _speaks_tls(address: SplitResult) -> bool:
    """True if PySpark will use TLS: if configured, or with a token for any host but ``localhost``."""
    words = address.path.lower().split(";")
    has_token = any(word.startswith("token=") for word in words)
    return "use_ssl=true" in words or (has_token and address.hostname != "localhost")


def _grpc_roots() -> str:
    """Return the file of authorities that gRPC trusts."""
    return os.environ.get(_GRPC_ROOTS) or str(files("grpc") / "_cython" / "_credentials" / "roots.pem")


def no_answer(remote: str, error: Exception | None) -> SluiceError:
    """Return the error ``spark-away``, or ``spark-refused`` if the server rejects the token.

    Without an ``error`` the server refused every session id.
    """
    status = getattr(error, "getGrpcStatusCode", None)
    if status is not None and status().name in _REFUSALS:
        return fault("spark-refused", remote=redact_urls(scrub(remote)))
    reason = scrub(str(error))[:300] if error else "every session id was refused"
    return fault("spark-away", why=reason, remote=redact_urls(scrub(remote)))


# The Spark server of a session, by the word of a program, for platforms that give each session its own.
#
# The program prints one line, the server's address as ``spark.remote`` has it, token included. It has this
# process's environment and no shell. What it prints beside that is not shown; its last word on stderr is.


COMMAND_SECONDS = 600.0  # a cluster may have to start


def ask_for_remote(command: Sequence[str], *, timeout_seconds: float = COMMAND_SECONDS) -> str:
    """Run the program and return the address that it prints; its token is registered as a secret.

    Raises ``ConfigError`` (``spark-command-unusable``) when it cannot be run or prints anything else, and
    ``RetryableError`` (``spark-command-failed``) when it fails or does not end.
    """
    program = command[0]
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        raise _unusable(f"{program} cannot be run: {error.strerror}", program) from None
    with process:
        try:
            printed, complaint = process.communicate(timeout=timeout_seconds)
        except BaseException as error:
            with suppress(ProcessLookupError):  # with what it started, which may hold the pipes
                os.killpg(process.pid, signal.SIGKILL)
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            raise _failed(f"it did not end within {timeout_seconds:.0f} s", program) from None
    address = printed.strip()
    for secret in url_passwords(address):
        remember(secret)
    if process.returncode:
        last_line = scrub((complaint.strip().splitlines() or ["it printed nothing on stderr"])[-1])[:300]
        raise _failed(f"exit code {process.returncode}: {last_line}", program)
    if not address.startswith("sc://") or len(address.split()) != 1:
        raise _unusable(f"{program} did not print one address sc://host:port", program)
    return address


def _failed(reason: str, program: str) -> SluiceError:
    return fault("spark-command-failed", why=reason, program=program)


def _unusable(reason: str, program: str) -> SluiceError:
    return fault("spark-command-unusable", why=reason, program=program)


# The catalog as a Spark session knows it, for Iceberg's own procedures.
#
# The properties, secrets among them, travel over the session's own connection: they are in no statement, log,
# command line or UI, and two pipelines' servers need no configuration of their own.


# The kind of work whose session knows the catalog; tasks of drains read and write without Spark's help.
UPKEEP = "upkeep"
# Metadata is small: most of Spark's 200 tasks a shuffle would only be scheduled; sorts have their own number.
SHUFFLE_PARTITIONS = 8


def catalog_conf(config: SluiceConfig) -> dict[str, str]:
    """Return the catalog settings of an upkeep session, in addition to the user's Spark configuration."""
    name = config.catalog.name
    return {
        "spark.sql.shuffle.partitions": str(SHUFFLE_PARTITIONS),
        **spark_catalog_conf(name, resolve(config.catalog.properties)),
        # Spark would go on showing a table as it was when it was first read.
        f"spark.sql.catalog.{name}.cache-enabled": "false",
    }


def lake_name(config: SluiceConfig) -> tuple[str, ...]:
    """Return an identifier of the lake as configured; references to secrets stay references."""
    properties = config.catalog.properties
    return (config.catalog.name, *(properties[key] for key in ("uri", "warehouse") if key in properties))


def know_catalog(session: Any, conf: dict[str, str]) -> bool:
    """Set the catalog in a Spark Connect session; return False if it already has another.

    A session loads a catalog once and will not forget it: changed credentials need another session. A server
    may have a mask in the place of a secret, as docs/how-to/spark-cluster.md tells.
    """
    known = {key: session.conf.get(key, None) for key in conf}
    if any(value not in {None, MASK, conf[key]} for key, value in known.items() if ".catalog." in key):
        return False
    for key in [key for key, value in known.items() if value != conf[key]]:
        session.conf.set(key, conf[key])
    return True
