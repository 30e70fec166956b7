"""Gateways while Kafka is away, dies, or returns with less data."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import httpx

from gateway.messages import slot_of
from gateway.topics import STATES_SUFFIX
from prove.hostile.gateway import POINTS
from prove.hostile.gateway_field import (
    Field,
    expect_killed,
    field_with_tab,
    found,
    gateway_case,
    own_field,
    posted,
)
from prove.lab.brokers import Brokers
from prove.lab.gateway_process import GatewayProcess
from prove.scenario import Findings
from prove.workload import Testbed
from spark_jobs.kafka.admin import KafkaAdmin
from spark_jobs.protocol.errors import SluiceError

AWAY_POINTS = ("after-spooled", *POINTS, "after-drained")
_MARKER_BYTES = 78
_DECIDED_SECONDS = 30.0


def _away(here: Field, brokers: Brokers) -> str:
    """Test a Kafka outage: events are spooled to disk, and sent first afterwards."""
    here.gateway()
    here.start_clients(batches=150)
    brokers.kill()
    here.clients[0].wait_for_status("fallback")
    brokers.start()
    return "Kafka was away"


def _away_and_killed(point: str, here: Field, brokers: Brokers) -> str:
    """Test a gateway that dies at the point during or right after a Kafka outage."""
    gateway = here.gateway()
    here.start_clients(batches=150)
    if point == AWAY_POINTS[0]:
        gateway.kill()
        gateway.start_at(point)
        gateway.wait()
        brokers.kill()
        expect_killed(gateway)
        brokers.start()
    else:
        brokers.kill()
        here.clients[0].wait_for_status("fallback")
        gateway.kill()
        gateway.start_at(point)
        brokers.start()
        expect_killed(gateway)
    gateway.start()
    gateway.wait()
    return f"killed at {point} around Kafka's absence"


def _spool_of_a_dead(here: Field, brokers: Brokers) -> str:
    """Test a dead gateway's spool: clients go elsewhere, and nothing is doubled when it is sent."""
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
            posted(other, 0, 0, here.clients[0].source)
    code = other.code()
    assert code == "gateway-fenced", (code, other.died())
    other.start()
    other.wait()
    return f"the dead one's spool: {sent}"


def _spool_without_its_client(here: Field, brokers: Brokers) -> str:
    """Test spooled batches of a client that never returns: they are in the table."""
    gateway = here.gateway()
    _send_five(gateway)
    brokers.kill()  # whether or not it has written the markers of the last commit
    answered = posted(gateway, 5, 4)
    assert answered.status_code == httpx.codes.ACCEPTED, answered.text
    gateway.kill()
    brokers.start()
    return gateway.drain_spool()


def _markers_lost(here: Field, brokers: Brokers) -> str:
    """Test an answered commit with lost markers: the next producer learns that it is done."""
    gateway, topic = here.gateway(), here.lab.pipeline.topic
    _send_five(gateway)
    admin = KafkaAdmin({"bootstrap.servers": brokers.bootstrap_servers})
    _wait_until_decided(admin, topic)
    ends = admin.source_state(topic).end
    logs = (topic, max(ends, key=ends.__getitem__)), (f"{topic}{STATES_SUFFIX}", slot_of("job"))
    brokers.kill()
    for log in (brokers.log_of(*each) for each in logs):
        os.truncate(log, log.stat().st_size - _MARKER_BYTES)
    brokers.start()
    _wait_until_decided(admin, topic)
    assert posted(gateway, 5, 4).status_code == httpx.codes.OK
    return "markers of a commit were lost"


def _send_five(gateway: GatewayProcess) -> None:
    for number in range(5):
        assert posted(gateway, number, 1).status_code == httpx.codes.OK


def _wait_until_decided(admin: KafkaAdmin, topic: str) -> None:
    """Wait until both topics' transactions are decided after a broker's start."""
    deadline = time.monotonic() + _DECIDED_SECONDS
    while True:
        with suppress(SluiceError):
            if not any(admin.source_state(each).undecided for each in (topic, f"{topic}{STATES_SUFFIX}")):
                return
        assert time.monotonic() < deadline, "a commit stays undecided"
        time.sleep(0.05)


def _in_a_browser(testbed: Testbed) -> Findings:
    """Test the example client in a browser tab while broker and gateway die."""
    quarter = 50
    with field_with_tab(testbed) as (here, brokers, gateway, tab, origin):
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


def _on_own(act: Callable[[Field, Brokers], str], testbed: Testbed) -> Findings:
    with own_field(testbed) as (here, brokers):
        return here.judge(act(here, brokers))


def _of_a_job(act: Callable[[Field, Brokers], str], events: int, testbed: Testbed) -> Findings:
    with own_field(testbed) as (here, brokers):
        happened = act(here, brokers)
        here.lab.drain()
        return found(here.lab, {"job": events}, happened)


SCENARIOS = (
    gateway_case("away", "Kafka is away for some time", partial(_on_own, _away)),
    *(
        gateway_case(
            f"away-kill-{point}",
            f"the gateway dies at {point} around Kafka's absence",
            partial(_on_own, partial(_away_and_killed, point)),
        )
        for point in AWAY_POINTS
    ),
    gateway_case(
        "spool-of-a-dead", "the spool of a dead gateway is sent later", partial(_on_own, _spool_of_a_dead)
    ),
    gateway_case(
        "spool-alone",
        "a spool is sent whose client is gone too",
        partial(_of_a_job, _spool_without_its_client, 9),
    ),
    gateway_case(
        "markers-lost", "a broker forgets to write a commit's markers", partial(_of_a_job, _markers_lost, 9)
    ),
    gateway_case("browser", "a tab sends while gateway and broker die", _in_a_browser),
)
