"""Addresses of running servers and the configured broker, and the last sensor tick."""

from __future__ import annotations

import fcntl
import json
import logging
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO

from spark_jobs import WITHIN
from spark_jobs.config.redaction import url_passwords
from spark_jobs.config.secrets import remember, resolve
from spark_jobs.config.sections import AWS_MSK_IAM_REGION, KafkaAuth
from spark_jobs.config.settings import SluiceConfig
from spark_jobs.protocol.errors import SluiceError, fault
from spark_jobs.storage.state_files import write_whole

_locks: dict[Path, IO[bytes]] = {}


@dataclass(frozen=True, slots=True)
class Endpoints:
    """``kafka_bootstrap_servers`` is ``host:port``, ``spark_remote`` ``sc://host:port/;token=…``; None: down.

    ``serve`` is the address of what answers queries beside Dagster. ``kafka_login`` are the properties that a
    client of ours has to say beside the broker's address. ``spark_asleep``: it starts with the next run.
    ``failing`` end again and again, each with its log.
    Written when our servers are up, removed when they stop.
    """

    kafka_bootstrap_servers: str | None = None
    spark_remote: str | None = None
    spark_asleep: bool = False
    serve: str | None = None
    kafka_login: dict[str, str] = field(default_factory=dict, repr=False)
    failing: dict[str, str] = field(default_factory=dict)

    @property
    def trouble(self) -> SluiceError | None:
        """Return the error of a failing server that drains need."""
        for name in (each for each in self.failing if each.startswith(("spark", "kafka", "dagster"))):
            return fault("server-ended", name=name, log=self.failing[name])
        return None


def resolve_kafka_properties(config: SluiceConfig) -> dict[str, str]:
    """Return librdkafka's resolved properties; they hold secrets and never reach a log.

    Raises ``ConfigError``: ``no-broker`` when none is configured and none of ours runs, ``missing-secret``.
    """
    properties = {**_debugging(), **resolve(config.kafka), **_login(config.kafka_auth)}
    if properties.get("bootstrap.servers"):
        return properties
    embedded = embedded_kafka(config.home)
    if not embedded:
        raise fault("no-broker")
    return {**properties, **embedded}


def embedded_kafka(home: str) -> dict[str, str]:
    """Return the properties of the embedded broker; empty while it is not running."""
    found = read_endpoints(home)
    if found.kafka_bootstrap_servers is None:
        return {}
    return {"bootstrap.servers": found.kafka_bootstrap_servers, **resolve(found.kafka_login)}


def _login(auth: KafkaAuth) -> dict[str, str]:
    if auth.aws_msk_iam is None:
        return {}
    oauth = {"security.protocol": "SASL_SSL", "sasl.mechanisms": "OAUTHBEARER"}
    return {**oauth, AWS_MSK_IAM_REGION: auth.aws_msk_iam.region}


def _debugging() -> dict[str, str]:
    """Return properties for librdkafka's log at level debug, without `conf`, which prints all properties."""
    is_wanted = logging.getLogger(f"{WITHIN}spark_jobs").isEnabledFor(logging.DEBUG)
    return {"debug": "broker,topic,fetch,security"} if is_wanted else {}


def read_endpoints(home: str) -> Endpoints:
    """Return the recorded endpoints; empty once the recording process has ended.

    A server that was killed while that process lives is still listed.
    """
    try:
        endpoints = Endpoints(**json.loads(_file(home).read_text(encoding="utf-8")))
    except FileNotFoundError:
        return Endpoints()
    if not _is_owned(home):
        return Endpoints()
    for token in url_passwords(endpoints.spark_remote or ""):
        remember(token)
    return endpoints


def write_endpoints(home: str, endpoints: Endpoints) -> None:
    """Replace the recorded endpoints, valid while this process lives and holds the lock."""
    path = _lock(home)
    if path not in _locks:
        path.parent.mkdir(parents=True, exist_ok=True)
        _locks[path] = path.open("wb")
        fcntl.flock(_locks[path], fcntl.LOCK_EX)
    write_whole(_file(home), json.dumps(asdict(endpoints)) + "\n")


def clear_endpoints(home: str) -> None:
    """Remove the recorded endpoints; idempotent."""
    _file(home).unlink(missing_ok=True)
    if (lock := _locks.pop(_lock(home), None)) is not None:
        lock.close()


def _is_owned(home: str) -> bool:
    try:
        with suppress(FileNotFoundError), _lock(home).open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


def _lock(home: str) -> Path:
    return Path(home).absolute() / "run" / "endpoints.lock"


def _file(home: str) -> Path:
    return Path(home) / "run" / "endpoints.json"


# When a sensor last looked at every pipeline is noted, so that silence is noticed.


# Ticks come every 5 to 20 s; one over a thousand pipelines may take a minute.
SILENT_SECONDS = 180.0


def beat(home: str) -> None:
    """Record a successful tick; does nothing if the state folder is read-only."""
    with suppress(OSError):
        write_whole(_heartbeat_file(home), str(time.time_ns() // 1_000_000))


def last_beat_ms(home: str) -> int | None:
    """Return the time of the last tick (epoch ms), or None."""
    try:
        return int(_heartbeat_file(home).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def forget_beats(home: str) -> None:
    """Remove the recorded ticks after a deliberate stop."""
    _heartbeat_file(home).unlink(missing_ok=True)


def _heartbeat_file(home: str) -> Path:
    return Path(home) / "run" / "last-tick"
