"""Sends events to a gateway of Sluice's, each once: 100 of them or 5 s make a batch, kept until `ok`."""

import json
import logging
import threading
import time

from websockets.exceptions import WebSocketException
from websockets.sync.client import connect

_log = logging.getLogger(__name__)


class GatewayClient:
    """`url` is ws://HOST:8088/v1/streams/STREAM; a `source` is one client at a time, for ever.

    `refused` is told why which events never will be taken.
    """

    def __init__(self, url, source, token=None, *, most=100, seconds=5.0, refused=None):
        self._url, self._source, self._most, self._seconds = url, source, most, seconds
        self._refused = refused or (lambda why, events: _log.error("not taken, %s: %s", why, events))
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._changed = threading.Condition()
        self._events, self._since = [], 0.0
        self._kept, self._last = [], None  # batches without `ok`, and the last sequence that has it
        self._is_closing = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def send(self, event):
        """Take {"value": …} with `key`, `id`, `operation`, `timestamp` as wanted."""
        with self._changed:
            self._since = self._since if self._events else time.monotonic()
            self._events.append(event)
            self._changed.notify()

    def close(self):
        """Return when the gateway has all of it."""
        with self._changed:
            self._is_closing = True
            self._changed.notify()
        self._thread.join()

    def _run(self):
        while not self._is_closing or self._events or self._kept:
            try:
                with connect(self._url, additional_headers=self._headers, proxy=None) as socket:
                    hello = {"type": "connect", "sourceId": self._source, "protocolVersion": 1}
                    socket.send(json.dumps(hello))
                    pause = self._talk(socket, json.loads(socket.recv(10)))
            except (OSError, TimeoutError, WebSocketException) as error:
                _log.warning("again in a second: %s", error)
                pause = 1.0
            time.sleep(pause)

    def _talk(self, socket, status):
        """Send and hear until something is to be begun anew; return in how many seconds."""
        if status["type"] == "nack":
            self._url = status["details"].get("gateway", self._url).replace("http", "ws", 1)
            return 1.0
        self._heard(status["lastAckSequence"])
        sent = self._last  # the number of the last batch on its way
        while not self._is_closing or self._events or self._kept:
            self._cut()
            while sent < min(self._last + len(self._kept), self._last + status["window"]):
                events = self._kept[sent - self._last]
                batch = json.dumps({"type": "cdc_batch", "sequenceNumber": sent + 1, "events": events})
                if len(batch.encode()) > status["maxBatchBytes"]:
                    self._halve(sent - self._last, f"more than {status['maxBatchBytes']} bytes")
                    continue
                socket.send(batch)
                sent += 1
            try:
                answer = json.loads(socket.recv(0.05 if self._kept else 0.2))
            except TimeoutError:
                continue
            if answer["type"] == "ack" and answer["status"] in {"ok", "buffered", "duplicate"}:
                self._heard(answer["sequenceNumber"])
            elif answer["type"] == "nack":
                if answer["reason"] == "invalid_format":
                    at = answer["sequenceNumber"] - self._last - 1
                    self._refused(answer["details"]["message"], self._kept.pop(at))
                return answer["details"].get("retryAfterMs", 0) / 1000
        return 0.0

    def _halve(self, at, why):
        """Make two batches of one that is too large; one event alone never will be taken."""
        events = self._kept.pop(at)
        half = (len(events) + 1) // 2
        if len(events) > 1:
            self._kept[at:at] = [events[:half], events[half:]]
        else:
            self._refused(why, events)

    def _heard(self, last):
        """Forget what the gateway has; its number wins."""
        del self._kept[: max(0, last - (last if self._last is None else self._last))]
        self._last = last if self._last is None else max(self._last, last)

    def _cut(self):
        """Make a batch of what is full, or old."""
        with self._changed:
            is_due = self._is_closing or time.monotonic() - self._since >= self._seconds
            if self._events and (is_due or len(self._events) >= self._most):
                self._kept.append(self._events[: self._most])
                self._events, self._since = self._events[self._most :], time.monotonic()
