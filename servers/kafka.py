"""A single-node Kafka broker (KRaft) on loopback, from the locked jars."""

from __future__ import annotations

import os
import secrets
import subprocess
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any

from servers.environment import FRUGAL_OPTIONS, LOG_SETTINGS, clean_environment, java_home
from servers.jars import jar_paths
from servers.process import ServerFolder, ServerProcess, is_listening, last_line
from spark_jobs.protocol.errors import fault
from spark_jobs.storage.state_files import write_whole

_START_TIMEOUT_SECONDS = 90.0


@dataclass(frozen=True, slots=True)
class KafkaSettings:
    """Settings of an embedded broker; equal settings start the same broker with the same data.

    ``properties`` are server.properties that win over ours, ``login`` what a client says beside the address,
    ``java_options`` how its Java collects and compiles.
    """

    folder: ServerFolder
    port: int
    controller_port: int
    _: KW_ONLY
    heap: str = "1g"
    properties: Mapping[str, str] = field(default_factory=dict)
    login: Mapping[str, str] = field(default_factory=dict, repr=False)
    java_options: Sequence[str] = FRUGAL_OPTIONS


@dataclass(frozen=True, slots=True)
class KafkaServer:
    """A running broker."""

    bootstrap_servers: str
    process: ServerProcess


def start_kafka(settings: KafkaSettings) -> KafkaServer:
    """Format new storage, start the broker and wait until it answers."""
    _refuse_taken_ports(settings)
    folder = settings.folder
    folder.home.mkdir(parents=True, exist_ok=True)
    properties_path = folder.home / "server.properties"
    lines = (f"{key}={value}\n" for key, value in _properties(settings).items())
    write_whole(properties_path, "".join(lines))
    home = java_home()
    java, environment = str(home / "bin" / "java"), clean_environment(home)
    if not (folder.home / "data" / "meta.properties").exists():
        _format_storage(folder, java, environment)
    options = [f"-Xmx{settings.heap}", *settings.java_options, *_java_options()]
    command = [java, *options, "kafka.Kafka", str(properties_path)]
    process = ServerProcess(folder, command, environment)
    bootstrap_servers = f"127.0.0.1:{settings.port}"
    process.wait_until(lambda: _answers(settings, bootstrap_servers), _START_TIMEOUT_SECONDS)
    return KafkaServer(bootstrap_servers, process)


def spelled_cluster_id(identity: uuid.UUID) -> str:
    """Return an id in Kafka's spelling, without a leading dash, which its tool reads as an option."""
    first, *rest = identity.bytes
    return urlsafe_b64encode(bytes([first & 0x7F, *rest])).decode().rstrip("=")


def _java_options() -> list[str]:
    class_path = os.pathsep.join(str(path) for path in jar_paths("kafka"))
    return [
        "-XX:+ExitOnOutOfMemoryError",
        "-Djava.awt.headless=true",
        f"-Dlog4j2.configurationFile={LOG_SETTINGS}",
        "-cp",
        class_path,
    ]


def _properties(settings: KafkaSettings) -> dict[str, str]:
    return {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{settings.controller_port}",
        "listeners": f"PLAINTEXT://127.0.0.1:{settings.port},CONTROLLER://127.0.0.1:{settings.controller_port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{settings.port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "log.dirs": str(settings.folder.home / "data"),
        "auto.create.topics.enable": "false",
        "num.partitions": "1",
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "4",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
        "log.segment.delete.delay.ms": "1000",
        "log.retention.check.interval.ms": "1000",
        "log.initial.task.delay.ms": "1000",
        # A killed broker is let in again when its old session has ended; there is no other to fail over to.
        "broker.session.timeout.ms": "3000",
        "broker.heartbeat.interval.ms": "500",
        "controlled.shutdown.enable": "false",
        "metrics.jmx.exclude": ".*",
        **settings.properties,
    }


def _format_storage(folder: ServerFolder, java: str, environment: Mapping[str, str]) -> None:
    cluster_id = spelled_cluster_id(uuid.uuid4())
    options = [*FRUGAL_OPTIONS, "-XX:TieredStopAtLevel=1", *_java_options()]
    command = [java, *options, "kafka.tools.StorageTool", "format"]
    arguments = ["--cluster-id", cluster_id, "--config", str(folder.home / "server.properties")]
    folder.log_path.parent.mkdir(parents=True, exist_ok=True)
    with folder.log_path.open("ab") as log:
        outcome = subprocess.run(
            [*command, *arguments], stdout=log, stderr=log, env=dict(environment), check=False
        )
    if outcome.returncode != 0:
        raise fault(
            "server-start.storage", why=last_line(folder.log_path), folder=folder.home, log=folder.log_path
        )


def _refuse_taken_ports(settings: KafkaSettings) -> None:
    for port in (settings.port, settings.controller_port):
        if is_listening(port):
            raise fault("port-taken.kafka", port=port)


def _answers(settings: KafkaSettings, bootstrap_servers: str) -> bool:
    """True if this broker answers, and not another program on its port."""
    from confluent_kafka import KafkaException  # noqa: PLC0415  (`up` with another broker needs no client)
    from confluent_kafka.admin import AdminClient  # noqa: PLC0415

    if not is_listening(settings.port):
        return False
    written = (settings.folder.home / "data" / "meta.properties").read_text().splitlines()
    properties: dict[str, Any] = {"bootstrap.servers": bootstrap_servers, "log_level": 0, **settings.login}
    client = AdminClient(properties | {"error_cb": lambda _error: None})
    try:
        found = client.list_topics(timeout=2)
        # No brokers while it is fenced: topics made then fail.
        return bool(found.brokers) and f"cluster.id={found.cluster_id}" in written
    except KafkaException:
        return False


# What lets a broker of ours be asked over TLS alone, and by one user: made anew at every start.


_USER = "sluice"
_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


def with_login(settings: KafkaSettings) -> KafkaSettings:
    """Return settings whose only client listener is SASL_SSL; the controller's listener is internal."""
    from servers.certificates import Authority  # noqa: PLC0415  (cryptography, only for a login)

    authority = Authority(settings.folder.home / "tls")
    password = secrets.token_urlsafe(24)
    where = f"SASL_SSL://127.0.0.1:{settings.port}"
    properties = {
        "listeners": f"{where},CONTROLLER://127.0.0.1:{settings.controller_port}",
        "advertised.listeners": where,
        "listener.security.protocol.map": "SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "SASL_SSL",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": f'{_MODULE} required username="{_USER}"'
        f' password="{password}" user_{_USER}="{password}";',
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.issue("localhost")),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.ca),
    }
    login = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanisms": "PLAIN",
        "sasl.username": _USER,
        "sasl.password": password,
        "ssl.ca.pem": authority.ca.read_text(),
    }
    return replace(settings, properties={**properties, **settings.properties}, login=login)
