"""A misbehaving client: repeats, skips, reconnects, changes gateways.

It keeps a batch until it is told that Kafka has it, as the protocol asks of it.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from websockets.exceptions import WebSocketException
from websockets.sync.client import ClientConnection, connect

PER_BATCH = 5
_FINAL = {"ok", "buffered", "duplicate"}


class HostileClient(threading.Thread):
    """Sends ``batches`` of a source, events numbered from 0, to any of the gateways."""

    def __init__(
        self, source: str, sockets: Callable[[], Sequence[str]], batches: int, seed: int = 1
    ) -> None:
        super().__init__(daemon=True)
        self.source = source
        self.batches = batches
        self.last = 0
        self.statuses: set[str] = set()
        self.broken: list[str] = []
        self._sockets = sockets
        self._random = random.Random(f"{source}{seed}")
        self._is_over = threading.Event()
        self._url = ""

    def finish(self, seconds: float = 120.0) -> None:
        """Wait until all batches are confirmed."""
        self.join(seconds)
        over = not self.is_alive()
        self._is_over.set()
        assert over, f"{self.source} is at {self.last} of {self.batches}"
        assert not self.broken, self.broken

    def wait_for(self, last: int, seconds: float = 60.0) -> None:
        """Wait until this many batches are confirmed."""
        self._wait(lambda: self.last >= last, f"{last} batches", seconds)

    def wait_for_status(self, status: str, seconds: float = 60.0) -> None:
        """Wait until this status was answered."""
        self._wait(lambda: status in self.statuses, status, seconds)

    def _wait(self, condition: Callable[[], bool], what: str, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, f"{self.source} waits for {what}; it has {self.statuses}"
            assert self.is_alive() or condition(), f"{self.source} is over without {what}"
            time.sleep(0.01)

    def run(self) -> None:
        while self.last < self.batches and not self._is_over.is_set():
            url, self._url = self._url or self._random.choice(self._sockets()), ""
            try:
                with connect(url, proxy=None, open_timeout=10) as socket:
                    self._talk(socket)
            except (OSError, TimeoutError, WebSocketException):
                time.sleep(0.1)

    def _talk(self, socket: ClientConnection) -> None:
        status = _asked(socket, {"type": "connect", "sourceId": self.source})
        if status["type"] == "nack":
            self._url = status["details"].get("gateway", "").replace("http", "ws", 1)
            time.sleep(0.05)
            return
        if status["lastOkSequence"] < self.last:
            self.broken.append(f"it was at {self.last}, and is at {status['lastOkSequence']}")
        self.last = status["lastOkSequence"]
        for _ in range(self._random.randint(3, 30)):
            if self.last >= self.batches or self._is_over.is_set():
                return
            if not self._send_some(socket):
                return

    def _send_some(self, socket: ClientConnection) -> bool:
        """Send the next batches with repetitions or gaps; return whether to stay at this gateway."""
        base, count = self.last, self._random.randint(1, 4)
        numbers = [*range(base + 1, min(base + count, self.batches) + 1)]
        match self._random.randint(0, 5):
            case 0:
                numbers = [max(1, base - self._random.randint(0, 3)), *numbers]
            case 1:
                numbers = [*numbers, numbers[-1]]
            case 2:
                numbers = [*numbers, numbers[-1] + 2]
        for number in numbers:
            socket.send(json.dumps(batch_message(number)))
        if self._random.random() < 0.1:
            return False  # without a look at what is answered
        for _ in numbers:
            answer = _heard(socket)
            self.statuses.add(answer.get("status") or answer["reason"])
            if answer["type"] == "nack":
                time.sleep(min(answer["details"].get("retryAfterMs", 0), 200) / 1000)
            elif answer["status"] in _FINAL:
                self.last = max(self.last, answer["sequenceNumber"])
        return True


def batch_message(number: int) -> dict[str, Any]:
    """Return the batch with this number."""
    first = (number - 1) * PER_BATCH
    events = [{"key": "k", "value": {"id": first + at}} for at in range(PER_BATCH)]
    return {"type": "cdc_batch", "sequenceNumber": number, "events": events}


def _asked(socket: ClientConnection, message: dict[str, Any]) -> dict[str, Any]:
    socket.send(json.dumps({"protocolVersion": 2, **message}))
    return _heard(socket)


def _heard(socket: ClientConnection) -> dict[str, Any]:
    while (answer := json.loads(socket.recv(30)))["type"] == "pong":
        pass
    return dict(answer)
