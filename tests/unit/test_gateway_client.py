"""The example client in Python over a gateway that says what it is told to say."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_urlsafe
from typing import Any

import httpx
import pytest
from websockets.sync.server import ServerConnection, serve

from docs.clients.gateway_client import GatewayClient
from gateway import lane as lane_module
from gateway.messages import SLOTS
from prove.lab.slow_uplink import PlainUplink, slow_uplink
from tests.support.fake_gateway_kafka import FakeKafka
from tests.support.gateway_server import PATH, away, eventually, gateway

STATUS = {"type": "status", "lastAckSequence": 0, "window": 16, "maxBatchBytes": 1 << 20}


@contextmanager
def saying(talk: Callable[[ServerConnection], None]) -> Iterator[str]:
    """Where a gateway is that talks so."""
    with serve(talk, "127.0.0.1", 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"ws://127.0.0.1:{server.socket.getsockname()[1]}"
        server.shutdown()
        thread.join()


def test_only_the_batch_that_is_never_taken_is_dropped() -> None:
    """Those before it, which nobody has said `ok` to, are sent again, and those behind it."""
    taken: list[str] = []
    connections = 0

    def talk(socket: ServerConnection) -> None:
        nonlocal connections
        connections += 1
        is_first = connections == 1
        for text in socket:
            message = json.loads(text)
            answer = STATUS
            if message["type"] == "cdc_batch":
                number = message["sequenceNumber"]
                if is_first and number != 2:
                    continue  # its process dies before it has answered
                answer = {"type": "ack", "status": "ok", "sequenceNumber": number}
                if is_first:
                    details = {"message": "it is poison"}
                    answer |= {"type": "nack", "reason": "invalid_format", "details": details}
                else:
                    taken.extend(event["value"] for event in message["events"])
            socket.send(json.dumps(answer))

    refused: list[tuple[str, Any]] = []
    with saying(talk) as url:
        client = GatewayClient(url, "s", most=1, refused=lambda *told: refused.append(told))
        for value in ("a", "poison", "b"):
            client.send({"value": value})
        client.close()
    assert taken == ["a", "b"]
    assert refused == [("it is poison", [{"value": "poison"}])]


def test_a_batch_that_is_too_large_goes_in_halves() -> None:
    """An event that is too large is told of, and those beside it are sent."""
    taken: list[tuple[int, list[str]]] = []

    def talk(socket: ServerConnection) -> None:
        socket.recv()
        socket.send(json.dumps({**STATUS, "maxBatchBytes": 120}))
        for text in socket:
            message = json.loads(text)
            assert len(text) <= 120
            number = message["sequenceNumber"]
            taken.append((number, [event["value"] for event in message["events"]]))
            socket.send(json.dumps({"type": "ack", "status": "ok", "sequenceNumber": number}))

    refused: list[tuple[str, Any]] = []
    with saying(talk) as url:
        client = GatewayClient(url, "s", most=4, refused=lambda *told: refused.append(told))
        for value in ("a", "b", "c" * 120, "d"):
            client.send({"value": value})
        client.close()
    assert taken == [(1, ["a", "b"]), (2, ["d"])]
    assert refused == [("more than 120 bytes", [{"value": "c" * 120}])]


@pytest.mark.parametrize("is_told_late", [False, True])
def test_a_gateway_that_knows_less_is_believed(is_told_late: bool, caplog: pytest.LogCaptureFixture) -> None:
    """Told so at once, or by a batch: what waits goes under its numbers, and the log says so."""
    taken: list[tuple[int, str]] = []
    connections = 0

    def talk(socket: ServerConnection) -> None:
        nonlocal connections
        connections += 1
        socket.recv()
        lower = 7 if is_told_late else 2
        socket.send(json.dumps({**STATUS, "lastAckSequence": 7 if connections == 1 else lower}))
        for text in socket:
            message = json.loads(text)
            number = message["sequenceNumber"]
            answer = {"type": "ack", "status": "ok", "sequenceNumber": number}
            if connections == 1:
                return  # it dies; its states are restored from a backup
            if number > 3 + len(taken):
                details = {"message": "the next sequence number is 3", "expected": 3}
                answer |= {"type": "nack", "reason": "invalid_sequence", "details": details}
            else:
                taken.extend((number, event["value"]) for event in message["events"])
            socket.send(json.dumps(answer))

    with saying(talk) as url:
        client = GatewayClient(url, "s", most=1)
        for value in ("a", "b"):
            client.send({"value": value})
        client.close()
    assert taken == [(3, "a"), (4, "b")]
    assert connections <= 4
    assert "the gateway has s at 2, not at 7" in caplog.text


def test_a_client_that_is_told_a_higher_number_drops_nothing() -> None:
    """What it has sent without an answer goes under the next one, if that is another's."""
    taken, seen = {2: "others", 3: "others"}, list[tuple[int, str]]()

    def talk(socket: ServerConnection) -> None:
        socket.recv()
        is_first = not seen
        socket.send(json.dumps({**STATUS, "lastAckSequence": 1 if is_first else max(taken)}))
        for text in socket:
            message = json.loads(text)
            number, value = message["sequenceNumber"], message["events"][0]["value"]
            seen.append((number, value))
            if is_first:
                return  # another has sent under these numbers meanwhile
            answer = {"type": "ack", "status": "ok", "sequenceNumber": number}
            if taken.setdefault(number, value) != value:
                details = {"message": "sequence number belongs to another batch", "expected": max(taken) + 1}
                answer |= {"type": "nack", "reason": "invalid_sequence", "details": details}
            socket.send(json.dumps(answer))

    with saying(talk) as url:
        client = GatewayClient(url, "s", most=1)
        for value in ("a", "b"):
            client.send({"value": value})
        client.close()
    assert seen[0] == (2, "a")
    assert taken == {2: "others", 3: "others", 4: "a", 5: "b"}


