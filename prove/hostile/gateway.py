"""A gateway killed at every step while clients repeat, skip, reconnect and leave.

Each event is in the table once, those of a source in their order.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from functools import partial

import httpx

from gateway.messages import slot_of
from prove.hostile.gateway_field import Field, expect_killed, field, gateway_case
from prove.scenario import Findings
from prove.workload import Testbed
from spark_jobs.config.gateway import SLOTS

POINTS = ("after-taken", "after-begin", "before-commit", "after-commit", "before-answer")


def _killed_at(point: str, here: Field) -> str:
    """Test a gateway that dies at the point, and its successor."""
    gateway = here.gateway()
    here.start_clients()
    gateway.kill()
    gateway.start_at(point)
    expect_killed(gateway)
    gateway.start()
    gateway.wait()
    return f"killed at {point}"


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
    """Test two gateways of one name: the second takes the first one's slots and clients."""
    first = here.gateway()
    here.start_clients(batches=150)
    here.gateway()
    first.died()
    code = first.code()
    assert code == "gateway-fenced", f"the first one ended with {code!r}"
    return "the first one ended with gateway-fenced"


def _stopped(here: Field) -> str:
    """Test a stopped gateway: it answers what it accepted, and ends well."""
    gateway = here.gateway()
    here.start_clients(batches=150)
    code = gateway.stop()
    assert not code, code
    here.gateway()
    return "told to end"


def _behind_a_balancer(here: Field) -> str:
    """Test two gateways with half of the slots each; both die, and clients are redirected."""
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
    for gateway in (low, high):
        gateway.kill()
        gateway.start()
        gateway.wait()
    return "two gateways, half of the slots each, both killed"


def on_shared(act: Callable[[Field], str], testbed: Testbed) -> Findings:
    """Run it over the shared broker."""
    with field(testbed, testbed.kafka) as here:
        return here.judge(act(here))


SCENARIOS = (
    *(
        gateway_case(
            f"kill-{point}", f"the gateway dies at {point}", partial(on_shared, partial(_killed_at, point))
        )
        for point in POINTS
    ),
    gateway_case("killed-often", "the gateway is killed again and again", partial(on_shared, _killed_often)),
    gateway_case(
        "two-of-one-name", "a second gateway has the same sources", partial(on_shared, _two_of_one_name)
    ),
    gateway_case("stopped", "the gateway is told to end", partial(on_shared, _stopped)),
    gateway_case("balancer", "two gateways share a stream by slots", partial(on_shared, _behind_a_balancer)),
)
