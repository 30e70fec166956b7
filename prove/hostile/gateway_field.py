"""Fixtures of gateway cases: a pipeline, its gateways, and misbehaving clients."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import yaml

from prove.lab.brokers import Brokers, own_broker
from prove.lab.browser import open_browser
from prove.lab.gateway_client import PER_BATCH, HostileClient
from prove.lab.gateway_process import GatewayProcess, gateway_settings
from prove.lab.gateway_tab import Tab, website
from prove.lab.kafka_server import KafkaBroker, unique_name
from prove.lab.pipeline_lab import Lab, make_lab
from prove.scenario import Findings, Scenario, scenario_on
from prove.workload import Testbed
from servers.process import ServerFolder

ONCE = "each event is in the table once, those of a source in their order"
_BATCHES = 60
_CLIENTS = 3
_TOKEN = "hunter2-Tr0ub4dor-and-3"


@dataclass(slots=True)
class Field:
    """A pipeline, and gateways of its topic, each with its own folder and spool."""

    lab: Lab
    gateways: list[GatewayProcess]
    clients: list[HostileClient]
    stack: ExitStack

    def gateway(self, kafka: str = "", **settings: Any) -> GatewayProcess:
        """Start a gateway and wait for it; ``kafka`` overrides its broker address."""
        folder = self.lab.path.parent / unique_name("gateway")
        (folder / "home").mkdir(parents=True)
        document = yaml.safe_load(self.lab.path.read_text())
        document["gateway"] = gateway_settings(self.lab.pipeline.topic, **settings)
        if kafka:
            document["kafka"]["bootstrap.servers"] = kafka
        path = folder / "sluice.yaml"
        path.write_text(yaml.safe_dump(document))
        gateway = GatewayProcess(path)
        self.stack.callback(gateway.kill)
        self.gateways.append(gateway)
        gateway.wait()
        return gateway

    def sockets(self) -> Sequence[str]:
        """Return the gateways' socket addresses."""
        return [each.socket for each in self.gateways]

    def client(self, source: str, batches: int = _BATCHES) -> HostileClient:
        """Start a client of all gateways."""
        client = HostileClient(source, self.sockets, batches)
        self.clients.append(client)
        client.start()
        return client

    def start_clients(self, batches: int = _BATCHES) -> None:
        """Start clients whose sources are in several slots."""
        for number in range(_CLIENTS):
            self.client(f"browser-{number}", batches)
        for client in self.clients:
            client.wait_for(3)

    def judge(self, happened: str) -> Findings:
        """Wait for all clients, drain, and look for each event."""
        for client in self.clients:
            client.finish()
        self.lab.drain()
        return found(self.lab, {each.source: each.batches * PER_BATCH for each in self.clients}, happened)


def found(lab: Lab, wanted: dict[str, int], happened: str) -> Findings:
    """Count the table's events of each source, numbered from 0 on."""
    rows = sorted(lab.rows().to_pylist(), key=lambda row: (row["_kafka_partition"], row["_kafka_offset"]))
    seen: defaultdict[str, list[int]] = defaultdict(list)
    ordinals: defaultdict[str, list[int]] = defaultdict(list)
    for row in rows:
        headers = {each["key"]: each["value"].decode() for each in row["_kafka_headers"]}
        seen[headers["sluice-source"]].append(row["id"])
        ordinals[headers["sluice-source"]].append(int(headers["sluice-event"]))
    lost = sum(len({*range(count)} - {*seen[source]}) for source, count in wanted.items())
    doubled = sum(len(ids) - len({*ids}) for ids in seen.values())
    disorder = [source for source, ids in seen.items() if ids != sorted(ids)]
    gaps = [source for source, each in ordinals.items() if each != [*range(1, len(each) + 1)]]
    unkept = f"not in order: {disorder}; counted wrong: {gaps}" if disorder or gaps else ""
    return Findings(f"{happened}; {len(rows):,} events", lost, doubled, unkept=unkept)


@contextmanager
def field(testbed: Testbed, kafka: str) -> Iterator[Field]:
    """Yield a pipeline over a new topic with one partition order per source."""
    topic = KafkaBroker(kafka).new_topic(2, retention_ms=-1)
    folder = testbed.folder / topic
    folder.mkdir()
    lab = make_lab(folder, bootstrap=kafka, topic=topic, spark_remote=None)
    with ExitStack() as stack:
        yield Field(lab, [], [], stack)


@contextmanager
def own_field(testbed: Testbed) -> Iterator[tuple[Field, Brokers]]:
    """Yield a ``field`` with its own broker."""
    with (
        own_broker(testbed.folder / unique_name("kafka")) as brokers,
        field(testbed, brokers.bootstrap_servers) as here,
    ):
        yield here, brokers


def expect_killed(gateway: GatewayProcess) -> None:
    """Wait for its death by a signal."""
    ended = gateway.died()
    assert ended == -9, f"it was not killed there: {ended} {gateway.code()}"


def posted(gateway: GatewayProcess, first: int, count: int, source: str = "job") -> httpx.Response:
    """Post this many events, numbered from the first."""
    events = [{"key": "k", "value": {"id": number}} for number in range(first, first + count)]
    return httpx.post(gateway.url, params={"sourceId": source}, json=events, timeout=60, trust_env=False)


def gateway_case(
    name: str, title: str, run: Callable[[Testbed], Findings], *, is_alone: bool = False
) -> Scenario:
    """Return the case as a scenario."""
    return scenario_on(
        f"gateway/{name}", title, ONCE, run, group="events through a gateway", is_alone=is_alone
    )


@contextmanager
def field_with_tab(testbed: Testbed) -> Iterator[tuple[Field, Brokers, GatewayProcess, Tab, str]]:
    """Yield a field with a gateway, the example client in a browser tab, and its web site."""
    with (
        own_field(testbed) as (here, brokers),
        website() as origin,
        open_browser(ServerFolder(testbed.folder / unique_name("browser"), "browser")) as page,
    ):
        tokens = f"{hashlib.sha256(_TOKEN.encode()).hexdigest()} * - - 5"
        gateway = here.gateway(origins=[origin], tokens=[tokens])
        yield here, brokers, gateway, Tab(page, gateway.socket, _TOKEN), origin
