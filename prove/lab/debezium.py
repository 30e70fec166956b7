"""A real PostgreSQL captured by a real Debezium, in a standalone Kafka Connect worker."""

from __future__ import annotations

import os
import shutil
import tarfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg2
import requests
from confluent_kafka import Consumer, TopicPartition

from prove.lab.postgres import PASSWORD, USER, PostgresCatalog, start_postgres
from prove.lab.rest_catalog import TEST_LOCK
from servers.environment import FRUGAL_OPTIONS, LOG_SETTINGS, clean_environment, java_home
from servers.jars import jar_paths
from servers.process import ServerFolder, ServerProcess, free_ports

_START_SECONDS = 90.0
_ANSWER_SECONDS = 60.0
_QUIET_SECONDS = 2.0
_JSON = "org.apache.kafka.connect.json.JsonConverter"
_WORKER = {
    "key.converter": _JSON,
    "value.converter": _JSON,
    "plugin.discovery": "service_load",
    "offset.flush.interval.ms": "1000",
}
_CONNECTOR = {
    "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
    "plugin.name": "pgoutput",
    "database.hostname": "127.0.0.1",
    "database.user": USER,
    "database.password": PASSWORD,
    "database.dbname": "postgres",
    "publication.autocreate.mode": "filtered",
    "signal.enabled.channels": "source",
    "signal.data.collection": "public.signals",
    "incremental.snapshot.chunk.size": "10",
    "skipped.operations": "none",  # truncates are told too
    "poll.interval.ms": "50",
    "key.converter": _JSON,
    "value.converter": _JSON,
}


def avro_converters(registry: str) -> dict[str, str]:
    """Return connector settings for Avro with Confluent's ids, at our registry."""
    settings = {
        "": "io.apicurio.registry.utils.converter.AvroConverter",
        ".apicurio.registry.url": registry.replace("ccompat/v7", "registry/v2"),
        ".apicurio.registry.auto-register": "true",
        ".apicurio.registry.as-confluent": "true",
        ".apicurio.registry.use-id": "contentId",
        ".apicurio.registry.headers.enabled": "false",
    }
    return {f"{part}.converter{name}": value for part in ("key", "value") for name, value in settings.items()}


