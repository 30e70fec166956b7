"""Gateways far from Kafka by a slow uplink, and pages reloaded during an outage."""

from __future__ import annotations

import base64
import random
import time

import httpx

from prove.hostile.gateway_field import Field, field_with_tab, found, gateway_case, own_field
from prove.lab.gateway_process import GatewayProcess
from prove.lab.slow_uplink import slow_uplink
from prove.scenario import Findings
from prove.workload import Testbed

_BATCHES = 60
_BATCH_BYTES = 960_000
_UPLINK_BYTES = 1_000_000
# Twice what the uplink takes for it, and what is tried in vain before.
_DRAINED_SECONDS = 2 * _BATCHES * _BATCH_BYTES / _UPLINK_BYTES + 60
_PER_PAGE, _PAGES = 20, 3


def _behind_a_slow_uplink(testbed: Testbed) -> Findings:
    """Test sixty spooled batches of a megabyte at a megabyte per second."""
    dice = random.Random(1)
    with (
        own_field(testbed) as (here, brokers),
        slow_uplink(brokers.bootstrap_servers, _UPLINK_BYTES) as (far, uplink),
    ):
        gateway = here.gateway(far)
        brokers.kill()
        for number in range(_BATCHES):
            noise = base64.b64encode(dice.randbytes(_BATCH_BYTES * 3 // 4)).decode()
            answer = httpx.post(
                gateway.url,
                params={"sourceId": "job"},
                json=[{"key": "k", "value": {"id": number, "noise": noise}}],
                timeout=60,
                trust_env=False,
            )
            assert answer.status_code == httpx.codes.ACCEPTED, answer.text
        brokers.start()
        before, began = uplink.sent, time.monotonic()
        while left := _spooled(gateway):
            took = time.monotonic() - began
            assert took < _DRAINED_SECONDS, f"{left} batches are left after {took:.0f} s"
            time.sleep(0.5)
        took, sent = time.monotonic() - began, (uplink.sent - before) / 10**6
        here.lab.drain()
        return found(here.lab, {"job": _BATCHES}, f"{sent:.0f} MB sent in {took:.0f} s")


def _spooled(gateway: GatewayProcess) -> int:
    return int(gateway.wait()["spool"]["batches"])


def _loaded_anew(testbed: Testbed) -> Findings:
    """Test a page that is reloaded during an outage and sends more; then another reload."""
    with field_with_tab(testbed) as (here, brokers, _, tab, origin):
        brokers.kill()
        for number in range(_PAGES):
            tab.load(origin, number * _PER_PAGE)
            tab.send(_PER_PAGE)
            _wait_for_spooled(here, (number + 1) * _PER_PAGE // tab.per_batch)
        brokers.start()
        tab.wait()
        here.lab.drain()
        return found(here.lab, {"tab": _PAGES * _PER_PAGE}, f"{_PAGES} pages, one after the other")


def _wait_for_spooled(here: Field, batches: int) -> None:
    deadline = time.monotonic() + 60
    while _spooled(here.gateways[0]) < batches:
        assert time.monotonic() < deadline, f"{batches} batches are not on the disk"
        time.sleep(0.1)


SCENARIOS = (
    gateway_case("slow-uplink", "a spool of 60 MB drains at 1 MB/s", _behind_a_slow_uplink, is_alone=True),
    gateway_case("reload", "a page is loaded anew while Kafka is away", _loaded_anew),
)
