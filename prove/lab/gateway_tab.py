"""The example client in a tab of a real browser, on a page of another site."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prove.lab.browser import Page

_CLIENTS = Path(__file__).parents[2] / "docs" / "clients"
_NAME = "gateway-client.js"


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def website() -> Iterator[str]:
    """Serve a site with the example client; yield its origin."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(_CLIENTS)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@dataclass(frozen=True, slots=True)
class Tab:
    """A tab whose client sends events numbered from 0 under the source `tab`."""

    page: Page
    socket: str
    token: str
    per_batch = 5

    def load(self, origin: str, first: int = 0) -> None:
        """Go to a page of the site, and start with the event of this number."""
        self.page.open(f"{origin}/{_NAME}")
        self.page.evaluate(f"{(_CLIENTS / _NAME).read_text()}; window.GatewayClient = GatewayClient; 1")
        self.page.evaluate(
            f"window.client = new GatewayClient('{self.socket}', 'tab',"
            f" {{token: '{self.token}', most: {self.per_batch}, seconds: 0.2}});"
            f" window.number = {first}; 1"
        )

    def send(self, count: int) -> None:
        """Give the client this many more events, without waiting."""
        self.page.evaluate(
            f"for (let i = 0; i < {count}; i++) client.send({{key: 'k', value: {{id: number++}}}}); 1"
        )

    def wait(self) -> None:
        """Wait until all events are confirmed."""
        self.page.wait_until("client.waiting === 0", seconds=120)
