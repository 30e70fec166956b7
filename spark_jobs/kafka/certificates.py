"""When the certificates end by which a client and its broker know each other."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509

from spark_jobs.protocol.errors import ConfigError

_SHOWING_SECONDS = 5.0
_BROKERS_PORT = 9092  # librdkafka's, where none is given


def certificate_ends(properties: Mapping[str, str]) -> dict[str, datetime]:
    """Return the ends by whose certificate it is, "client" and "broker"; left out are those not to be had.

    The broker's is what the first address shows to anybody, whether it is to be trusted or not.
    """
    found = {}
    if properties.get("security.protocol", "").lower() in {"ssl", "sasl_ssl"}:
        if (own := _client(properties)) is not None:
            found["client"] = own.not_valid_after_utc
        if (shown := _broker(properties["bootstrap.servers"])) is not None:
            found["broker"] = shown.not_valid_after_utc
    return found


def ended_certificate(properties: Mapping[str, str]) -> ConfigError | None:
    """Return the error of a certificate that has ended, the client's or the broker's; None without one."""
    now = datetime.now(UTC)
    for whose, end in certificate_ends(properties).items():
        if end < now:
            return ConfigError(
                f"the {whose}'s certificate ended on {end:%Y-%m-%d %H:%M} UTC",
                code="certificate-ended",
                hint="Renew it; what stands in a file is read again by the next run.",
                servers=properties["bootstrap.servers"],
            )
    return None


def _client(properties: Mapping[str, str]) -> x509.Certificate | None:
    if pem := properties.get("ssl.certificate.pem"):
        return x509.load_pem_x509_certificate(pem.encode())
    with suppress(OSError):  # a client says itself what it cannot read
        if path := properties.get("ssl.certificate.location"):
            return x509.load_pem_x509_certificate(Path(path).read_bytes())
    return None


def _broker(servers: str) -> x509.Certificate | None:
    first = servers.partition(",")[0].rpartition("://")[2]
    host, _, port = first.rpartition(":") if ":" in first else (first, "", _BROKERS_PORT)
    try:
        pem = ssl.get_server_certificate((host.strip("[] "), int(port)), timeout=_SHOWING_SECONDS)
    except (OSError, ValueError):
        return None  # away, no port, or it shows itself to those alone who show theirs: `broker` says it
    return x509.load_pem_x509_certificate(pem.encode())
