"""Servers and configurations of one run, all in a temporary folder, stopped at its end."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from resources.spark import PARALLELISM
from servers.kafka import KafkaSettings, start_kafka
from servers.process import ServerFolder, free_ports
from servers.spark_connect import SparkConnectServer, SparkConnectSettings, start_spark_connect
from spark_jobs.connections.endpoints import Endpoints, write_endpoints

PIPELINE = "orders"
_OF_SESSIONS = "of every configuration of a benchmark"


@dataclass(frozen=True, slots=True)
class Lab:
    """A folder and a running broker."""

    folder: Path
    bootstrap_servers: str

    @contextmanager
    def spark(self, name: str) -> Iterator[SparkConnectServer]:
        """Return a new Connect server as ``./sluice up`` starts it, with fresh workers."""
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

    @contextmanager
    def busy_kafka(self) -> Iterator[str]:
        """Return a broker with Java's usual compilation, like long-lived brokers.

        Those that Sluice starts compile late, for short lives: in the middle of what is measured.
        """
        with _running_kafka(self.folder, "busy-kafka", java_options=["-XX:+UseSerialGC"]) as address:
            yield address

    def configure(
        self, name: str, topic: str, spark: SparkConnectServer, *, tasks: int | None = None, **settings: Any
    ) -> Path:
        """Write a configuration with one pipeline and an embedded lake.

        All of one server use one Spark session, whose workers have imported what they need. ``settings`` are
        the pipeline's. ``tasks`` is how many a batch is cut into. Servers are named as ``./sluice up`` names
        them, in the state folder.
        """
        home = self.folder / name / ".sluice"
        (home / "run").mkdir(parents=True)
        write_endpoints(str(home), Endpoints(self.bootstrap_servers, spark.remote))
        path = home.parent / "sluice.yaml"
        pipeline = {"topic": topic, "table": "bench.orders", **settings}
        conf = {} if tasks is None else {PARALLELISM: str(tasks)}
        spark_settings = {"conf": conf, "session_secret": _OF_SESSIONS}
        document = {"version": 1, "spark": spark_settings, "pipelines": {PIPELINE: pipeline}}
        path.write_text(yaml.safe_dump(document))
        return path


@contextmanager
def open_lab(folder: Path) -> Iterator[Lab]:
    """Start the broker in ``folder`` and stop it."""
    with _running_kafka(folder, "kafka") as address:
        yield Lab(folder, address)


@contextmanager
def _running_kafka(folder: Path, name: str, **settings: Any) -> Iterator[str]:
    kafka = start_kafka(KafkaSettings(ServerFolder(folder, name), *free_ports(2), **settings))
    try:
        yield kafka.bootstrap_servers
    finally:
        kafka.process.stop()