@dataclass(slots=True)
class Debezium:
    """The database, and the worker with its connectors by name, which survive a restart."""

    database: PostgresCatalog
    bootstrap: str
    folder: ServerFolder
    _worker: ServerProcess = field(init=False)
    _address: str = field(init=False)
    _connectors: dict[str, Mapping[str, str]] = field(default_factory=dict)

    def run(self, *statements: str) -> list[tuple[Any, ...]]:
        """Run statements, each in its own transaction; return the last result."""
        session = psycopg2.connect(self.database.properties["uri"])
        session.autocommit = True
        with session.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            rows: list[tuple[Any, ...]] = cursor.fetchall() if cursor.description else []
        session.close()
        return rows

    def overlap(self, first: str, whole: str, last: str) -> None:
        """Run ``whole`` in a transaction during another one of ``first`` and ``last``."""
        session = psycopg2.connect(self.database.properties["uri"])
        with session, session.cursor() as cursor:
            cursor.execute(first)
            self.run(whole)
            cursor.execute(last)
        session.close()

    def capture(self, name: str, *tables: str, with_schemas: bool, more: Mapping[str, str]) -> None:
        """Start a connector for tables, to existing topics ``NAME.public.TABLE``.

        ``more`` are the connector's own settings.
        """
        schemas = str(with_schemas).lower()
        self._connectors[name] = {
            **_CONNECTOR,
            "database.port": self.database.properties["uri"].rpartition(":")[2].partition("/")[0],
            "topic.prefix": name,
            "slot.name": name,
            "publication.name": name,
            "table.include.list": ",".join(f"public.{table}" for table in (*tables, "signals")),
            "key.converter.schemas.enable": schemas,
            "value.converter.schemas.enable": schemas,
            **more,
        }
        self._ask("PUT", f"/connectors/{name}/config", self._connectors[name])

    def remove_connector(self, name: str) -> None:
        """Remove a connector; its stored position stays with its name."""
        self._ask("DELETE", f"/connectors/{name}")
        del self._connectors[name]

    def kill_worker(self) -> None:
        """Kill it like a machine: it forgets what it produced since its last stored position."""
        self._worker.kill()
        self.start_worker()

    def start_worker(self) -> None:
        """Start it and wait for its connectors."""
        (port,) = free_ports(1)
        self._address = f"http://127.0.0.1:{port}"
        settings = {
            **_WORKER,
            "bootstrap.servers": self.bootstrap,
            "listeners": self._address,
            "offset.storage.file.filename": str(self.folder.home / "offsets"),
        }
        self.folder.home.mkdir(parents=True, exist_ok=True)
        properties = self.folder.home / "worker.properties"
        properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        home = java_home()
        command = [
            str(home / "bin" / "java"),
            *("-Xmx512m", *FRUGAL_OPTIONS, f"-Dlog4j2.configurationFile={LOG_SETTINGS}"),
            *("-cp", os.pathsep.join(map(str, _class_path(self.folder)))),
            *("org.apache.kafka.connect.cli.ConnectStandalone", str(properties)),
        ]
        self._worker = ServerProcess(self.folder, command, clean_environment(home))
        self._worker.wait_until(self._is_ready, _START_SECONDS)
        for name, connector in self._connectors.items():
            self._ask("PUT", f"/connectors/{name}/config", connector)

    def stop(self) -> None:
        """End both."""
        self._worker.stop()
        self.database.process.stop()

    def _is_ready(self) -> bool:
        with suppress(requests.ConnectionError, AssertionError):
            self._ask("GET", "/connectors")
            return True
        return False

    def _ask(self, method: str, path: str, body: Mapping[str, str] | None = None) -> None:
        with requests.Session() as session:
            session.trust_env = False  # a proxy is no way to loopback
            answer = session.request(method, self._address + path, json=body, timeout=_ANSWER_SECONDS)
        assert answer.ok, f"Connect refuses {method} {path}: {answer.text}"


def _class_path(folder: ServerFolder) -> list[Path]:
    """Return the jars of Connect and of the connector, which are in one archive."""
    jars = jar_paths("debezium", lock=TEST_LOCK)
    (archive,) = (jar for jar in jars if jar.name.endswith(".tar.gz"))
    target = folder.home / "plugin"
    if not target.exists():
        with tarfile.open(archive) as packed:
            packed.extractall(target, filter="data")
    return [*(jar for jar in jars if jar != archive), *sorted(target.rglob("*.jar"))]


@contextmanager
def open_debezium(folder: Path, bootstrap: str) -> Iterator[Debezium]:
    """Start both, and stop them at the end."""
    database = start_postgres(ServerFolder(folder, "source"), wal_level="logical")
    debezium = Debezium(database, bootstrap, ServerFolder(folder, "connect"))
    try:
        debezium.start_worker()
        yield debezium
    finally:
        debezium.stop()
        shutil.rmtree(debezium.folder.home, ignore_errors=True)


def ends(bootstrap: str, topic: str) -> dict[int, int]:
    """Return the end of each partition."""
    reader = Consumer({"bootstrap.servers": bootstrap, "group.id": "of-nobody"})
    partitions = reader.list_topics(topic, timeout=_ANSWER_SECONDS).topics[topic].partitions
    found = {
        number: reader.get_watermark_offsets(TopicPartition(topic, number), timeout=_ANSWER_SECONDS)[1]
        for number in sorted(partitions)
    }
    reader.close()
    return found


def settled(count: Callable[[], int], *, at_least: int = 0) -> int:
    """Wait until this many came and no more arrive; return the result of ``count``."""
    known, since = count(), time.monotonic()
    while (quiet := time.monotonic() - since) < _QUIET_SECONDS or known < at_least:
        assert quiet < _ANSWER_SECONDS, f"{known} of {at_least} events came"
        time.sleep(0.1)
        if (now := count()) != known:
            known, since = now, time.monotonic()
    return known
