"""The servers of one run, in one folder; each is started once, on first use."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Lock
from typing import Any

from prove.lab.azurite import start_azurite
from prove.lab.gcs import start_gcs
from prove.lab.kafka_server import start_test_kafka
from prove.lab.nessie import start_nessie
from prove.lab.postgres import start_postgres
from prove.lab.rest_catalog import start_rest_catalog
from prove.lab.s3 import start_s3, store_at
from prove.lab.secured_kafka import SecuredKafka, start_secured_kafka
from prove.lab.token_endpoint import giving_tokens
from prove.workload import AZURE, GCS, SECURED, Testbed
from servers.process import ServerFolder, free_ports
from servers.registry import start_registry
from servers.spark_connect import SparkConnectSettings, start_spark_connect

# Those whose tables lie in the object store, and those whose tables do not.
_OVER_S3 = {"rest": start_rest_catalog, "nessie": start_nessie}
_CATALOGS = (*_OVER_S3, "glue", "postgres", "vended")
SPARK = "spark-connect"


class Servers:
    """Kafka, Spark Connect, the object store and the catalogs; safe for any number of threads."""

    def __init__(self, folder: Path, *, spark_cores: int) -> None:
        self._folder = folder
        self._spark_cores = spark_cores
        self._running: dict[str, Any] = {}
        self._starting: defaultdict[str, Lock] = defaultdict(Lock)
        self._stack = ExitStack()

    def folder(self) -> Path:
        """Return the folder of all their data and logs."""
        return self._folder

    def kafka(self) -> str:
        """Return the broker's bootstrap servers."""
        return str(self._once("kafka", start_test_kafka).bootstrap_servers)

    def spark(self) -> str:
        """Return the address of the Spark Connect server."""
        return str(self._once(SPARK, self._start_spark).remote)

    def s3(self) -> str:
        """Return the object store's address."""
        return str(self._once("s3", start_s3).endpoint)

    def azurite(self) -> str:
        """Return the address of Azure's storage, by its emulator."""
        return str(self._once("azurite", start_azurite).endpoint)

    def gcs(self) -> str:
        """Return the address of Google Cloud Storage, by its emulator."""
        return str(self._once("gcs", start_gcs).endpoint)

    def catalog(self, name: str) -> dict[str, str]:
        """Return PyIceberg's properties for ``postgres``, or for another one over a bucket of its own."""
        if name == "glue":
            return store_at(self.s3()).glue_properties
        if name == "vended":  # its guards are each scenario's own
            return self.catalog("rest")
        return dict(self._once(name, lambda folder: self._start_catalog(name, folder)).properties)

    def secured_kafka(self) -> SecuredKafka:
        """Return the broker that requires TLS, with users of every kind."""
        tokens = self._stack.enter_context(giving_tokens())
        secured = start_secured_kafka(ServerFolder(self._folder, "kafka-secured"), tokens)
        self._stack.callback(secured.server.process.stop)
        return secured

    def registry(self) -> str:
        """Return the address of the schema registry's Confluent API."""
        return str(self._once("registry", start_registry).url)

    def stop(self) -> None:
        """Stop the started servers; the others die with this process."""
        self._stack.close()

    def _once(self, name: str, start: Callable[[ServerFolder], Any]) -> Any:
        with self._starting[name]:
            if name not in self._running:
                server = start(ServerFolder(self._folder, name))
                self._stack.callback(server.process.stop)
                self._running[name] = server
            return self._running[name]

    def _start_spark(self, folder: ServerFolder) -> Any:
        return start_spark_connect(spark_settings(folder, cores=self._spark_cores))

    def _start_catalog(self, name: str, folder: ServerFolder) -> Any:
        return start_postgres(folder) if name == "postgres" else _OVER_S3[name](folder, store_at(self.s3()))


@contextmanager
def running_servers(folder: Path, needs: Iterable[str]) -> Iterator[Testbed]:
    """Start Kafka and the needed servers; they are stopped at the end, or die with this process."""
    servers = Servers(folder, spark_cores=os.cpu_count() or 1)
    needed = set(needs)
    try:
        catalogs = {name: servers.catalog(name) for name in _CATALOGS if name in needed}
        yield Testbed(
            folder,
            servers.kafka(),
            s3_endpoint=servers.s3() if catalogs else "",
            spark_remote=servers.spark() if "spark" in needed else "",
            catalogs=catalogs,
            secured=servers.secured_kafka() if SECURED in needed else None,
            azurite=servers.azurite() if AZURE in needed else "",
            gcs=servers.gcs() if GCS in needed else "",
        )
    finally:
        servers.stop()


def spark_settings(folder: ServerFolder, *, cores: int = 2) -> SparkConnectSettings:
    """Return a Connect server's settings for this folder."""
    return SparkConnectSettings(
        folder,
        home=folder.home,
        port=free_ports(1)[0],
        cores=cores,
        jar_sets=("spark", "spark-s3", "spark-gcs", "spark-postgres"),
    )
