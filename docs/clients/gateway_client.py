"""A client that sends each event once to a Sluice gateway, in batches that are kept until `ok`."""

import json
import logging
import threading
import time

from websockets.exceptions import WebSocketException
from websockets.sync.client import connect

_log = logging.getLogger(__name__)
_MOST_PAUSE = 30.0


class GatewayClient:
    """Sends events to `url`, ws://HOST:8088/v1/streams/STREAM, in batches of 100 events or 5 s.

    Only one client may use a `source` at a time, and must not change it. `refused(reason, events)` is called
    for rejected events; other problems are logged.
    """

    def __init__(self, url, source, token=None, *, most=100, seconds=5.0, refused=None):
        self._url, self._source, self._most, self._seconds = url, source, most, seconds
        self._refused = refused or (lambda why, events: _log.error("no `ok`, because %s: %s", why, events))
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._changed = threading.Condition()
        self._events, self._since = [], 0.0
        # Batches without `ok`, and the number before the first: it has `ok`, or the gateway had it already.
        self._kept, self._last = [], None
        self._pause = 0.0  # before the next connection; grows until there is an `ok`
        self._is_closing = self._is_fenced = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def send(self, event):
        """Send {"value": …} with `key`, `id`, `operation`, `timestamp` as needed."""
        with self._changed:
            self._since = self._since if self._events else time.monotonic()
            self._events.append(event)
            self._changed.notify()
            if self._is_fenced:
                self._give_up()

    def close(self):
        """Return when the gateway has all events, or another connection has taken over the source."""
        with self._changed:
            self._is_closing = True
            self._changed.notify()
        self._thread.join()

    @property
    def _goes_on(self):
        return not self._is_fenced and (not self._is_closing or self._events or self._kept)

    def _run(self):
        while self._goes_on:
            wait = 0.0
            try:
                with connect(
                    self._url, additional_headers=self._headers, proxy=None, ping_timeout=90
                ) as socket:
                    hello = {"type": "connect", "sourceId": self._source, "protocolVersion": 2}
                    socket.send(json.dumps(hello))
                    wait = self._talk(socket, json.loads(socket.recv(10)))
            except (OSError, TimeoutError, WebSocketException) as error:
                _log.warning("reconnecting in %g s: %s", self._pause, error)
            time.sleep(max(wait, self._pause))
            self._pause = min(_MOST_PAUSE, 2 * self._pause or 0.1)
        with self._changed:
            self._give_up()

    def _talk(self, socket, status):
        """Send batches and read answers until a reconnect; return the minimum pause in seconds."""
        if status["type"] == "nack":
            return self._turned_away(status)
        last, most_bytes = status["lastAckSequence"], status["maxBatchBytes"]
        self._go_on_at(last if self._last is None else min(last, self._last))
        # The sizes of sent batches. Batches without `ok` are sent again: the gateway knows their content.
        flight = []
        while self._goes_on:
            self._cut()
            while len(flight) < min(len(self._kept), status["window"]):
                number, events = self._last + len(flight) + 1, self._kept[len(flight)]
                batch = json.dumps({"type": "cdc_batch", "sequenceNumber": number, "events": events})
                size = len(batch.encode())
                if size > most_bytes:
                    self._halve(len(flight), f"more than {most_bytes} bytes")
                    continue
                if flight and sum(flight) + size > most_bytes:
                    break
                socket.send(batch)
                flight.append(size)
            try:
                answer = json.loads(socket.recv(0.05 if self._kept else 0.2))
            except TimeoutError:
                continue
            if answer["type"] == "ack" and answer["status"] in {"ok", "buffered", "duplicate"}:
                if done := max(0, answer["sequenceNumber"] - self._last):
                    self._last, self._pause = self._last + done, 0.0
                    del self._kept[:done], flight[:done]
            elif answer["type"] == "nack":
                return self._turned_away(answer)
        return 0.0

    def _turned_away(self, nack):
        """Handle a rejection; return the minimum pause before a reconnect, in seconds."""
        details, number, last = nack["details"], nack.get("sequenceNumber", 0), self._last or 0
        expected = details.get("expected", 0)
        if nack["reason"] == "fenced":
            self._is_fenced = True
        elif "gateway" in details:
            self._url = details["gateway"].replace("http", "ws", 1)
        elif nack["reason"] == "invalid_format" and number > last:
            self._refused(details["message"], self._kept.pop(number - last - 1))
        elif expected and (number == last + 1 or expected <= last):
            self._go_on_at(expected - 1)  # another batch has that number, or the gateway is behind
        else:
            _log.warning("rejected: %s", details["message"])
        return details.get("retryAfterMs", 0) / 1000

    def _go_on_at(self, last):
        if self._last not in {None, last}:
            _log.warning(
                "the gateway has %s at %d, not at %d: continuing there", self._source, last, self._last
            )
        self._last = last

    def _give_up(self):
        """Report all events without `ok`; those that were sent may be in Kafka."""
        events = [event for batch in [*self._kept, self._events] for event in batch]
        self._kept, self._events = [], []
        if events:
            self._refused("another connection took over the source", events)

    def _halve(self, at, why):
        """Split a batch that is too large; reject a single event that is."""
        events = self._kept.pop(at)
        half = (len(events) + 1) // 2
        if len(events) > 1:
            self._kept[at:at] = [events[:half], events[half:]]
        else:
            self._refused(why, events)

    def _cut(self):
        """Make a batch if enough events wait, or long enough."""
        with self._changed:
            is_due = self._is_closing or time.monotonic() - self._since >= self._seconds
            if self._events and (is_due or len(self._events) >= self._most):
                self._kept.append(self._events[: self._most])
                self._events, self._since = self._events[self._most :], time.monotonic()
