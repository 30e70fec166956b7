"""The gateway's real server over a Kafka that only remembers: who is let in, and what they are held to."""

from __future__ import annotations

import hashlib
import json
import socket
import ssl
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import httpx
import pytest
import uvicorn
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from docs.clients.gateway_client import GatewayClient
from servers.gateway import GUARD, options_of
from servers.serving import guarded
from spark_jobs.config.gateway import GatewaySettings
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.gateway import gateway as gateway_module
from spark_jobs.gateway import lane as lane_module
from spark_jobs.gateway.flushes import Flushes
from spark_jobs.gateway.gateway import Gateway
from spark_jobs.gateway.http_api import GatewayApi
from spark_jobs.gateway.tokens import Tokens
from spark_jobs.gateway.topics import Owner, Stand, StreamTopics
from spark_jobs.gateway.words import SLOTS, slot_of
from spark_jobs.protocol.fail_points import NoFailPoints
from tests.support.certificates import make_certificates
from tests.support.fake_gateway_kafka import FakeKafka

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from spark_jobs.connections.connect import Connections
    from spark_jobs.gateway.persisted import Persisted

PATH = "/v1/streams/clicks"
PIPELINE = PipelineConfig(name="clicks", topic="clicks", table="lake.clicks", freshness_seconds=60)
MANY = [{"value": 1}] * 50


@pytest.fixture(autouse=True)
def kafkas(monkeypatch: pytest.MonkeyPatch) -> list[FakeKafka]:
    """What a slot each writes to: of the next gateway those that a test puts in, else new ones."""
    for name in ("_BETWEEN_TRIES_SECONDS", "_START_RETRY_SECONDS", "RETRY_SECONDS"):
        monkeypatch.setattr(lane_module, name, 0.05)
    given = list[FakeKafka]()
    monkeypatch.setattr(gateway_module, "Writer", lambda *_: given.pop(0) if given else FakeKafka())
    return given


@contextmanager
def gateway(
    folder: Path,
    tokens: str = "",
    started: list[str] | None = None,
    *,
    is_away: bool = False,
    **written: Any,
) -> Iterator[str]:
    """The address of one with what is ``written`` under ``gateway``; drains are ``started`` by name.

    Where Kafka ``is_away`` no slot is waited for.
    """
    settings = GatewaySettings.model_validate({"streams": {"clicks": {"topic": "clicks"}}, **written})
    connections = SimpleNamespace(kafka={}, admin=None, fail_points=NoFailPoints())
    own = Gateway(settings, [PIPELINE], cast("Connections", connections), home=folder, url="")
    own.start()
    begun = started if started is not None else []

    def start(name: str) -> SimpleNamespace:
        begun.append(name)
        return SimpleNamespace(poll=lambda: 0)

    api = GatewayApi(
        own, Tokens([tokens] if tokens else []), cast("Persisted", None), Flushes(start), settings.origins
    )
    options = {**options_of(settings), "port": 0}
    server = uvicorn.Server(guarded(api.app(), settings, guard=GUARD, options=options))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not (server.started and (is_away or own.look()["isReady"])):
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


def eventually(is_so: Callable[[], bool]) -> None:
    """Wait until it is."""
    deadline = time.monotonic() + 10
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def away(kafkas: list[FakeKafka], *, is_away: bool) -> None:
    """Have Kafka leave, or come back."""
    for kafka in kafkas:
        kafka.is_away = is_away


def posted(address: str, source: str, **headers: str) -> int:
    """The status of fifty events."""
    url = f"http://{address}"
    answer = httpx.post(url, params={"sourceId": source}, json=MANY, headers=headers, trust_env=False)
    return answer.status_code


