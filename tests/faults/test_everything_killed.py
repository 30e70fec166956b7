"""Drain, Spark and Kafka killed at once, and started again: the next drain goes on by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from prove.lab.kafka_server import KafkaBroker, kafka_settings
from prove.lab.pipeline_lab import make_lab, orders
from servers.kafka import start_kafka
from servers.process import ServerFolder, free_ports
from servers.spark_connect import SparkConnectSettings, start_spark_connect

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.faults, pytest.mark.kafka, pytest.mark.spark]


def test_everything_killed_at_once(tmp_path: Path) -> None:
    """Kill -9 the drain in its tasks, the Spark server and the broker; then the servers and a drain."""
    # Flushed at once: what an acknowledged record of a broker without replicas survives is the disk's matter.
    settings = kafka_settings(ServerFolder(tmp_path, "kafka"), **{"log.flush.interval.messages": "1"})
    folder = ServerFolder(tmp_path, "spark-connect")
    spark_settings = SparkConnectSettings(folder, home=folder.home, port=free_ports(1)[0], cores=2)
    kafka, spark = start_kafka(settings), start_spark_connect(spark_settings)
    try:
        broker = KafkaBroker(kafka.bootstrap_servers)
        topic = broker.new_topic(partitions=2)
        broker.produce(topic, orders(0, 200))
        lab = make_lab(tmp_path / "lab", bootstrap=broker, topic=topic, spark_remote=spark.remote)
        with lab.stopped_at("drain.after-tasks") as drain:
            for killed in (drain, spark.process, kafka.process):
                killed.kill()
        kafka, spark = start_kafka(settings), start_spark_connect(spark_settings)
        result = lab.drain()
        assert result.balance.rows == 200
        found = lab.audit()
        assert (found.is_clean, found.rows, found.lag) == (True, 200, 0), found
        assert lab.stray_files() == set()
    finally:
        spark.process.stop()
        kafka.process.stop()
