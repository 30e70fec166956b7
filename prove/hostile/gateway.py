"""The gateway, killed at every step while clients repeat, skip, reconnect and leave, and while Kafka is away.

Each event is in the table once, those of a source in their order.
"""

from __future__ import annotations

import hashlib
import os
import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import yaml
from websockets.exceptions import WebSocketException
from websockets.sync.client import connect

from bootstrap.browser import ensure_browser
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
from spark_jobs.config.gateway import SLOTS
from spark_jobs.gateway.words import slot_of

ONCE = "each event is in the table once, those of a source in their order"
POINTS = ("after-taken", "after-begin", "before-commit", "after-commit", "before-answer")
AWAY_POINTS = ("after-spooled", "after-taken", "before-commit", "after-commit", "after-drained")
_BATCHES = 60
_CLIENTS = 3
_FRAMES = 3_000
_SOCKETS = 1_000
_MOST_GROWN_BYTES = 100 * 10**6


@dataclass(slots=True)
class Field:
    """A pipeline, and gateways of its topic, each with a folder and a spool of its own."""

    lab: Lab
    gateways: list[GatewayProcess]
    clients: list[HostileClient]
    stack: ExitStack

    def gateway(self, **settings: Any) -> GatewayProcess:
        """Start one more and wait for it."""
        folder = self.lab.path.parent / unique_name("gateway")
        (folder / "home").mkdir(parents=True)
        document = yaml.safe_load(self.lab.path.read_text())
        document["gateway"] = gateway_settings(self.lab.pipeline.topic, **settings)
        path = folder / "sluice.yaml"
        path.write_text(yaml.safe_dump(document))
        gateway = GatewayProcess(path)
        self.stack.callback(gateway.kill)
        self.gateways.append(gateway)
        gateway.wait()
        return gateway

    def sockets(self) -> Sequence[str]:
        """Return where clients may connect."""
        return [each.socket for each in self.gateways]

    def client(self, source: str, batches: int = _BATCHES) -> HostileClient:
        """Start a client that goes to any of the gateways."""
        client = HostileClient(source, self.sockets, batches)
        self.clients.append(client)
        client.start()
        return client

    def start_clients(self, batches: int = _BATCHES) -> None:
        """Start some, whose sources are of several slots."""
        for number in range(_CLIENTS):
            self.client(f"browser-{number}", batches)
        for client in self.clients:
            client.wait_for(3)

    def judge(self, happened: str) -> Findings:
        """Let all clients finish, drain, and look for each event."""
        for client in self.clients:
            client.finish()
        self.lab.drain()
        return found(self.lab, {each.source: each.batches * PER_BATCH for each in self.clients}, happened)


def found(lab: Lab, wanted: dict[str, int], happened: str) -> Findings:
    """Count what is in the table of each source, whose events are numbered from 0 on."""
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
    """A pipeline over a new topic of one partition's order for each source."""
    topic = KafkaBroker(kafka).new_topic(2, retention_ms=-1)
    folder = testbed.folder / topic
    folder.mkdir()
    lab = make_lab(folder, bootstrap=kafka, topic=topic, spark_remote=None)
    with ExitStack() as stack:
        yield Field(lab, [], [], stack)


def _killed_at(point: str, here: Field) -> str:
    """One dies at the point, and another process takes over."""
    gateway = here.gateway()
    here.start_clients()
    gateway.kill()
    gateway.start_at(point)
    _expect_killed(gateway)
    gateway.start()
    gateway.wait()
    return f"killed at {point}"


def _expect_killed(gateway: GatewayProcess) -> None:
    ended = gateway.died()
    assert ended == -9, f"it was not killed there: {ended} {gateway.code()}"


def _killed_often(here: Field) -> str:
    gateway, dice = here.gateway(), random.Random(1)
    here.start_clients(batches=300)
    kills = 0
    while any(client.is_alive() for client in here.clients) and kills < 12:
        time.sleep(dice.uniform(0.05, 0.8))
        gateway.kill()
        gateway.start()
        gateway.wait()
        kills += 1
    return f"killed {kills} times"


def _two_of_one_name(here: Field) -> str:
    """The second takes the first one's slots; whoever was there goes over."""
    first = here.gateway()
    here.start_clients(batches=150)
    here.gateway()
    first.died()
    code = first.code()
    assert code == "gateway-fenced", f"the first one ended with {code!r}"
    return "the first one ended with gateway-fenced"


def _stopped(here: Field) -> str:
    """One that is told to end answers what it has taken, and ends well."""
    gateway = here.gateway()
    here.start_clients(batches=150)
    code = gateway.stop()
    assert not code, code
    here.gateway()
    return "told to end"