@pytest.mark.parametrize(("trusted", "second"), [("127.0.0.1", 200), ("10.0.0.0/8", 429)])
def test_an_address_is_what_a_trusted_proxy_says(tmp_path: Path, trusted: str, second: int) -> None:
    """Behind one each client is held to its own rate; whoever else says it is not believed."""
    with gateway(tmp_path, rates={"address": 5}, trusted_proxies=[trusted]) as address:
        assert posted(address, "a", **{"X-Forwarded-For": "10.1.1.1"}) == 200
        assert posted(address, "b", **{"X-Forwarded-For": "10.1.1.2"}) == second
        assert posted(address, "a", **{"X-Forwarded-For": "10.1.1.1"}) == 429


def test_an_address_is_held_over_all_its_connections_and_each_connection_by_itself(tmp_path: Path) -> None:
    """What one owes the other waits for too, where it is the address's; a heartbeat costs nothing."""
    with gateway(tmp_path / "a", rates={"address": 5}) as address, talking(address, "a") as one:
        assert sent(one) == "ok"
        with talking(address, "b") as other:
            assert sent(other) == "rate_limited"
            assert ask(other, {"type": "heartbeat"})["type"] == "pong"
    with gateway(tmp_path / "b", rates={"connection": 5}) as address, talking(address, "a") as one:
        assert (sent(one), sent(one, 2)) == ("ok", "rate_limited")
        with talking(address, "b") as other:
            assert sent(other) == "ok"


@pytest.mark.parametrize("number", ["abc", "-1", "0", "1.0", "", "9" * 17])
def test_a_number_in_the_address_that_is_none_is_refused(tmp_path: Path, number: str) -> None:
    """Taken as the next one, a batch that is sent again would count twice."""
    with gateway(tmp_path) as address:
        asked = {"sourceId": "a", "sequenceNumber": number}
        answer = httpx.post(f"http://{address}", params=asked, json=MANY, trust_env=False)
    assert answer.status_code == 400
    assert answer.json()["error"]["details"]["field"] == "sequenceNumber"


