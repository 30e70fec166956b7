"""The servers and configurations of one run, all in a temporary folder, all stopped at its end."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from resources.spark import PARALLELISM
from servers.kafka import KafkaServer, KafkaSettings, start_kafka
from servers.process import ServerFolder, free_ports
from servers.spark_connect import SparkConnectServer, SparkConnectSettings, start_spark_connect
from spark_jobs.connections.endpoints import Endpoints, write_endpoints

PIPELINE = "orders"


@dataclass(frozen=True, slots=True)
class Lab:
    """A folder with a broker that runs."""

    folder: Path
    kafka: KafkaServer

    @property
    def bootstrap_servers(self) -> str:
        """The broker's address."""
        return self.kafka.bootstrap_servers

    @contextmanager
    def spark(self, name: str) -> Iterator[SparkConnectServer]:
        """A new Connect server as ``./sluice up`` starts it: its workers have done nothing yet."""
        server = start_spark_connect(
            SparkConnectSettings(
                ServerFolder(self.folder, name),
                home=self.folder / name,
                port=free_ports(1)[0],
                cores=os.cpu_count() or 1,
            )
        )
        try:
            yield server
        finally:
            server.process.stop()

    def configure(
        self, name: str, topic: str, spark: SparkConnectServer, *, tasks: int | None = None, **settings: Any
    ) -> Path:
        """A configuration file with one pipeline into an embedded lake of its own.

        The pipeline's name is always the same, so that all use one Spark session. ``settings`` are the
        pipeline's. ``tasks`` is how many a batch is cut into. Servers are named as ``./sluice up`` names
        them, in the state folder.
        """
        home = self.folder / name / ".sluice"
        (home / "run").mkdir(parents=True)
        write_endpoints(str(home), Endpoints(self.bootstrap_servers, spark.remote))
        path = home.parent / "sluice.yaml"
        pipeline = {"topic": topic, "table": "bench.orders", **settings}
        conf = {} if tasks is None else {PARALLELISM: str(tasks)}
        document = {"version": 1, "spark": {"conf": conf}, "pipelines": {PIPELINE: pipeline}}
        path.write_text(yaml.safe_dump(document))
        return path


@contextmanager
def open_lab(folder: Path) -> Iterator[Lab]:
    """Start the broker in ``folder`` and stop it."""
    kafka = start_kafka(KafkaSettings(ServerFolder(folder, "kafka"), *free_ports(2)))
    try:
        yield Lab(folder, kafka)
    finally:
        kafka.process.stop()
