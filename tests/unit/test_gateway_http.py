"""What is posted to the gateway, and by whom: let in, refused, held to limits, and answered in its words."""

from __future__ import annotations

import hashlib
import socket
import ssl
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import httpx
import pytest
import uvicorn
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from gateway import gateway as gateway_module
from gateway import lane as lane_module
from gateway.messages import SLOTS, slot_of
from gateway.topics import Owner, StreamTopics
from servers.gateway import options_of
from servers.serving import HeadsInTime
from spark_jobs.config.gateway import GatewaySettings
from tests.support.certificates import make_certificates
from tests.support.fake_gateway_kafka import FakeKafka
from tests.support.gateway_server import MANY, PATH, ask, away, eventually, gateway, posted, sent, talking

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_BETWEEN_TRIES_SECONDS", "_START_RETRY_SECONDS", "RETRY_SECONDS"):
        monkeypatch.setattr(lane_module, name, 0.05)


def test_a_token_is_held_to_its_rate_over_all_its_connections(tmp_path: Path) -> None:
    """What one owes the other waits for too, by POST as well; a heartbeat costs nothing."""
    by_token = {"Authorization": "Bearer secret"}
    line = f"{hashlib.sha256(b'secret').hexdigest()} * 5 - -"
    with gateway(tmp_path, tokens=line) as address:
        with talking(address, "a", additional_headers=by_token) as one:
            assert sent(one) == "ok"
            with talking(address, "b", additional_headers=by_token) as other:
                assert sent(other) == "rate_limited"
                assert ask(other, {"type": "heartbeat"})["type"] == "pong"
        assert posted(address, "c", headers=by_token).status_code == 429


@pytest.mark.parametrize("number", ["abc", "-1", "0", "1.0", "", "9" * 17])
def test_a_number_in_the_address_that_is_none_is_refused(tmp_path: Path, number: str) -> None:
    """Taken as the next one, a batch that is sent again would count twice."""
    with gateway(tmp_path) as address:
        answer = posted(address, params={"sequenceNumber": number})
    assert answer.status_code == 400
    assert answer.json()["error"]["details"]["field"] == "sequenceNumber"


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
        assert posted(address, headers={"Origin": "https://app.example.com"}).status_code == 200
        assert posted(address, headers={"Origin": "https://evil.example"}).status_code == 403
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


def test_what_is_not_the_next_of_a_source_is_a_conflict(tmp_path: Path) -> None:
    """With the number that is; what is no batch is told with the id that it has, and none that cannot be."""
    with gateway(tmp_path) as address:
        answer = posted(address, body={"sequenceNumber": 2, "events": MANY})
        assert (answer.status_code, answer.json()["error"]["details"]["expected"]) == (409, 1)
        answer = posted(address, body={"batchId": "b", "events": 7})
        assert (answer.status_code, answer.json()["batchId"]) == (400, "b")
        assert posted(address, body={"batchId": ["x"], "events": MANY}).json()["batchId"] is None


def test_a_key_of_idempotency_is_a_batchs_id(tmp_path: Path) -> None:
    """Sent twice it counts once, though it has no number."""
    with gateway(tmp_path) as address:
        told = [posted(address, headers={"Idempotency-Key": "k"}).json() for _ in range(2)]
    assert [(each["status"], each["batchId"]) for each in told] == [("ok", "k"), ("duplicate", "k")]
    assert [(each["eventsProcessed"], each["duplicatesSkipped"]) for each in told] == [(50, 0), (0, 50)]


def test_what_kafka_does_not_take_now_is_told_so(tmp_path: Path) -> None:
    """503 before it was ever reached; 202 and `spooling` when it is away since, until it is back."""
    of_slots = [FakeKafka(is_away=True) for _ in range(SLOTS)]
    with gateway(tmp_path, kafkas=of_slots) as address:
        health, by_id = f"http://{address.removesuffix(PATH)}/v1/health", {"batchId": "b"}
        answer = posted(address, params=by_id)
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "2")
        assert httpx.get(health, trust_env=False).status_code == 503
        away(of_slots, is_away=False)
        eventually(lambda: httpx.get(health, trust_env=False).status_code == 200)
        away(of_slots, is_away=True)
        answer = posted(address, params=by_id)
        assert (answer.status_code, answer.json()["usedFallback"]) == (202, True)
        assert httpx.get(health, trust_env=False).json()["state"] == "spooling"
        away(of_slots, is_away=False)
        eventually(lambda: httpx.get(health, trust_env=False).json()["state"] == "ready")
        assert posted(address, params=by_id).json()["status"] == "duplicate"
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
        asked = [pool.submit(posted, address, source) for _ in range(10)]
        told = {each.result().json()["error"]["details"]["gateway"] for each in asked}
        by_tls = {"X-Forwarded-Proto": "https"}  # a page that came so may open nothing else
        with connect(f"ws://{address}", additional_headers=by_tls, proxy=None) as socket:
            nack = ask(socket, {"type": "connect", "sourceId": source})
        assert nack["details"]["gateway"] == "https://other/v1/streams/clicks"
    assert told == {"http://other/v1/streams/clicks"}
    assert looks == [SLOTS - 1]


def test_who_has_a_slot_now_is_told_once_it_has_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else clients would be sent for ever to a gateway that is gone."""
    owners = iter(("http://before", "http://now"))
    monkeypatch.setattr(StreamTopics, "owner", lambda *_: Owner(next(owners), "p"))
    monkeypatch.setattr(gateway_module, "_OWNER_SECONDS", 0.0)
    source = next(name for name in map(str, range(100)) if slot_of(name) == SLOTS - 1)
    with gateway(tmp_path, sources="0-6/8") as address:
        told = [posted(address, source).json()["error"]["details"]["gateway"] for _ in range(2)]
    assert told == [f"http://{each}/v1/streams/clicks" for each in ("before", "now")]


def test_headers_that_do_not_end_are_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However they drip, on a new connection or a kept one; who is answered, or connected, goes on."""
    monkeypatch.setattr(HeadsInTime, "head_seconds", 1.0)
    with gateway(tmp_path) as address, talking(address, "a") as connected:
        host, port = address.removesuffix(PATH).split(":")
        begun = [b"", b"GET / HTTP/1.1\r\nX-A: 1\r\n"]
        whole = f"GET /v1/health HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode()
        plain = [socket.create_connection((host, int(port)), 5) for _ in range(3)]
        for each, text in zip(plain, [*begun, whole], strict=True):
            each.sendall(text)
        assert b" 200 " in plain[2].recv(10_000)
        plain[2].sendall(b"\r\n")
        for _ in range(4):
            time.sleep(0.2)
            plain[1].sendall(b"X-B: 2\r\n")
        for each in plain:
            with each:
                assert each.recv(1) == b""
        assert sent(connected) == "ok"


def test_a_large_batch_may_be_long_on_its_way() -> None:
    """Behind it comes what its client says to a ping: closed for that, it is sent again for ever."""
    for size in ("64KiB", "1MiB", "8MiB"):
        settings = GatewaySettings.model_validate({"max_batch_bytes": size})
        seconds = uvicorn.Config("", **options_of(settings)).ws_ping_timeout
        assert seconds is not None
        assert seconds > 20 + settings.max_batch_bytes / 20_000


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
        assert posted(address).status_code == 200
    assert "Traceback" not in capfd.readouterr().err
