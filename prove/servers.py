"""The servers of one run, in one folder: Kafka always, the others when a chosen scenario needs them."""

from __future__ import annotations

import os
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from prove.lab.kafka_server import start_test_kafka
from prove.lab.nessie import start_nessie
from prove.lab.rest_catalog import start_rest_catalog
from prove.lab.s3 import start_s3
from prove.lab.server_folder import ServerFolder
from prove.stage import Stage
from servers.process import free_ports
from servers.spark_connect import SparkConnectSettings, start_spark_connect

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

_CATALOGS = {"rest": start_rest_catalog, "nessie": start_nessie}


@contextmanager
def running_servers(folder: Path, needs: Iterable[str]) -> Iterator[Stage]:
    """Start Kafka and what is needed; all are stopped in the end, and with this process however it ends."""
    wanted = set(needs)
    with ExitStack() as stack:
        kafka = start_test_kafka(ServerFolder(folder, "kafka"))
        stack.callback(kafka.process.stop)
        stage = Stage(folder, kafka.bootstrap_servers)
        catalogs = [name for name in _CATALOGS if name in wanted]
        if catalogs:
            s3 = start_s3(ServerFolder(folder, "s3"))
            stack.callback(s3.process.stop)
            stage = replace(stage, s3_endpoint=s3.endpoint)
            for name in catalogs:
                server = _CATALOGS[name](ServerFolder(folder, name), s3.new_bucket())
                stack.callback(server.process.stop)
                stage.catalogs[name] = server.properties
        if "spark" in wanted:
            stage = replace(stage, spark_remote=_start_spark(folder, stack))
        yield stage


def _start_spark(folder: Path, stack: ExitStack) -> str:
    server = start_spark_connect(spark_settings(folder))
    stack.callback(server.process.stop)
    return server.remote


def spark_settings(folder: Path) -> SparkConnectSettings:
    """A Connect server with its files below ``folder``."""
    place = ServerFolder(folder, "spark-connect")
    return SparkConnectSettings(
        home=place.home,
        run_folder=place.run_folder,
        log_path=place.log_path,
        port=free_ports(1)[0],
        cores=os.cpu_count() or 1,
        jar_sets=("spark", "spark-s3"),
        dies_with_parent=True,
    )
