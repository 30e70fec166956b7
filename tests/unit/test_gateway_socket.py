"""Connections to the gateway by WebSocket: who may have one, what is said on it, and how it ends."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from contextlib import suppress
from datetime import datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import httpx
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from docs.clients.gateway_client import GatewayClient
from gateway import lane as lane_module
from gateway.messages import SLOTS
from gateway.persisted import Persisted
from gateway.session import Session
from gateway.topics import Stand
from spark_jobs.config.gateway import StreamSettings
from tests.support.fake_gateway_kafka import FakeKafka
from tests.support.gateway_server import MANY, PATH, ask, away, eventually, gateway, posted, sent, talking

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_BETWEEN_TRIES_SECONDS", "_START_RETRY_SECONDS", "RETRY_SECONDS"):
        monkeypatch.setattr(lane_module, name, 0.05)


def test_a_token_has_so_many_connections(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The next one is turned away until one of them is closed; the log has no error of that."""
    by_token = {"Authorization": "Bearer secret"}
    line = f"{hashlib.sha256(b'secret').hexdigest()} * - - 1"
    with gateway(tmp_path, tokens=line) as address:
        with talking(address, "a", additional_headers=by_token):
            with pytest.raises(InvalidStatus) as refused, talking(address, "b", additional_headers=by_token):
                pass
            assert refused.value.response.status_code == 429
            assert posted(address, "c", headers=by_token).status_code == 200
        deadline = time.monotonic() + 10
        while True:
            try:
                with talking(address, "b", additional_headers=by_token):
                    break
            except InvalidStatus:
                assert time.monotonic() < deadline
        assert "ERROR" not in capfd.readouterr().err


def test_who_says_nothing_is_closed_and_who_sends_heartbeats_is_not(tmp_path: Path) -> None:
    """`idle` counts from the last message."""
    with gateway(tmp_path, idle="1s") as address, talking(address, "a") as socket:
        for _ in range(3):
            time.sleep(0.5)
            assert ask(socket, {"type": "heartbeat"})["type"] == "pong"
        with pytest.raises(ConnectionClosed) as closed:
            socket.recv(10)
        assert closed.value.rcvd is not None
        assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (1001, "idle")


def test_whoever_asks_a_drain_is_started_once_in_freshness(tmp_path: Path) -> None:
    """By the first that asks, over any connection; the answer says so."""
    started: list[str] = []
    with (
        gateway(tmp_path, started=started) as address,
        talking(address, "a") as one,
        talking(address, "b") as other,
    ):
        told = [ask(each, {"type": "flush_request"})["flush"] for each in (one, other, one)]
    assert told == ["started", "too_soon", "too_soon"]
    assert started == ["clicks"]


def test_of_two_tabs_with_one_source_the_later_has_it(tmp_path: Path) -> None:
    """The earlier is told, and nothing more is taken of it; an event of either is nowhere else than told."""
    of_slots = [FakeKafka() for _ in range(SLOTS)]
    with gateway(tmp_path, kafkas=of_slots) as address, talking(address, "a") as one:
        assert sent(one) == "ok"
        with talking(address, "a") as other:
            told = json.loads(one.recv(10))
            assert (told["reason"], told["shouldRetry"]) == ("fenced", False)
            with pytest.raises(ConnectionClosed):
                sent(one, 2)
            mine = {"type": "cdc_batch", "sequenceNumber": 1, "events": [{"value": "mine"}]}
            answer = ask(other, mine)
            assert (answer["reason"], answer["details"]["expected"]) == ("invalid_sequence", 2)
            with pytest.raises(ConnectionClosed):  # its second batch would fit, and come before its first
                ask(other, {**mine, "sequenceNumber": 2})
        assert posted(address, body={**mine, "sourceId": "a"}).status_code == 409
        with talking(address, "a") as other:
            assert ask(other, {**mine, "sequenceNumber": 2})["status"] == "ok"
    assert [each.value for kafka in of_slots for each in kafka.records] == [b"1"] * 50 + [b'"mine"']


