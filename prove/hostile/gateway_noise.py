"""Noise at a gateway: invalid frames, and a thousand idle clients."""

from __future__ import annotations

import os
import random
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import httpx
from websockets.exceptions import WebSocketException
from websockets.sync.client import connect

from prove.hostile.gateway import on_shared
from prove.hostile.gateway_field import Field, gateway_case

_FRAMES = 3_000
_LEFT_SECONDS = 10.0
_SOCKETS = 1_000
_MOST_GROWN_BYTES = 100 * 10**6


def _fuzzed(here: Field) -> str:
    """Test invalid frames and requests; a well-behaved client is always served."""
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
    for client in here.clients:
        client.finish()
    deadline = time.monotonic() + _LEFT_SECONDS
    while gateway.wait()["connectedSources"]:
        assert time.monotonic() < deadline, "who has left is counted still"
        time.sleep(0.05)
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
    """Test a thousand sockets that only introduce themselves."""
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


SCENARIOS = (
    gateway_case("fuzzed", "noise comes beside clients", partial(on_shared, _fuzzed)),
    gateway_case("idle", "1,000 sockets are idle", partial(on_shared, _idle), is_alone=True),
)