def _behind_a_balancer(here: Field) -> str:
    """Two have half of the slots each; whoever comes to the wrong one is told the right one."""
    low, high = here.gateway(sources="0-3/8"), here.gateway(sources="4-7/8")
    names = [f"browser-{number}" for number in range(20)]
    both = [
        next(name for name in names if (slot_of(name) < SLOTS // 2) is is_low) for is_low in (True, False)
    ]
    for name in both:
        here.client(name)
    wrong = httpx.post(high.url, params={"sourceId": both[0]}, json=[], trust_env=False)
    told = wrong.json()["error"]["details"]["gateway"]
    assert wrong.status_code == httpx.codes.CONFLICT, wrong.text
    assert told == low.url, told
    return "two gateways, half of the slots each"


def _fuzzed(here: Field) -> str:
    """Frames that are none, and requests that are none; who behaves is served all the time."""
    gateway, dice = here.gateway(), random.Random(1)
    here.start_clients()
    for _ in range(_FRAMES // 100):
        try:
            with connect(gateway.socket, proxy=None, max_queue=None) as socket:
                for _ in range(100):
                    socket.send(_frame(dice))
        except (OSError, WebSocketException):
            pass
        httpx.post(
            gateway.url, content=_frame(dice), headers={"Content-Type": "application/json"}, trust_env=False
        )
    assert gateway.is_alive
    assert gateway.wait()["state"]
    return f"{_FRAMES:,} frames of noise"


def _frame(dice: random.Random) -> str | bytes:
    seeds = (
        '{"type":"cdc_batch","sequenceNumber":%s,"events":[%s]}',
        '{"type":"connect","sourceId":%s,"capabilities":%s}',
        "[" * dice.randint(1, 5_000) + "%s%s",
        '{"type":"heartbeat","timestamp":%s,"x":%s}',
        "%s%s",
    )
    parts = ("1e999", "-1", "null", "{}", '"\\ud800"', "[1,2", "9" * 400, '{"value":NaN}', '"fuzz"', "\x00")
    text = dice.choice(seeds) % (dice.choice(parts), dice.choice(parts))
    if dice.random() < 0.3:
        at = dice.randrange(len(text))
        text = text[:at] + chr(dice.randrange(1, 1_000)) + text[at + 1 :]
    return text if dice.random() < 0.9 else os.urandom(dice.randint(0, 200))


def _idle(here: Field) -> str:
    """A thousand sockets that say nothing but who they are."""
    gateway = here.gateway()
    here.start_clients()
    before = _resident(gateway.pid)
    with ExitStack() as stack:
        for number in range(_SOCKETS):
            socket = stack.enter_context(connect(gateway.socket, proxy=None))
            socket.send(f'{{"type":"connect","sourceId":"idle-{number}","protocolVersion":1}}')
            socket.recv(30)
        grown = _resident(gateway.pid) - before
        for client in here.clients:
            client.finish()
    assert grown < _MOST_GROWN_BYTES, f"{_SOCKETS:,} sockets took {grown / 1e6:,.0f} MB"
    return f"{_SOCKETS:,} idle sockets took {grown / 1e6:,.0f} MB"


def _resident(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _away(here: Field, brokers: Brokers) -> str:
    """Kafka dies and comes back; what came meanwhile lies on the disk, and goes first."""
    here.gateway()
    here.start_clients(batches=150)
    brokers.kill()
    here.clients[0].wait_for_status("fallback")
    brokers.start()
    return "Kafka was away"


def _away_and_killed(point: str, here: Field, brokers: Brokers) -> str:
    """The gateway dies at the point while Kafka is away, or has just come back."""
    gateway = here.gateway()
    here.start_clients(batches=150)
    if point == AWAY_POINTS[0]:
        gateway.kill()
        gateway.start_at(point)
        gateway.wait()
        brokers.kill()
        _expect_killed(gateway)
        brokers.start()
    else:
        brokers.kill()
        here.clients[0].wait_for_status("fallback")
        gateway.kill()
        gateway.start_at(point)
        brokers.start()
        _expect_killed(gateway)
    gateway.start()
    gateway.wait()
    return f"killed at {point} around Kafka's absence"


def _spool_of_a_dead(here: Field, brokers: Brokers) -> str:
    """Its clients go to another gateway; its spool is sent later, and doubles nothing."""
    dead = here.gateway()
    here.start_clients(batches=150)
    brokers.kill()
    here.clients[0].wait_for_status("fallback")
    dead.kill()
    brokers.start()
    other = here.gateway()
    here.gateways.remove(dead)
    for client in here.clients:
        client.wait_for(client.batches // 2)
    for client in here.clients:
        client.finish()
    sent = dead.drain_spool()
    # Its slots were taken to send them: the next batch tells it.
    while other.is_alive:
        with suppress(httpx.TransportError):
            _posted(other, 0, 0, here.clients[0].source)
    code = other.code()
    assert code == "gateway-fenced", (code, other.died())
    other.start()
    other.wait()
    return f"the dead one's spool: {sent}"


def _spool_without_its_client(here: Field, brokers: Brokers) -> str:
    """A client that goes for good has its spooled batches in the table all the same."""
    gateway = here.gateway()
    for number in range(5):
        assert _posted(gateway, number, 1).status_code == httpx.codes.OK
    # A broker that is killed while it writes the markers of a commit may take a minute to write them.
    time.sleep(1)
    brokers.kill()
    answered = _posted(gateway, 5, 4)
    assert answered.status_code == httpx.codes.ACCEPTED, answered.text
    gateway.kill()
    brokers.start()
    return gateway.drain_spool()


def _in_a_browser(testbed: Testbed) -> Findings:
    """The example client in a tab, while the broker dies, and the gateway before it is back."""
    assert ensure_browser(), "there is no browser"
    token, quarter = "hunter2-Tr0ub4dor-and-3", 50
    with (
        own_broker(testbed.folder / unique_name("kafka")) as brokers,
        field(testbed, brokers.bootstrap_servers) as here,
        website() as origin,
        open_browser(ServerFolder(testbed.folder / unique_name("browser"), "browser")) as page,
    ):
        tokens = f"{hashlib.sha256(token.encode()).hexdigest()} * - - 5"
        gateway = here.gateway(origins=[origin], tokens=[tokens])
        tab = Tab(page, gateway.socket, token)
        tab.load(origin)
        tab.send(quarter)
        tab.wait()
        gateway.kill()
        tab.send(quarter)
        gateway.start()
        tab.wait()
        brokers.kill()
        tab.send(quarter)
        gateway.kill()
        brokers.start()
        tab.send(quarter)
        gateway.start()
        tab.wait()
        here.lab.drain()
        return found(here.lab, {"tab": 4 * quarter}, "a tab went on through both deaths")


def _posted(gateway: GatewayProcess, first: int, count: int, source: str = "job") -> httpx.Response:
    events = [{"key": "k", "value": {"id": number}} for number in range(first, first + count)]
    return httpx.post(gateway.url, params={"sourceId": source}, json=events, timeout=60, trust_env=False)


def _on_shared(act: Callable[[Field], str], testbed: Testbed) -> Findings:
    with field(testbed, testbed.kafka) as here:
        return here.judge(act(here))


def _on_own(act: Callable[[Field, Brokers], str], testbed: Testbed) -> Findings:
    with (
        own_broker(testbed.folder / unique_name("kafka")) as brokers,
        field(testbed, brokers.bootstrap_servers) as here,
    ):
        return here.judge(act(here, brokers))


def _alone(testbed: Testbed) -> Findings:
    with (
        own_broker(testbed.folder / unique_name("kafka")) as brokers,
        field(testbed, brokers.bootstrap_servers) as here,
    ):
        happened = _spool_without_its_client(here, brokers)
        here.lab.drain()
        return found(here.lab, {"job": 9}, happened)


def _scenario(
    name: str, title: str, run: Callable[[Testbed], Findings], *, is_alone: bool = False
) -> Scenario:
    return scenario_on(
        f"gateway/{name}", title, ONCE, run, group="events through a gateway", is_alone=is_alone
    )


SCENARIOS = (
    *(
        _scenario(
            f"kill-{point}", f"the gateway dies at {point}", partial(_on_shared, partial(_killed_at, point))
        )
        for point in POINTS
    ),
    _scenario("killed-often", "the gateway is killed again and again", partial(_on_shared, _killed_often)),
    _scenario(
        "two-of-one-name", "a second gateway has the same sources", partial(_on_shared, _two_of_one_name)
    ),
    _scenario("stopped", "the gateway is told to end", partial(_on_shared, _stopped)),
    _scenario("balancer", "two gateways share a stream by slots", partial(_on_shared, _behind_a_balancer)),
    _scenario("fuzzed", "noise comes beside clients", partial(_on_shared, _fuzzed)),
    _scenario("idle", "1,000 sockets are idle", partial(_on_shared, _idle), is_alone=True),
    _scenario("away", "Kafka is away for some time", partial(_on_own, _away)),
    *(
        _scenario(
            f"away-kill-{point}",
            f"the gateway dies at {point} around Kafka's absence",
            partial(_on_own, partial(_away_and_killed, point)),
        )
        for point in AWAY_POINTS
    ),
    _scenario(
        "spool-of-a-dead", "the spool of a dead gateway is sent later", partial(_on_own, _spool_of_a_dead)
    ),
    _scenario("spool-alone", "a spool is sent whose client is gone too", _alone),
    _scenario("browser", "a tab sends while gateway and broker die", _in_a_browser),
)