def test_who_is_fenced_waits_for_no_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else who has its source now is told of none, as long as its pipeline is paused."""
    monkeypatch.setattr(Persisted, "_done", lambda *_: [])
    hello = {"type": "connect", "sourceId": "a", "capabilities": ["persisted"]}
    with (
        gateway(tmp_path, memory={"persisted": 1}) as address,
        connect(f"ws://{address}", proxy=None) as one,
        connect(f"ws://{address}", proxy=None) as other,
    ):
        for number, socket in enumerate((one, other), 1):
            ask(socket, hello)
            assert sent(socket, number) == "ok"
        metrics = httpx.get(f"http://{address.removesuffix(PATH)}/metrics", trust_env=False).text
    assert "sluice_gateway_persisted_untold_total{" not in metrics


@pytest.mark.parametrize("version", [1, 2])
def test_a_page_that_is_loaded_anew_while_kafka_is_away_goes_on_behind_what_is_accepted(
    tmp_path: Path, version: int
) -> None:
    """Told what Kafka has, its new events were answered `duplicate`, and lost."""
    of_slots = [FakeKafka() for _ in range(SLOTS)]
    hello = {"type": "connect", "sourceId": "a", "protocolVersion": version}
    with gateway(tmp_path, kafkas=of_slots) as address:
        away(of_slots, is_away=True)
        for number in (1, 2):
            with connect(f"ws://{address}", proxy=None) as page:
                assert ask(page, hello)["lastAckSequence"] == number - 1
                new = {"type": "cdc_batch", "sequenceNumber": number, "events": [{"value": number}]}
                assert ask(page, new)["status"] == "fallback"
                pong = ask(page, {"type": "heartbeat"})
                assert pong["lastAckSequence"] == (0 if version == 1 else number)
                assert pong.get("lastOkSequence") == (None if version == 1 else 0)
        away(of_slots, is_away=False)
        eventually(lambda: sum(len(kafka.records) for kafka in of_slots) == 2)
    assert [each.value for kafka in of_slots for each in kafka.records] == [b"1", b"2"]


def test_a_token_may_be_of_some_sources(tmp_path: Path) -> None:
    """By WebSocket and by POST: who guesses another's name cannot send as it, nor fence it."""
    by_token = {"Authorization": "Bearer secret"}
    line = f"{hashlib.sha256(b'secret').hexdigest()} * - - - name=web sources=browser-*,job"
    with gateway(tmp_path, tokens=line) as address:
        for source, status in (("browser-1", 200), ("job", 200), ("jobs", 403)):
            assert posted(address, source, headers=by_token).status_code == status
        with connect(f"ws://{address}", proxy=None, additional_headers=by_token) as socket:
            told = ask(socket, {"type": "connect", "sourceId": "jobs"})
            assert (told["reason"], told["details"]["field"]) == ("invalid_format", "sourceId")
            assert ask(socket, {"type": "connect", "sourceId": "browser-1"})["lastAckSequence"] == 1


def test_who_sends_is_shown_to_a_token_that_may_look(tmp_path: Path) -> None:
    """Since when, under what name, by which token, how far; to no other token, and of its own streams."""
    names = {"web": "* - - - name=web", "ops": "clicks - - - look", "else": "others - - - look"}
    tokens = "\n".join(f"{hashlib.sha256(name.encode()).hexdigest()} {line}" for name, line in names.items())

    def look(address: str, name: str) -> httpx.Response:
        url = f"http://{address.removesuffix(PATH)}/v1/sources"
        headers = {"Authorization": f"Bearer {name}"} if name else {}
        return httpx.get(url, headers=headers, trust_env=False)

    of_slots = [FakeKafka() for _ in range(SLOTS)]
    by_token = {"Authorization": "Bearer web"}
    with gateway(tmp_path, tokens, kafkas=of_slots) as address:
        with connect(f"ws://{address}", proxy=None, additional_headers=by_token) as socket:
            ask(socket, {"type": "connect", "sourceId": "a", "sourceName": "Till 3"})
            assert sent(socket) == "ok"
            away(of_slots, is_away=True)
            assert sent(socket, 2) == "fallback"
            (seen,) = look(address, "ops").json()["sources"]
        assert abs(time.time() - datetime.fromisoformat(seen.pop("connectedAt")).timestamp()) < 60
        who = {"stream": "clicks", "source": "a", "name": "Till 3", "token": "web"}
        assert seen == {**who, "lastAckSequence": 2, "lastOkSequence": 1, "lastPersistedSequence": None}
        assert look(address, "else").json() == {"sources": []}
        assert [look(address, name).status_code for name in ("", "web")] == [401, 403]
        eventually(lambda: look(address, "ops").json() == {"sources": []})


def test_a_version_that_nobody_speaks_is_refused_by_name(tmp_path: Path) -> None:
    """With those that are spoken; who names none speaks the first."""
    with gateway(tmp_path) as address, connect(f"ws://{address}", proxy=None) as socket:
        for version in (3, "2", True):
            told = ask(socket, {"type": "connect", "sourceId": "a", "protocolVersion": version})
            assert (told["details"]["field"], told["details"]["message"]) == (
                "protocolVersion",
                "supported versions are 1 and 2",
            )
        assert ask(socket, {"type": "connect", "sourceId": "a"})["protocolVersion"] == 1


