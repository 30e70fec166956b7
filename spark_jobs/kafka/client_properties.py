"""Creation and closing of Kafka clients, with checked and fixed properties."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from threading import Thread
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaException
from cryptography import x509

from spark_jobs.config.sections import (
    ALIASES,
    AWS_MSK_IAM_REGION,
    FIXED_PROPERTIES,
    validate_kafka_properties,
)
from spark_jobs.kafka.errors import ClientStatistics, ClientTroubles
from spark_jobs.kafka.msk_tokens import msk_tokens
from spark_jobs.protocol.errors import SluiceError, fault

_Client = TypeVar("_Client")

_log = logging.getLogger(__name__)

CLOSE_TIMEOUT_SECONDS = 2.0

KIB = 1024
MAX_QUEUE_BYTES = 16 * KIB * KIB
MAX_FETCH_BYTES = KIB * KIB
# librdkafka unpacks a whole fetch at once: compressed 16 to 1, it still fits the budget. No property of its
# bounds what a batch unpacks to, but receive.message.max.bytes one of zstd's.
UNPACKED_FETCH_FACTOR = 16

# librdkafka writes to stderr, past any log. What matters comes back as errors; `log_level` shows the rest.
_QUIET = {"client.id": "sluice", "log_level": "0", "enable.metrics.push": "false"}

# Measured with 230-byte records against a local broker, ranges of 60,000 (another 2 us of work a record):
# the fetcher runs ahead, and what it has fetched when a range ends is thrown away. A deep queue and large
# fetches (128 MiB, 8 MiB) cost 2.3 to 5.5 us CPU a record, these 0.6. A queue that is full is looked at
# again after `fetch.queue.backoff.ms`, 1000 by default, which starves a fast reader. While a fetch waits at
# the log's end for `fetch.wait.max.ms`, the next range's fetch waits behind it: 50 ms a range at 50.
_FAST = {
    "queued.min.messages": "50000",
    "fetch.queue.backoff.ms": "5",
    "fetch.wait.max.ms": "5",
    # Topics are looked at before they are read; one that is gone should not take the default 30 s to say so.
    "topic.metadata.propagation.max.ms": "5000",
}


_DEFAULTS_OF_PRODUCERS = {"linger.ms": "50", "batch.size": str(KIB * KIB), "compression.type": "lz4"}
_EXACT = {
    "enable.idempotence": "true",
    # Of a producer it does not know in a partition, Kafka takes any sequence number as the first. A leader
    # that refuses a request (it has just been elected) and takes the next calls the first, told again, a
    # duplicate: librdkafka reports it as arrived, and it is nowhere (confluent-kafka-go issue 921).
    "max.in.flight.requests.per.connection": "1",
    "enable.gapless.guarantee": "true",
    "message.max.bytes": "1000000000",  # what a broker took once
    "queue.buffering.max.kbytes": str(64 * KIB),
}


def consumer_properties(properties: Mapping[str, str], *, queue_bytes: int) -> dict[str, str]:
    """Return the properties of a ``Consumer``.

    ``queue_bytes`` bounds what waits in librdkafka's queue, whatever the user asks for, and by default once
    more the fetch in flight when unpacked (or one batch of the producer's, when that is larger).
    Raises ``ConfigError`` naming every property that cannot be set.
    """
    given = _checked(properties)
    queue_kib = max(1, min(queue_bytes, MAX_QUEUE_BYTES) // KIB)
    if (wish := given.get("queued.max.messages.kbytes", "")).isdigit():
        queue_kib = max(1, min(int(wish), queue_bytes // KIB))
    fetch = {
        "fetch.message.max.bytes": str(max(KIB, min(queue_bytes // UNPACKED_FETCH_FACTOR, MAX_FETCH_BYTES)))
    }
    return _QUIET | _FAST | fetch | given | FIXED_PROPERTIES | {"queued.max.messages.kbytes": str(queue_kib)}


def admin_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of an ``AdminClient``. Raises ``ConfigError`` like ``consumer_properties``."""
    # Librdkafka takes it for a producer, which makes the topics that it asks after.
    return _QUIET | _checked(properties) | {"allow.auto.create.topics": "false"}


def producer_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of a ``Producer`` whose records arrive once and in order, or that fails.

    Raises ``ConfigError`` like ``consumer_properties``.
    """
    return _DEFAULTS_OF_PRODUCERS | _QUIET | _checked(properties) | _EXACT


def transactional_properties(properties: Mapping[str, str], transactional_id: str) -> dict[str, str]:
    """Return the properties of a transactional ``Producer``; a new one with the same id fences it.

    Raises ``ConfigError`` like ``consumer_properties``.
    """
    return producer_properties(properties) | {"transactional.id": transactional_id, "retry.backoff.ms": "10"}


def new_client(
    kind: Callable[[dict[str, Any]], _Client],
    properties: Mapping[str, str],
    troubles: ClientTroubles,
    statistics: ClientStatistics | None = None,
) -> _Client:
    """Create a client. Raises ``ConfigError`` for a value that librdkafka refuses, naming the property.

    A client with tokens asks for its first one now: raises as ``msk_tokens``.
    """
    properties = dict(properties)
    region = properties.pop(AWS_MSK_IAM_REGION, None)
    callbacks = {"error_cb": troubles} | ({"stats_cb": statistics} if statistics else {})
    tokens = {"oauth_cb": msk_tokens(region)} if region else {}
    try:
        return kind({**properties, **callbacks, **tokens})
    except KafkaException as error:
        raise fault("kafka-property-refused", why=error.args[0].str()) from error


def close_consumer(consumer: Consumer, topic: str) -> None:
    """Drop the connections of a consumer, which librdkafka may never finish.

    Nobody waits long for librdkafka: while it resets an offset, which damaged and missing records make it do,
    its own thread may wait for a lock that it holds, and closing would never end.
    """
    closing = Thread(target=consumer.close, name="close-consumer", daemon=True)
    closing.start()
    closing.join(CLOSE_TIMEOUT_SECONDS)
    if closing.is_alive():
        _log.warning("the client that read topic %s does not close; it is left to itself", topic)


def _checked(properties: Mapping[str, str]) -> dict[str, str]:
    given = {name: value for name, value in properties.items() if name != AWS_MSK_IAM_REGION}
    findings = validate_kafka_properties(given)
    if findings:
        raise fault(
            "kafka-property-refused.findings",
            findings="; ".join(f"kafka.{finding.path[0]} {finding.message}" for finding in findings),
            hint=" ".join(dict.fromkeys(finding.hint for finding in findings)),
        )
    return {ALIASES.get(name, name): str(value) for name, value in properties.items()}


# When the certificates end by which a client and its broker know each other.


_SHOWING_SECONDS = 5.0
_BROKERS_PORT = 9092  # librdkafka's, where none is given


def certificate_ends(properties: Mapping[str, str]) -> dict[str, datetime]:
    """Return the expiry of the "client" and "broker" certificates, without unavailable ones.

    The broker's is what the first address shows to anybody, whether it is to be trusted or not.
    """
    found = {}
    if properties.get("security.protocol", "").lower() in {"ssl", "sasl_ssl"}:
        if (own := _client(properties)) is not None:
            found["client"] = own.not_valid_after_utc
        if (shown := _broker(properties["bootstrap.servers"])) is not None:
            found["broker"] = shown.not_valid_after_utc
    return found


def ended_certificate(properties: Mapping[str, str]) -> SluiceError | None:
    """Return the error of an expired client or broker certificate, or None."""
    now = datetime.now(UTC)
    for whose, end in certificate_ends(properties).items():
        if end < now:
            return fault("certificate-ended", whose=whose, end=end, servers=properties["bootstrap.servers"])
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
