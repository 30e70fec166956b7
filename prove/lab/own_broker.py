"""A broker of one's own, whose process and log files may be laid hands on."""

from __future__ import annotations

import os
import signal
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prove.lab.kafka_server import kafka_settings
from servers.kafka import start_kafka

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from prove.lab.server_folder import ServerFolder
    from servers.kafka import KafkaServer, KafkaSettings


@dataclass(slots=True)
class OwnBroker:
    """A broker that may be killed, and started again on what it left."""

    settings: KafkaSettings
    server: KafkaServer

    @property
    def bootstrap_servers(self) -> str:
        """Where it answers."""
        return self.server.bootstrap_servers

    def kill(self) -> None:
        """Kill it where it stands."""
        self.server.process.kill()

    def start(self) -> None:
        """Start it again."""
        self.server = start_kafka(self.settings)

    @contextmanager
    def silent(self) -> Iterator[None]:
        """While the block runs it is there and answers nobody."""
        os.kill(self.server.process.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self.server.process.pid, signal.SIGCONT)

    def log_of(self, topic: str, partition: int) -> Path:
        """The first segment of a partition's log."""
        return self.settings.home / "data" / f"{topic}-{partition}" / f"{0:020}.log"

    def cut(self, topic: str, partition: int, size: int) -> None:
        """Kill it, let the partition's log end after so many bytes, and start it again."""
        self.kill()
        os.truncate(self.log_of(topic, partition), size)
        self.start()


@contextmanager
def own_broker(folder: ServerFolder, **properties: str) -> Iterator[OwnBroker]:
    """Started with these properties, and stopped in the end. It compacts eagerly."""
    settings = kafka_settings(folder, **{"log.cleaner.backoff.ms": "100"}, **properties)
    broker = OwnBroker(settings, start_kafka(settings))
    try:
        yield broker
    finally:
        broker.server.process.stop()
