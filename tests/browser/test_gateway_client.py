"""The example client in a real browser, through deaths of the gateway: each event once.

Deaths of the broker are prove's, which has a broker of its own for them: `gateway/browser`.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pytest

from prove.lab.gateway_process import taking_events
from prove.lab.gateway_tab import Tab, website
from tests.support.new_lab import NewLab

if TYPE_CHECKING:
    from pathlib import Path

    from prove.lab.browser import Page
    from prove.lab.kafka_server import KafkaBroker

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("browser")]

TOKEN = "hunter2-Tr0ub4dor-and-3"
EVENTS = 150


@pytest.fixture(scope="module", autouse=True)
def signed_in() -> None:
    """Nobody asks for a token of Dagster's here."""


def test_a_tab_sends_through_deaths_of_the_gateway(page: Page, kafka: KafkaBroker, tmp_path: Path) -> None:
    """By a token, from an origin that is named; a page of another is not let in, nor what is too large."""
    lab = NewLab(kafka, "", tmp_path, is_here=True)()
    tokens = f"{hashlib.sha256(TOKEN.encode()).hexdigest()} orders - - 5"
    with (
        website() as origin,
        website() as other,
        taking_events(lab, origins=[origin], tokens=[tokens]) as gateway,
    ):
        tab = Tab(page, gateway.socket, TOKEN)
        tab.load(other)
        tab.send(1)
        tab.load(origin)
        page.evaluate("window.refused = []; client.refused = (...told) => refused.push(told); 1")
        page.evaluate("client.send({value: 'x'.repeat(2 << 20)}); 1")
        tab.send(EVENTS // 3)
        tab.wait()
        assert page.evaluate("refused.length") == 1
        gateway.kill()
        tab.send(EVENTS // 3)
        gateway.start()
        gateway.wait()
        tab.send(EVENTS // 3)
        gateway.kill()  # wherever it is with them
        gateway.start()
        tab.wait()
    lab.drain()
    rows = sorted(lab.rows().to_pylist(), key=lambda row: row["_kafka_offset"])
    assert [row["id"] for row in rows] == list(range(EVENTS))