def test_who_comes_before_kafka_was_reached_loses_nothing(tmp_path: Path) -> None:
    """How far a source is nobody knows then: told 0 its client would take its first batches for known."""
    of_slots = [FakeKafka(is_away=True, stands={"browser": Stand(50, 50)}) for _ in range(SLOTS)]
    with gateway(tmp_path, kafkas=of_slots) as address:
        client = GatewayClient(f"ws://{address}", "browser", most=1)
        client.send({"value": "first"})
        with connect(f"ws://{address}", proxy=None) as socket:
            told = ask(socket, {"type": "connect", "sourceId": "browser"})
        assert (told["reason"], told["shouldRetry"]) == ("internal_error", True)
        away(of_slots, is_away=False)
        client.send({"value": "second"})
        client.close()
    assert [each.value for kafka in of_slots for each in kafka.records] == [b'"first"', b'"second"']


def test_a_batch_that_is_too_large_is_refused_and_its_connection_goes_on(tmp_path: Path) -> None:
    """But for a frame far above that, of which nothing is read."""
    with gateway(tmp_path, max_batch_bytes="1KiB") as address, talking(address, "a") as socket:
        many = {"type": "cdc_batch", "sequenceNumber": 1, "events": [{"value": "x" * 1_000}]}
        assert ask(socket, many)["reason"] == "invalid_format"
        assert ask(socket, {**many, "events": [{"value": 1}]})["status"] == "ok"
        with pytest.raises(ConnectionClosed) as closed:
            ask(socket, {**many, "events": [{"value": "x" * 10_000}]})
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1009


def test_what_no_answer_can_hold_is_not_said_back(tmp_path: Path) -> None:
    """Half of a pair of surrogates in a heartbeat, or as a capability: the connection goes on."""
    with gateway(tmp_path) as address, connect(f"ws://{address}", proxy=None) as socket:
        hello = {"type": "connect", "sourceId": "a", "capabilities": ["binary", "\ud800", 1]}
        assert ask(socket, hello)["capabilities"] == {"binary": "unsupported"}
        assert ask(socket, {"type": "heartbeat", "timestamp": "\ud800"})["timestamp"] is None
        other = {"type": "cdc_batch", "sequenceNumber": 1, "sourceId": "\ud800", "events": MANY}
        assert ask(socket, other)["details"]["field"] == "sourceId"
        assert sent(socket) == "ok"


def test_who_leaves_without_its_answers_is_forgotten(tmp_path: Path) -> None:
    """However many wait for it: its connection is free for the next."""
    with gateway(tmp_path) as address:
        with talking(address, "a", compression=None, close_timeout=0.1) as socket:
            heartbeat = json.dumps({"type": "heartbeat", "timestamp": "x" * 256})
            socket.socket.settimeout(0.5)
            with suppress(ConnectionClosed, OSError):
                for _ in range(100_000):  # until neither side takes more
                    socket.send(heartbeat)
            socket.socket.close()
        health = f"http://{address.removesuffix(PATH)}/v1/health"
        eventually(lambda: not httpx.get(health, trust_env=False).json()["connectedSources"])


def test_a_connection_that_takes_another_source_has_its_first_no_more(tmp_path: Path) -> None:
    """Who comes as the first one fences nobody."""
    with gateway(tmp_path) as address, talking(address, "a") as one:
        assert ask(one, {"type": "connect", "sourceId": "b"})["type"] == "status"
        with talking(address, "a"):
            assert sent(one) == "ok"


def test_what_is_named_but_not_wanted_is_not_granted(tmp_path: Path) -> None:
    """A client that says no to `persisted` is told nothing of it."""
    wanted = {"batching": True, "persisted": False}
    with gateway(tmp_path) as address, talking(address, "a") as one:
        told = ask(one, {"type": "connect", "sourceId": "a", "capabilities": wanted})
    assert told["capabilities"] == {"batching": "supported"}


def test_of_who_was_told_the_end_nothing_more_is_read() -> None:
    """Its next batch, which came before the connection was closed, would go between those of another."""
    taken: list[object] = []
    of_gateway = SimpleNamespace(
        settings=SimpleNamespace(max_batch_bytes=1_000), offer=lambda *told: taken.append(told)
    )
    stream = SimpleNamespace(settings=StreamSettings(topic="t"))
    nothing = cast("Any", None)
    session = Session(nothing, cast("Any", of_gateway), cast("Any", stream), *[nothing] * 3)
    session._source = "a"
    batch = json.dumps({"type": "cdc_batch", "sequenceNumber": 1, "events": MANY})
    asyncio.run(session._read(batch))
    assert len(taken) == 1
    session._ending = cast("Any", object())
    asyncio.run(session._read(batch))
    assert len(taken) == 1
