"""One or three brokers whose processes and log files tests can change.

Of three the first is also the controller, the two others may die.
"""

from __future__ import annotations

import os
import signal
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from confluent_kafka.admin import AdminClient

from prove.lab.kafka_server import kafka_settings
from servers.kafka import KafkaServer, KafkaSettings, spelled_cluster_id, start_kafka
from servers.process import ServerFolder

FIRST = 1
OTHERS = (2, 3)
_MOVE_SECONDS = 60.0


@dataclass(slots=True)
class Brokers:
    """Brokers by node id, including killed ones, which can be restarted with their data."""

    settings: dict[int, KafkaSettings]
    servers: dict[int, KafkaServer] = field(default_factory=dict)

    @property
    def bootstrap_servers(self) -> str:
        """Return all addresses: clients continue when one is away."""
        return ",".join(f"127.0.0.1:{each.port}" for each in self.settings.values())

    def kill(self, node: int = FIRST) -> None:
        """Kill it immediately."""
        self.servers[node].process.kill()

    def start(self, node: int = FIRST) -> None:
        """Start it, or restart it with its data."""
        self.servers[node] = start_kafka(self.settings[node])

    def stop(self) -> None:
        """Stop all that run."""
        for server in reversed(self.servers.values()):
            server.process.stop()

    @contextmanager
    def silent(self) -> Iterator[None]:
        """Silence the first broker while the block runs."""
        os.kill(self.servers[FIRST].process.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self.servers[FIRST].process.pid, signal.SIGCONT)

    def log_of(self, topic: str, partition: int) -> Path:
        """Return the first segment of the first broker's log of a partition."""
        return self.settings[FIRST].folder.home / "data" / f"{topic}-{partition}" / f"{0:020}.log"

    def cut(self, topic: str, partition: int, size: int) -> None:
        """Kill the first broker, truncate the partition's log to this size, and restart it."""
        self.kill()
        os.truncate(self.log_of(topic, partition), size)
        self.start()

    def wait_for_leader(self, topic: str, partition: int, *, other_than: int) -> None:
        """Wait until another node leads the partition."""
        deadline = time.monotonic() + _MOVE_SECONDS
        client = AdminClient({"bootstrap.servers": self.bootstrap_servers})
        while True:
            partitions = client.list_topics(topic, timeout=_MOVE_SECONDS).topics[topic].partitions
            if partitions[partition].leader not in {-1, other_than}:
                return
            assert time.monotonic() < deadline, f"node {other_than} leads {topic}-{partition} for ever"
            time.sleep(0.2)


@contextmanager
def own_broker(root: Path, **properties: str) -> Iterator[Brokers]:
    """Start one broker with these properties below ``root``, which compacts eagerly; stop it at the end."""
    settings = kafka_settings(ServerFolder(root, "kafka"), **{"log.cleaner.backoff.ms": "100"}, **properties)
    brokers = Brokers({FIRST: settings})
    try:
        brokers.start()
        yield brokers
    finally:
        brokers.stop()


@contextmanager
def three_brokers(root: Path) -> Iterator[Brokers]:
    """Start three brokers with their files below ``root``; stop them at the end."""
    first = kafka_settings(ServerFolder(root, f"kafka-{FIRST}"))
    brokers = Brokers({FIRST: first})
    try:
        brokers.start()
        for node in OTHERS:
            settings = kafka_settings(ServerFolder(root, f"kafka-{node}"))
            brokers.settings[node] = _as_member(settings, node, first)
            brokers.start(node)
        yield brokers
    finally:
        brokers.stop()


def _as_member(settings: KafkaSettings, node: int, first: KafkaSettings) -> KafkaSettings:
    """Return the settings of a broker of the first one's controller; format its storage."""
    _format_as_member(settings.folder.home, node, _cluster_id(first.folder.home))
    properties = {
        "process.roles": "broker",
        "node.id": f"{node}",
        "controller.quorum.voters": f"{FIRST}@127.0.0.1:{first.controller_port}",
        "listeners": f"PLAINTEXT://127.0.0.1:{settings.port}",
    }
    return replace(settings, properties=properties)


def _cluster_id(home: Path) -> str:
    lines = (home / "data" / "meta.properties").read_text().splitlines()
    return next(line.partition("=")[2] for line in lines if line.startswith("cluster.id="))


def _format_as_member(home: Path, node: int, cluster_id: str) -> None:
    """Write what Kafka's tool writes for a broker that is not a controller."""
    properties = {
        "version": 1,
        "cluster.id": cluster_id,
        "node.id": node,
        "directory.id": spelled_cluster_id(uuid.uuid4()),
    }
    data = home / "data"
    data.mkdir(parents=True)
    (data / "meta.properties").write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
