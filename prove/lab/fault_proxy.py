"""An HTTP proxy that loses, delays or falsifies answers, and records what it saw.

It keeps the client's Host header: catalogs hand out their own address from it, and a client sent to the
server itself would bypass the faults without a test noticing.
"""

from __future__ import annotations

import http.client
import threading
import time
from dataclasses import dataclass
from enum import StrEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit, urlunsplit

if TYPE_CHECKING:
    from collections.abc import Callable


class Fault(StrEnum):
    """What happens to one request; what begins with ``landed`` was passed on before it went wrong."""

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
        """Whether the server is asked before the client is answered."""
        return self.startswith("landed")

    @property
    def status(self) -> int | None:
        """What the client is answered instead of the server's own status."""
        _, _, status = self.partition("answered ")
        return int(status[:3]) if status else None


@dataclass(frozen=True)
class Seen:
    """A request and what became of it; ``status`` is the server's, None when it was not asked."""

    method: str
    path: str
    fault: Fault | None
    status: int | None


LATE_SECONDS = 2.0
SILENCE_SECONDS = 3.0  # a client that waits longer sees the connection end


class FaultProxy:
    """Use as a context manager; ``url`` is the upstream's with the proxy's address."""

    def __init__(self, upstream: str) -> None:
        self._upstream = urlsplit(upstream)
        self._armed: list[tuple[Callable[[str, str], bool], Fault]] = []
        self._lock = threading.Lock()
        self._late: list[threading.Thread] = []
        self.seen: list[Seen] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"proxy": self}))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        address = f"127.0.0.1:{self._server.server_address[1]}"
        self.url = urlunsplit(self._upstream._replace(netloc=address))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        for thread in self._late:
            thread.join()

    def stop(self) -> None:
        """Refuse every connection from now on."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._server.server_close()
            self._thread.join()

    def arm(self, fault: Fault, matches: Callable[[str, str], bool]) -> None:
        """Apply the fault to the next request whose method and path match."""
        with self._lock:
            self._armed.append((matches, fault))

    def faulted(self) -> list[Seen]:
        """The requests a fault was applied to."""
        return [seen for seen in self.seen if seen.fault is not None]

    def take(self, method: str, path: str) -> Fault | None:
        """The fault for this request, used up."""
        with self._lock:
            for armed in self._armed:
                matches, fault = armed
                if matches(method, path):
                    self._armed.remove(armed)
                    return fault
        return None

    def pass_on(
        self, method: str, path: str, headers: Any, body: bytes
    ) -> tuple[int, list[tuple[str, str]], bytes]:
        """Ask the server, every header as the client sent it."""
        connection = http.client.HTTPConnection(
            self._upstream.hostname or "", self._upstream.port, timeout=60
        )
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        for name, value in headers.items():
            connection.putheader(name, value)
        connection.endheaders(body or None)
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        return answer.status, answer.getheaders(), content

    def pass_on_late(self, method: str, path: str, headers: Any, body: bytes) -> None:
        """Ask the server when the client has long been told that it failed."""

        def later() -> None:
            time.sleep(LATE_SECONDS)
            self.pass_on(method, path, headers, body)

        thread = threading.Thread(target=later)
        self._late.append(thread)
        thread.start()


def is_table_commit(method: str, path: str) -> bool:
    """Whether a request of the Iceberg REST protocol is the commit to a table."""
    return method == "POST" and "/tables/" in path and not path.endswith("/metrics")


class _Handler(BaseHTTPRequestHandler):
    proxy: FaultProxy
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        fault = self.proxy.take(self.command, self.path)
        request = (self.command, self.path, self.headers, body)
        if fault is not None and not fault.is_passed_on:
            self.proxy.seen.append(Seen(self.command, self.path, fault, None))
            if fault is Fault.LATE_504:
                self.proxy.pass_on_late(*request)
            self._falsify(fault)
            return
        status, headers, content = self.proxy.pass_on(*request)
        if fault is Fault.LANDED_TWICE:
            status, headers, content = self.proxy.pass_on(*request)
        self.proxy.seen.append(Seen(self.command, self.path, fault, status))
        if fault in {None, Fault.LANDED_TWICE}:
            self._answer(status, headers, content, is_half=False)
        elif fault is Fault.HALF_ANSWER:
            self._answer(status, headers, content, is_half=True)
        elif fault is not None:
            self._falsify(fault)

    def _falsify(self, fault: Fault) -> None:
        """Answer what the server did not say, or nothing."""
        if fault.status is not None:
            self._status(fault.status)
        elif fault is Fault.HALF_REFUSAL:
            self._status(500, is_half=True)
        else:
            if fault in {Fault.NO_ANSWER, Fault.LANDED_NO_ANSWER}:
                time.sleep(SILENCE_SECONDS)
            self._cut()

    def _cut(self) -> None:
        self.close_connection = True

    def _status(self, status: int, *, is_half: bool = False) -> None:
        content = b'{"error":{"message":"made up by the proxy","type":"Gateway","code":%d}}' % status
        self._answer(status, [("Content-Type", "application/json")], content, is_half=is_half)

    def _answer(self, status: int, headers: list[tuple[str, str]], content: bytes, *, is_half: bool) -> None:
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in {"content-length", "transfer-encoding", "connection"}:
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content[: len(content) // 2] if is_half else content)
        if is_half:
            self._cut()

    do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = _serve  # noqa: N815  (the names http.server calls)
