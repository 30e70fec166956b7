"""An HTTP proxy on loopback; subclasses decide about each request.

It keeps the client's Host header: catalogs hand out their own address from it, and a client sent to the
server itself would bypass the proxy without a test noticing; S3's signatures cover it.
"""

from __future__ import annotations

import http.client
import ssl
import threading
from abc import ABC, abstractmethod
from dataclasses import dataclass
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Protocol, Self
from urllib.parse import urlsplit, urlunsplit

UPSTREAM_TIMEOUT_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Request:
    """A client's request."""

    method: str
    path: str
    headers: Message
    body: bytes


@dataclass(frozen=True, slots=True)
class Response:
    """A response to a client."""

    status: int
    headers: tuple[tuple[str, str], ...]
    content: bytes


class HttpProxy(ABC):
    """Use as a context manager; ``url`` is ``upstream`` at the proxy's address.

    With ``tls`` clients come by https, as that context wants them to; the server is asked as ever.
    """

    def __init__(self, upstream: str, *, tls: ssl.SSLContext | None = None, port: int = 0) -> None:
        self.upstream = upstream
        self._upstream = urlsplit(upstream)
        self._server = ThreadingHTTPServer(("127.0.0.1", port), type("Handler", (_Handler,), {"proxy": self}))
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )
        address = f"127.0.0.1:{self._server.server_address[1]}"
        parts = self._upstream._replace(netloc=address)
        if tls is not None:
            self._server.socket = tls.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
            parts = parts._replace(scheme="https")
        self.url = urlunsplit(parts)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Refuse every connection from now on."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._server.server_close()
            self._thread.join()

    @abstractmethod
    def serve(self, request: Request, client: Client) -> None:
        """Answer one request, or cut its connection."""

    def pass_on(self, request: Request) -> Response:
        """Send the request to the server with the client's headers."""
        connection = http.client.HTTPConnection(
            self._upstream.hostname or "", self._upstream.port, timeout=UPSTREAM_TIMEOUT_SECONDS
        )
        connection.putrequest(request.method, request.path, skip_host=True, skip_accept_encoding=True)
        for name, value in request.headers.items():
            connection.putheader(name, value)
        connection.endheaders(request.body or None)
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        return Response(answer.status, tuple(answer.getheaders()), content)


class Client(Protocol):
    """A request's client."""

    def answer(self, response: Response, *, is_half: bool = False) -> None:
        """Send the response; ``is_half``: half of the content, then end the connection."""

    def cut(self) -> None:
        """End the connection."""


class _Handler(BaseHTTPRequestHandler):
    proxy: HttpProxy
    protocol_version = "HTTP/1.1"
    # Head and content are two writes: the second would wait 40 ms for the client's word of the first.
    disable_nagle_algorithm = True

    def log_message(self, *_: object) -> None:
        pass

    def answer(self, response: Response, *, is_half: bool = False) -> None:
        self.send_response_only(response.status)
        length = str(len(response.content))
        for name, value in response.headers:
            if name.lower() == "content-length" and self.command == "HEAD":
                length = value  # of the content that GET would have
            elif name.lower() not in {"content-length", "transfer-encoding", "connection"}:
                self.send_header(name, value)
        self.send_header("Content-Length", length)
        self.end_headers()
        if self.command != "HEAD":
            content = response.content
            self.wfile.write(content[: len(content) // 2] if is_half else content)
        if is_half:
            self.cut()

    def cut(self) -> None:
        self.close_connection = True

    def _serve(self) -> None:
        self.proxy.serve(Request(self.command, self.path, self.headers, self._body()), self)

    def _body(self) -> bytes:
        """Return the body, with chunk framing, so that it fits the headers."""
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        lines = [self.rfile.readline()]
        while length := int(lines[-1].partition(b";")[0], 16):
            lines += (self.rfile.read(length + len(b"\r\n")), self.rfile.readline())
        while lines[-1].strip():
            lines.append(self.rfile.readline())
        return b"".join(lines)

    do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = _serve  # noqa: N815  (the names http.server calls)
