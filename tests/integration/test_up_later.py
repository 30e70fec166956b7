"""Servers that come up after Sluice, at the address where it looked for them before."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from prove.lab.pipeline_lab import configure, make_lab, orders
from prove.lab.registry_stand_in import RegistryStandIn
from prove.lab.tunnel import pump
from servers.process import free_ports
from spark_jobs.protocol.errors import RetryableError
from tests.support.new_lab import serve_from

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from prove.lab.kafka_server import KafkaBroker
    from prove.lab.s3 import S3

pytestmark = [pytest.mark.kafka, pytest.mark.rest]


@contextmanager
def up_at(port: int, address: str) -> Iterator[None]:
    """Let the server at ``address`` answer at this port of loopback too."""
    host, _, at = address.rpartition(":")
    with socket.create_server(("127.0.0.1", port)) as listener:

        def serve() -> None:
            while True:
                try:
                    client, _ = listener.accept()
                    server = socket.create_connection((host, int(at)))
                except OSError:  # one of them is closed
                    return
                for ends in ((client, server), (server, client)):
                    threading.Thread(target=pump, args=ends, daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        yield


@pytest.mark.parametrize("late", ["broker", "catalog"])
def test_a_pipeline_waits_for_what_is_not_up_yet(
    late: str, kafka: KafkaBroker, rest_catalog_properties: dict[str, str], s3: S3, tmp_path: Path
) -> None:
    """Its first run ends in an error that is worth a retry, and the next, unchanged, drains everything."""
    topic = kafka.new_topic(1)
    kafka.produce(topic, orders(0, 40))
    lab = make_lab(tmp_path, bootstrap=kafka, topic=topic, spark_remote=None)
    serve_from(lab, rest_catalog_properties, s3)
    (port,) = free_ports(1)
    if late == "broker":
        configure(lab, "kafka", {"bootstrap.servers": f"127.0.0.1:{port}"})
        address = str(kafka)
    else:
        configure(lab, "catalog", {"uri": f"http://127.0.0.1:{port}"})
        address = urlsplit(rest_catalog_properties["uri"]).netloc
    with pytest.raises(RetryableError) as raised:
        lab.drain()
    assert raised.value.code == f"{late}-away"
    with up_at(port, address):
        lab.drain()
        found = lab.audit()
    assert found.is_clean, found
    assert (found.rows, found.lag) == (40, 0)


def test_a_pipeline_waits_for_its_registry(kafka: KafkaBroker, tmp_path: Path) -> None:
    """As for the others; nothing of the topic is a dead letter because nobody could say what it is."""
    topic, (port,) = kafka.new_topic(1), free_ports(1)
    lab = make_lab(
        tmp_path,
        bootstrap=kafka,
        topic=topic,
        spark_remote=None,
        value={"format": "avro", "registry": "main"},
    )
    configure(lab, "", {"registries": {"main": {"url": f"http://127.0.0.1:{port}", "timeout": "2s"}}})
    schema = '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}'
    with RegistryStandIn() as registry:
        of_schema = registry.register("orders", schema)
        kafka.produce(topic, [b"\0" + of_schema.to_bytes(4) + b"\x0e"] * 3)
        with pytest.raises(RetryableError) as raised:
            lab.drain()
        assert raised.value.code == "registry-away"
        with up_at(port, urlsplit(registry.url).netloc):
            lab.drain()
    assert lab.rows()["id"].to_pylist() == [7, 7, 7]
    assert lab.audit().is_clean
