"""A webhook's receiver on loopback that answers as it is told: at once, late, or with an error."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from email.message import Message


@dataclass
class Receiver:
    """``status`` and ``delay_seconds`` are the next answers', ``released`` ends delays early.

    ``taken`` are the bodies that were answered with 2xx, ``raw`` all that came: headers and bytes.
    """

    url: str = ""
    status: int = 204
    delay_seconds: float = 0.0
    released: threading.Event = field(default_factory=threading.Event)
    taken: list[dict[str, Any]] = field(default_factory=list)
    raw: list[tuple[Message, bytes]] = field(default_factory=list)


@contextmanager
def receiving() -> Iterator[Receiver]:
    """A receiver that listens until the end."""
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            receiver.raw.append((self.headers, self.rfile.read(int(self.headers["Content-Length"]))))
            body = json.loads(receiver.raw[-1][1])
            assert self.headers["Idempotency-Key"] == body["id"]
            status = receiver.status
            receiver.released.wait(receiver.delay_seconds)
            if 200 <= status < 300:
                receiver.taken.append(body)
            self.send_response(status)
            self.send_header("Content-Length", "0")
            if status == 302:
                self.send_header("Location", "/elsewhere")
            self.end_headers()

        def log_message(self, *_arguments: object) -> None:
            """Nothing on standard error."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    receiver.url = f"http://127.0.0.1:{server.server_port}/s3cr3t-path"
    try:
        yield receiver
    finally:
        receiver.released.set()
        server.shutdown()
        server.server_close()
        thread.join()
