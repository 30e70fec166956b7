"""The example client in Python over a gateway that says what it is told to say."""

from __future__ import annotations

import json
import threading

from websockets.sync.server import ServerConnection, serve

from docs.clients.gateway_client import GatewayClient


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
            answer = {"type": "status", "lastAckSequence": 0, "window": 16}
            if message["type"] == "cdc_batch":
                number = message["sequenceNumber"]
                if is_first and number != 2:
                    continue  # its process dies before it has answered
                answer = {"type": "ack", "status": "ok", "sequenceNumber": number}
                if is_first:
                    answer |= {"type": "nack", "reason": "invalid_format", "details": {}}
                else:
                    taken.extend(event["value"] for event in message["events"])
            socket.send(json.dumps(answer))

    with serve(talk, "127.0.0.1", 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        port = server.socket.getsockname()[1]
        client = GatewayClient(f"ws://127.0.0.1:{port}", "s", most=1)
        for value in ("a", "poison", "b"):
            client.send({"value": value})
        client.close()
        server.shutdown()
        thread.join()
    assert taken == ["a", "b"]