def test_events_come_by_a_slow_uplink_of_the_clients_own(tmp_path: Path) -> None:
    """Of two megabytes a second: each goes once over one connection, however long a batch is on its way."""
    of_slots = [FakeKafka() for _ in range(SLOTS)]
    with (
        gateway(tmp_path, kafkas=of_slots) as address,
        slow_uplink(address.removesuffix(PATH), 2e6, PlainUplink) as (far, uplink),
    ):
        client = GatewayClient(f"ws://{far}{PATH}", "s", most=10)
        for number in range(100):
            client.send({"value": f"{number:04}" + token_urlsafe(10_500)})
        client.close()
    values = [json.loads(each.value or b"")[:4] for kafka in of_slots for each in kafka.records]
    assert values == [f"{number:04}" for number in range(100)]
    assert 1e6 < uplink.sent < 1.2e6


def test_a_client_that_is_always_turned_away_comes_ever_less_often() -> None:
    """It spun: thousands of connections in some seconds."""
    came: list[float] = []

    def talk(socket: ServerConnection) -> None:
        came.append(time.monotonic())
        socket.recv()
        socket.send(json.dumps(STATUS))
        number = json.loads(socket.recv())["sequenceNumber"]
        details = {"message": "no", "expected": number + 5}
        nack = {"type": "nack", "reason": "invalid_sequence", "sequenceNumber": number, "details": details}
        socket.send(json.dumps(nack))

    with saying(talk) as url:
        client = GatewayClient(url, "s", most=1)
        client.send({"value": "a"})
        time.sleep(1)
        assert 3 <= len(came) <= 6
        client._is_fenced = True


def test_who_is_fenced_sends_nothing_more_and_tells_what_is_left() -> None:
    """Two clients of one source would take it from each other for ever."""
    connections = 0

    def talk(socket: ServerConnection) -> None:
        nonlocal connections
        connections += 1
        socket.recv()
        socket.send(json.dumps(STATUS))
        socket.recv()
        nack = {
            "type": "nack",
            "reason": "fenced",
            "details": {"message": "a newer connection has taken over this source"},
        }
        socket.send(json.dumps(nack))

    refused: list[tuple[str, Any]] = []
    with saying(talk) as url:
        client = GatewayClient(url, "s", most=1, refused=lambda *told: refused.append(told))
        client.send({"value": "a"})
        client._thread.join(10)
        client.send({"value": "b"})
        client.close()
    why = "another connection took over the source"
    assert refused == [(why, [{"value": "a"}]), (why, [{"value": "b"}])]
    assert connections == 1


def test_two_clients_and_a_restart_while_kafka_is_away_lose_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The example client over the gateway itself: each event is in Kafka, or its client was told of it."""
    monkeypatch.setattr(lane_module, "RETRY_SECONDS", 0.05)
    monkeypatch.setattr(lane_module, "_BETWEEN_TRIES_SECONDS", 0.05)
    of_slots, refused = [FakeKafka() for _ in range(SLOTS)], list[Any]()

    def written() -> list[bytes | None]:
        return [each.value for kafka in of_slots for each in kafka.records]

    with gateway(tmp_path, kafkas=of_slots) as address:
        before = GatewayClient(
            f"ws://{address}", "s", most=1, refused=lambda _, events: refused.extend(events)
        )
        before.send({"value": 1})
        eventually(lambda: written() == [b"1"])
        away(of_slots, is_away=True)
        before.send({"value": 2})
        health = f"http://{address.removesuffix(PATH)}/v1/health"
        eventually(lambda: httpx.get(health, trust_env=False).json()["spool"]["batches"] == 1)
        after = GatewayClient(f"ws://{address}", "s", most=1)
        after.send({"value": 3})
        before._thread.join(10)
        before.send({"value": 4})
        away(of_slots, is_away=False)
        after.close()
    assert written() == [b"1", b"2", b"3"]
    assert refused == [{"value": 2}, {"value": 4}]
