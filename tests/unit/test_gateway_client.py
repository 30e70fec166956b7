"""The example client in Python over a gateway that says what it is told to say."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from websockets.sync.server import ServerConnection, serve

from docs.clients.gateway_client import GatewayClient

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
