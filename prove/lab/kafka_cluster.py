"""Three Kafka brokers on loopback: one is also the controller, the two others may die."""

from __future__ import annotations

import time
import uuid
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from confluent_kafka.admin import AdminClient

from prove.lab.kafka_server import kafka_settings
from prove.lab.server_folder import ServerFolder
from servers.kafka import spelled_cluster_id, start_kafka

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from servers.kafka import KafkaServer, KafkaSettings

CONTROLLER = 1
OTHERS = (2, 3)
_MOVE_SECONDS = 60.0


@dataclass(slots=True)
class KafkaCluster:
    """Brokers by node id, those that were killed included."""

    settings: dict[int, KafkaSettings]
    servers: dict[int, KafkaServer]

    @property
    def bootstrap_servers(self) -> str:
        """All of them: clients go on when one is away."""
        return ",".join(f"127.0.0.1:{each.port}" for each in self.settings.values())

    def kill(self, node: int) -> None:
        """Kill it where it stands."""
        self.servers[node].process.kill()

    def start(self, node: int) -> None:
        """Start it again on what it has."""
        self.servers[node] = start_kafka(self.settings[node])

    def leader(self, topic: str, partition: int) -> int:
        """The node that clients read the partition from; -1 for none."""
        client = AdminClient({"bootstrap.servers": self.bootstrap_servers})
        partitions = client.list_topics(topic, timeout=_MOVE_SECONDS).topics[topic].partitions
        leader: int = partitions[partition].leader
        return leader

    def wait_for_leader(self, topic: str, partition: int, *, other_than: int) -> int:
        """Wait until another node leads the partition."""
        deadline = time.monotonic() + _MOVE_SECONDS
        while (leader := self.leader(topic, partition)) in {-1, other_than}:
            assert time.monotonic() < deadline, f"node {other_than} leads {topic}-{partition} for ever"
            time.sleep(0.2)
        return leader


@contextmanager
def kafka_cluster(root: Path) -> Iterator[KafkaCluster]:
    """Start three brokers with their files below ``root`` and stop them."""
    first = _settings(root, CONTROLLER)
    cluster = KafkaCluster({CONTROLLER: first}, {})
    try:
        cluster.start(CONTROLLER)
        for node in OTHERS:
            cluster.settings[node] = _settings(root, node, controller_port=first.controller_port)
            _format_as_member(cluster.settings[node].home, node, _cluster_id(first.home))
            cluster.start(node)
        yield cluster
    finally:
        for server in reversed(cluster.servers.values()):
            server.process.stop()


def _settings(root: Path, node: int, *, controller_port: int | None = None) -> KafkaSettings:
    """The first node's own, and for the others a broker that asks that one's controller."""
    settings = kafka_settings(ServerFolder(root, f"kafka-{node}"))
    if controller_port is None:
        return settings
    properties = {
        "process.roles": "broker",
        "node.id": f"{node}",
        "controller.quorum.voters": f"{CONTROLLER}@127.0.0.1:{controller_port}",
        "listeners": f"PLAINTEXT://127.0.0.1:{settings.port}",
    }
    return replace(settings, properties=properties)


def _cluster_id(home: Path) -> str:
    lines = (home / "data" / "meta.properties").read_text().splitlines()
    return next(line.partition("=")[2] for line in lines if line.startswith("cluster.id="))


def _format_as_member(home: Path, node: int, cluster_id: str) -> None:
    """What Kafka's tool writes for a broker that is no controller."""
    properties = {
        "version": 1,
        "cluster.id": cluster_id,
        "node.id": node,
        "directory.id": spelled_cluster_id(uuid.uuid4()),
    }
    data = home / "data"
    data.mkdir(parents=True)
    (data / "meta.properties").write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
