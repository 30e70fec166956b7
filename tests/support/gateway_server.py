"""The gateway's real server over a Kafka that only remembers, and what is said to it."""

from __future__ import annotations

import json
import threading
import time
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast
from unittest.mock import patch

import httpx
import uvicorn
from websockets.sync.client import ClientConnection, connect

from gateway import gateway as gateway_module
from gateway.gateway import Gateway
from gateway.http_api import GatewayApi
from gateway.persisted import Flushes, Persisted
from gateway.tokens import Tokens
from servers.gateway import GUARD, options_of
from servers.serving import guarded
from spark_jobs.config.gateway import GatewaySettings
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.protocol.work import NoFailPoints
from tests.support.fake_gateway_kafka import FakeKafka

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from spark_jobs.connections.connect import Connections

PATH = "/v1/streams/clicks"
PIPELINE = PipelineConfig(name="clicks", topic="clicks", table="lake.clicks", freshness_seconds=60)
MANY = [{"value": 1}] * 50


@contextmanager
def gateway(
    folder: Path,
    tokens: str = "",
    started: list[str] | None = None,
    kafkas: Sequence[FakeKafka] = (),
    **written: Any,
) -> Iterator[str]:
    """The address of one with what is ``written`` under ``gateway``; drains are ``started`` by name.

    ``kafkas`` are what its slots write to; where they are away no slot is waited for.
    """
    settings = GatewaySettings.model_validate({"streams": {"clicks": {"topic": "clicks"}}, **written})
    connections = SimpleNamespace(kafka={}, admin=None, fail_points=NoFailPoints(), refresh=list)
    of_slots = iter(kafkas)
    with patch.object(gateway_module, "Writer", lambda *_: next(of_slots, FakeKafka())):
        own = Gateway(settings, [PIPELINE], cast("Connections", connections), home=folder, url="")
    own.start()
    begun = started if started is not None else []

    def start(name: str) -> SimpleNamespace:
        begun.append(name)
        return SimpleNamespace(poll=lambda: 0)

    api = GatewayApi(
        own,
        Tokens([tokens] if tokens else []),
        Persisted(cast("Connections", connections), settings.memory.persisted),
        Flushes(start),
        settings.origins,
    )
    options = {**options_of(settings), "port": 0}
    server = uvicorn.Server(guarded(api.app(), settings, guard=GUARD, options=options))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not (server.started and (any(each.is_away for each in kafkas) or own.look()["isReady"])):
            assert thread.is_alive()
            time.sleep(0.01)
        yield f"127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}{PATH}"
    finally:
        server.should_exit = True
        thread.join()
        own.close()


@contextmanager
def talking(address: str, source: str, **how: Any) -> Iterator[ClientConnection]:
    """A connection of a source that has said who it is."""
    with connect(f"ws://{address}", proxy=None, **how) as socket:
        assert ask(socket, {"type": "connect", "sourceId": source})["type"] == "status"
        yield socket


def ask(socket: ClientConnection, message: dict[str, Any]) -> dict[str, Any]:
    """What is answered to a message."""
    socket.send(json.dumps(message))
    return dict(json.loads(socket.recv(10)))


def sent(socket: ClientConnection, number: int = 1) -> str:
    """What is said of a batch of fifty: its status, or the reason against it."""
    answer = ask(socket, {"type": "cdc_batch", "sequenceNumber": number, "events": MANY})
    return str(answer.get("status") or answer["reason"])


def eventually(is_so: Callable[[], bool], seconds: float = 10) -> None:
    """Wait until it is."""
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def away(kafkas: list[FakeKafka], *, is_away: bool) -> None:
    """Have Kafka leave, or come back."""
    for kafka in kafkas:
        kafka.is_away = is_away


def posted(address: str, source: str = "a", body: Any = MANY, **asked: Any) -> httpx.Response:
    """What is answered to a POST of fifty events, or of another body; ``asked``: how."""
    params = {**({"sourceId": source} if source else {}), **asked.pop("params", {})}
    return httpx.post(f"http://{address}", params=params, json=body, trust_env=False, **asked)
