"""A local OIDC token endpoint (client credentials), which can be made unavailable.

Its tokens are unsigned: the broker believes them, and the client's side is as with any provider.
"""

from __future__ import annotations

import base64
import json
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass
class TokenEndpoint:
    """``clients`` are secrets by id; ids are the broker's users; ``is_away`` hangs up on everyone."""

    url: str = ""
    clients: dict[str, str] = field(default_factory=dict)
    lasts_seconds: int = 300
    is_away: bool = False
    given: int = 0

    def token(self, user: str) -> tuple[str, float]:
        """Return a token of the user and its expiry."""
        now = time.time()
        ends = now + self.lasts_seconds
        claims = {"sub": user, "iat": now, "exp": ends}
        parts = ({"alg": "none"}, claims)
        return ".".join([*(_encoded(json.dumps(part).encode()) for part in parts), ""]), ends

    def answer(self, authorization: str) -> tuple[int, dict[str, object]]:
        """Return status and body for an authenticating client."""
        who, _, secret = base64.b64decode(authorization.removeprefix("Basic ")).decode().partition(":")
        if self.clients.get(who) != secret:
            return 401, {"error": "invalid_client"}
        self.given += 1
        return 200, {"access_token": self.token(who)[0], "token_type": "Bearer"}


def _encoded(part: bytes) -> str:
    return base64.urlsafe_b64encode(part).decode().rstrip("=")


@contextmanager
def giving_tokens() -> Iterator[TokenEndpoint]:
    """Yield an endpoint that listens until the end."""
    endpoint = TokenEndpoint()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            if endpoint.is_away:
                return
            status, answer = endpoint.answer(self.headers["Authorization"])
            body = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_arguments: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    endpoint.url = f"http://127.0.0.1:{server.server_port}/token"
    try:
        yield endpoint
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
