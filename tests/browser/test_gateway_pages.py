"""The example client of browsers where things are not as it left them: nothing is lost in silence.

The gateway is the real one over a Kafka that only remembers.
"""

from __future__ import annotations

import json
import threading
import time
from typing import TYPE_CHECKING

import httpx
import pytest
from websockets.sync.server import ServerConnection, serve

from gateway import lane as lane_module
from gateway.messages import SLOTS
from prove.lab.gateway_tab import Tab, website
from prove.lab.slow_uplink import PlainUplink, slow_uplink
from tests.support.fake_gateway_kafka import FakeKafka
from tests.support.gateway_server import PATH, away, eventually, gateway

if TYPE_CHECKING:
    from pathlib import Path

    from prove.lab.browser import Page

pytestmark = pytest.mark.xdist_group("browser")


@pytest.fixture(scope="module", autouse=True)
def signed_in() -> None:
    """Nobody asks for a token of Dagster's here."""


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_BETWEEN_TRIES_SECONDS", "RETRY_SECONDS"):
        monkeypatch.setattr(lane_module, name, 0.05)


def test_pages_of_one_source_lose_nothing_in_silence(page: Page, tmp_path: Path) -> None:
    """One is loaded anew while Kafka is away; then a second has the source, and the first tells the rest."""
    of_slots = [FakeKafka() for _ in range(SLOTS)]

    def written() -> list[int]:
        return [json.loads(each.value or b"")["id"] for kafka in of_slots for each in kafka.records]

    with website() as origin, gateway(tmp_path, kafkas=of_slots, origins=[origin]) as address:
        health = f"http://{address.removesuffix(PATH)}/v1/health"
        tab = Tab(page, f"ws://{address}", "")
        away(of_slots, is_away=True)
        for number in range(2):
            tab.load(origin, 5 * number)
            tab.send(5)
            eventually(lambda: httpx.get(health, trust_env=False).json()["spool"]["batches"] == number + 1)  # noqa: B023
        away(of_slots, is_away=False)
        tab.wait()
        assert written() == [*range(10)]
        page.evaluate(
            "window.told = []; client.refused = (...each) => told.push(each); window.first = client; 1"
        )
        page.evaluate(
            f"window.client = new GatewayClient('ws://{address}', 'tab', {{most: 5, seconds: 0.2}}); 1"
        )
        page.wait_until("first.isFenced", seconds=10)
        tab.send(5)
        page.evaluate("first.send({value: {id: 99}}); 1")
        tab.wait()
        assert written() == [*range(15)]
        assert page.evaluate("JSON.stringify(told)") == json.dumps(
            [["no `ok` before another connection took over the source", [{"value": {"id": 99}}]]],
            separators=(",", ":"),
        )


def test_events_come_by_a_slow_uplink_of_the_pages_own(page: Page, tmp_path: Path) -> None:
    """Of two megabytes a second: each goes once, however long a batch is on its way."""
    of_slots = [FakeKafka() for _ in range(SLOTS)]
    with (
        website() as origin,
        gateway(tmp_path, kafkas=of_slots, origins=[origin]) as address,
        slow_uplink(address.removesuffix(PATH), 2e6, PlainUplink) as (far, uplink),
    ):
        Tab(page, f"ws://{far}{PATH}", "").load(origin)
        page.evaluate(
            "for (let i = 0; i < 100; i++) client.send({value: String(i).padStart(4, '0')"
            " + Array.from({length: 14000}, () => Math.random().toString(36)[2]).join('')}); 1"
        )
        page.wait_until("client.waiting === 0", seconds=30)
    values = [json.loads(each.value or b"")[:4] for kafka in of_slots for each in kafka.records]
    assert values == [f"{number:04}" for number in range(100)]
    assert 0.8e6 < uplink.sent < 1.2e6


def test_a_page_believes_a_gateway_that_knows_less_and_comes_ever_less_often(page: Page) -> None:
    """It says so, and goes on at that number; it spun."""
    came, taken = list[float](), list[tuple[int, int]]()

    def talk(socket: ServerConnection) -> None:
        came.append(time.monotonic())
        socket.recv()
        last = 7 if len(came) == 1 else 2
        status = {"type": "status", "lastAckSequence": last, "window": 16, "maxBatchBytes": 1 << 20}
        socket.send(json.dumps(status))
        for text in socket:
            if len(came) < 5:
                return  # it is turned away again and again
            message = json.loads(text)
            number = message["sequenceNumber"]
            taken.append((number, message["events"][0]["value"]["id"]))
            socket.send(json.dumps({"type": "ack", "status": "ok", "sequenceNumber": number}))

    with website() as origin, serve(talk, "127.0.0.1", 0, subprotocols=["sluice.v2"]) as server:  # type: ignore[list-item]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        tab = Tab(page, f"ws://127.0.0.1:{server.socket.getsockname()[1]}", "")
        tab.load(origin)
        page.evaluate("window.told = []; client.warned = (each) => told.push(each); 1")
        tab.send(10)
        tab.wait()
        assert page.evaluate("told.join()") == "the gateway has tab at 2, not at 7: continuing there"
        server.shutdown()
    assert taken == [(3, 0), (4, 5)]
    assert came[4] - came[0] > 0.1 + 0.2 + 0.4