def test_a_token_has_so_many_connections(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The next one is turned away until one of them is closed; the log has no error of that."""
    by_token = {"Authorization": "Bearer secret"}
    line = f"{hashlib.sha256(b'secret').hexdigest()} * - - 1"
    with gateway(tmp_path, tokens=line) as address:
        with talking(address, "a", additional_headers=by_token):
            with pytest.raises(InvalidStatus) as refused, talking(address, "b", additional_headers=by_token):
                pass
            assert refused.value.response.status_code == 429
            assert posted(address, "c", **by_token) == 200
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


def test_it_speaks_tls(tmp_path: Path) -> None:
    """By POST and by WebSocket, with the certificate that is configured; nothing else is answered."""
    certificates = make_certificates(tmp_path)
    trust = ssl.create_default_context(cafile=str(certificates.ca))
    with gateway(tmp_path, tls={"cert": str(certificates.server)}) as address:
        url = f"https://{address}"
        answer = httpx.post(url, params={"sourceId": "a"}, json=MANY, verify=trust, trust_env=False)
        assert answer.status_code == 200
        with connect(f"wss://{address}", ssl=trust, proxy=None) as socket:
            status = ask(socket, {"type": "connect", "sourceId": "a"})
            assert status["lastAckSequence"] == 1
        with pytest.raises(httpx.TransportError):
            posted(address, "a")


def test_a_page_of_a_named_origin_may_ask_before_it_sends(tmp_path: Path) -> None:
    """A browser asks first, as JSON and a token are sent; a page from elsewhere is told no."""
    asks = {
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization,content-type,idempotency-key",
    }
    with gateway(tmp_path, origins=["https://app.example.com"]) as address:
        allowed, foreign = (
            httpx.options(f"http://{address}", headers={"Origin": origin, **asks}, trust_env=False)
            for origin in ("https://app.example.com", "https://evil.example")
        )
        assert allowed.status_code == 200
        assert allowed.headers["Access-Control-Allow-Origin"] == "https://app.example.com"
        assert "idempotency-key" in allowed.headers["Access-Control-Allow-Headers"]
        assert "Access-Control-Allow-Origin" not in foreign.headers
        assert posted(address, "a", Origin="https://app.example.com") == 200
        assert posted(address, "a", Origin="https://evil.example") == 403
        with pytest.raises(InvalidStatus) as refused, talking(address, "b", origin="https://evil.example"):
            pass
        assert refused.value.response.status_code == 403


def test_what_the_guard_refuses_is_said_in_the_words_of_the_gateway(tmp_path: Path) -> None:
    """A client that reads JSON reads why its content type, or its page, is not taken."""
    with gateway(tmp_path) as address:
        for headers, status in (
            ({"Content-Type": "text/plain"}, 415),
            ({"Origin": "https://a.example"}, 403),
        ):
            answer = httpx.post(f"http://{address}", content=b"[]", headers=headers, trust_env=False)
            assert answer.status_code == status
            told = answer.json()
            assert (told["success"], told["error"]["reason"]) == (False, "invalid_format")
            assert told["error"]["details"]["message"]


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


def test_who_comes_before_kafka_was_reached_loses_nothing(tmp_path: Path, kafkas: list[FakeKafka]) -> None:
    """How far a source is nobody knows then: told 0 its client would take its first batches for known."""
    of_slots = [FakeKafka(is_away=True, stands={"browser": Stand(50, 50)}) for _ in range(SLOTS)]
    kafkas += of_slots
    with gateway(tmp_path, is_away=True) as address:
        client = GatewayClient(f"ws://{address}", "browser", most=1)
        client.send({"value": "first"})
        with connect(f"ws://{address}", proxy=None) as socket:
            told = ask(socket, {"type": "connect", "sourceId": "browser"})
        assert (told["reason"], told["shouldRetry"]) == ("internal_error", True)
        away(of_slots, is_away=False)
        client.send({"value": "second"})
        client.close()
    assert [each.value for kafka in of_slots for each in kafka.records] == [b'"first"', b'"second"']


def test_what_is_not_the_next_of_a_source_is_a_conflict(tmp_path: Path) -> None:
    """With the number that is; what is no batch is told with the id that it has, and none that cannot be."""
    with gateway(tmp_path) as address:

        def post(**told: Any) -> httpx.Response:
            batch = {"sourceId": "a", "events": MANY, **told}
            return httpx.post(f"http://{address}", json=batch, trust_env=False)

        answer = post(sequenceNumber=2)
        assert (answer.status_code, answer.json()["error"]["details"]["expected"]) == (409, 1)
        answer = post(batchId="b", events=7)
        assert (answer.status_code, answer.json()["batchId"]) == (400, "b")
        assert post(batchId=["x"]).json()["batchId"] is None


def test_a_key_of_idempotency_is_a_batchs_id(tmp_path: Path) -> None:
    """Sent twice it counts once, though it has no number."""
    with gateway(tmp_path) as address:
        told = [
            httpx.post(
                f"http://{address}",
                params={"sourceId": "a"},
                json=MANY,
                headers={"Idempotency-Key": "k"},
                trust_env=False,
            ).json()
            for _ in range(2)
        ]
    assert [(each["status"], each["batchId"]) for each in told] == [("ok", "k"), ("duplicate", "k")]
    assert [(each["eventsProcessed"], each["duplicatesSkipped"]) for each in told] == [(50, 0), (0, 50)]


def test_what_kafka_does_not_take_now_is_told_so(tmp_path: Path, kafkas: list[FakeKafka]) -> None:
    """503 before it was ever reached; 202 and `spooling` when it is away since, until it is back."""
    of_slots = [FakeKafka(is_away=True) for _ in range(SLOTS)]
    kafkas += of_slots
    with gateway(tmp_path, is_away=True) as address:
        url, health = f"http://{address}", f"http://{address.removesuffix(PATH)}/v1/health"

        def post() -> httpx.Response:
            asked = {"sourceId": "a", "batchId": "b"}
            return httpx.post(url, params=asked, json=MANY, trust_env=False)

        answer = post()
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "2")
        assert httpx.get(health, trust_env=False).status_code == 503
        away(of_slots, is_away=False)
        eventually(lambda: httpx.get(health, trust_env=False).status_code == 200)
        away(of_slots, is_away=True)
        answer = post()
        assert (answer.status_code, answer.json()["usedFallback"]) == (202, True)
        assert httpx.get(health, trust_env=False).json()["state"] == "spooling"
        away(of_slots, is_away=False)
        eventually(lambda: httpx.get(health, trust_env=False).json()["state"] == "ready")
        assert post().json()["status"] == "duplicate"
    assert sum(len(kafka.records) for kafka in of_slots) == 50


def test_all_who_come_to_the_wrong_gateway_are_told_by_one_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It reads a partition: a look each would keep the threads that all else needs."""
    looks: list[int] = []

    def owner(_topics: StreamTopics, slot: int) -> Owner:
        looks.append(slot)
        time.sleep(0.2)
        return Owner("http://other", "p")

    monkeypatch.setattr(StreamTopics, "owner", owner)
    settings = {"sources": "0-6/8", "trusted_proxies": ["127.0.0.1"]}
    with gateway(tmp_path, **settings) as address, ThreadPoolExecutor(10) as pool:
        source = next(name for name in map(str, range(100)) if slot_of(name) == SLOTS - 1)
        asked = [
            pool.submit(
                httpx.post, f"http://{address}", params={"sourceId": source}, json=MANY, trust_env=False
            )
            for _ in range(10)
        ]
        told = {each.result().json()["error"]["details"]["gateway"] for each in asked}
        by_tls = {"X-Forwarded-Proto": "https"}  # a page that came so may open nothing else
        with connect(f"ws://{address}", additional_headers=by_tls, proxy=None) as socket:
            nack = ask(socket, {"type": "connect", "sourceId": source})
        assert nack["details"]["gateway"] == "https://other/v1/streams/clicks"
    assert told == {"http://other/v1/streams/clicks"}
    assert looks == [SLOTS - 1]


def test_a_connection_by_http_is_held_to_its_rate(tmp_path: Path) -> None:
    """As long as it is kept; another one is another."""
    with gateway(tmp_path, rates={"connection": 5}) as address:

        def post(client: httpx.Client) -> int:
            return client.post(f"http://{address}", params={"sourceId": "a"}, json=MANY).status_code

        with httpx.Client(trust_env=False) as one, httpx.Client(trust_env=False) as other:
            assert [post(one), post(one), post(other)] == [200, 429, 200]


def test_cloud_events_are_events_of_their_one_source(tmp_path: Path) -> None:
    """Of two sources one would be filed under the other; bytes would be lost."""
    headers = {"Content-Type": "application/cloudevents-batch+json"}
    with gateway(tmp_path) as address:

        def post(*events: dict[str, Any]) -> dict[str, Any]:
            body = json.dumps(events)
            return dict(
                httpx.post(f"http://{address}", content=body, headers=headers, trust_env=False).json()
            )

        one = {"id": "1", "source": "a", "subject": "k", "data": {"n": 1}}
        assert post(one, {**one, "id": "2"}, one)["eventsProcessed"] == 2
        mixed = post(one, {**one, "source": "b"})
        assert mixed["error"]["details"]["field"] == "events[1].source"
        assert post({**one, "id": "3", "data_base64": "AA=="})["error"]["reason"] == "invalid_format"


def test_a_body_that_does_not_end_is_given_up(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """After `idle`, and at once where its client leaves; the log has no error of either."""
    with gateway(tmp_path, idle="1s") as address:
        host, port = address.removesuffix(PATH).split(":")
        head = f"POST {PATH}?sourceId=a HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
        for leaves in (True, False):
            with socket.create_connection((host, int(port))) as plain:
                plain.sendall(f"{head}Content-Length: 100\r\n\r\n[".encode())
                if not leaves:
                    assert b" 408 " in plain.recv(1000).partition(b"\r\n")[0]
        assert posted(address, "a") == 200
    assert "Traceback" not in capfd.readouterr().err


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
