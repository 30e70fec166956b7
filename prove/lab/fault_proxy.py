"""A proxy for a catalog that loses, delays or falsifies answers, and records requests."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum

from prove.lab.http_proxy import Client, HttpProxy, Request, Response


class Fault(StrEnum):
    """A fault of one request; names that begin with ``landed`` pass it on first."""

    REFUSED_401 = "answered 401, not passed on"
    REFUSED_409 = "answered 409, not passed on"
    REFUSED_429 = "answered 429, not passed on"
    REFUSED_500 = "answered 500, not passed on"
    REFUSED_502 = "answered 502, not passed on"
    REFUSED_503 = "answered 503, not passed on"
    REFUSED_504 = "answered 504, not passed on"
    CUT_BEFORE = "connection cut before it is passed on"
    HALF_REFUSAL = "half an answer, not passed on"
    NO_ANSWER = "never answered"
    LANDED_401 = "landed, answered 401"
    LANDED_409 = "landed, answered 409"
    LANDED_429 = "landed, answered 429"
    LANDED_500 = "landed, answered 500"
    LANDED_502 = "landed, answered 502"
    LANDED_503 = "landed, answered 503"
    LANDED_504 = "landed, answered 504"
    CUT_AFTER = "landed, connection cut"
    HALF_ANSWER = "landed, half an answer"
    LANDED_NO_ANSWER = "landed, never answered"
    LANDED_TWICE = "landed, repeated by the gateway"
    LATE_504 = "answered 504, lands 2 s later"

    @property
    def is_passed_on(self) -> bool:
        """True if the server gets the request before the client is answered."""
        return self.startswith("landed")

    @property
    def status(self) -> int | None:
        """Return the status that replaces the server's."""
        _, _, status = self.partition("answered ")
        return int(status[:3]) if status else None


@dataclass(frozen=True)
class SeenRequest:
    """A request and its result; ``status`` is the server's, None if it was not asked."""

    method: str
    path: str
    fault: Fault | None
    status: int | None


LATE_SECONDS = 2.0
SILENCE_SECONDS = 3.0  # a client that waits longer sees the connection end


class FaultProxy(HttpProxy):
    """Applies a fault to the requests it is armed for, and passes on all others."""

    def __init__(self, upstream: str) -> None:
        super().__init__(upstream)
        self._armed: list[tuple[Callable[[str, str], bool], Fault, bool]] = []
        self._lock = threading.Lock()
        self._late: list[threading.Thread] = []
        self.late_statuses: list[int] = []
        self._is_away = False
        self.seen: list[SeenRequest] = []

    def __exit__(self, *_: object) -> None:
        self.stop()
        for thread in self._late:
            thread.join()

    def arm(
        self, fault: Fault, matches: Callable[[str, str], bool], *, takes_creations: bool = False
    ) -> None:
        """Apply the fault to the next request whose method and path match.

        A table is created by a commit to it: with ``takes_creations`` that is one too.
        """
        with self._lock:
            self._armed.append((matches, fault, takes_creations))

    def disarm(self) -> None:
        """Clear the faults that no request has met."""
        with self._lock:
            self._armed.clear()

    @contextmanager
    def away(self) -> Iterator[None]:
        """Cut every connection while the block runs."""
        self._is_away = True
        try:
            yield
        finally:
            self._is_away = False

    def late_status(self) -> int:
        """Wait for the delayed request; return the server's status."""
        for thread in self._late:
            thread.join()
        (status,) = self.late_statuses
        return status

    def serve(self, request: Request, client: Client) -> None:
        fault = self._take(request)
        if fault is not None and not fault.is_passed_on:
            self.seen.append(SeenRequest(request.method, request.path, fault, None))
            if fault is Fault.LATE_504:
                self._pass_on_late(request)
            _falsify(fault, client)
            return
        response = self.pass_on(request)
        if fault is Fault.LANDED_TWICE:
            response = self.pass_on(request)
        self.seen.append(SeenRequest(request.method, request.path, fault, response.status))
        if fault in {None, Fault.LANDED_TWICE}:
            client.answer(response)
        elif fault is Fault.HALF_ANSWER:
            client.answer(response, is_half=True)
        elif fault is not None:
            _falsify(fault, client)

    def _take(self, request: Request) -> Fault | None:
        """Return the fault for this request, and disarm it."""
        if self._is_away:
            return Fault.CUT_BEFORE
        with self._lock:
            for armed in self._armed:
                matches, fault, takes_creations = armed
                if not takes_creations and b'"assert-create"' in request.body:
                    continue
                if matches(request.method, request.path):
                    self._armed.remove(armed)
                    return fault
        return None

    def _pass_on_late(self, request: Request) -> None:
        """Pass the request on long after the client got an error."""

        def later() -> None:
            time.sleep(LATE_SECONDS)
            self.late_statuses.append(self.pass_on(request).status)

        thread = threading.Thread(target=later)
        self._late.append(thread)
        thread.start()


def is_table_commit(method: str, path: str) -> bool:
    """True if a request of the Iceberg REST protocol is a table's commit."""
    return method == "POST" and "/tables/" in path and not path.endswith("/metrics")


def _falsify(fault: Fault, client: Client) -> None:
    """Send a false answer, or none."""
    if fault.status is not None:
        client.answer(_made_up(fault.status))
    elif fault is Fault.HALF_REFUSAL:
        client.answer(_made_up(500), is_half=True)
    else:
        if fault in {Fault.NO_ANSWER, Fault.LANDED_NO_ANSWER}:
            time.sleep(SILENCE_SECONDS)
        client.cut()


def _made_up(status: int) -> Response:
    content = b'{"error":{"message":"made up by the proxy","type":"Gateway","code":%d}}' % status
    return Response(status, (("Content-Type", "application/json"),), content)
