"""A Kafka Connect worker listens before it knows its own paths: it is asked nothing until it answers."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

from bench.connect_worker import ConnectWorker


class _Starting(BaseHTTPRequestHandler):
    """Answers 404 without a word once, then as a worker without connectors."""

    answers = 0

    def do_GET(self) -> None:
        type(self).answers += 1
        body = b"" if self.answers == 1 else b"[]"
        self.send_response(404 if self.answers == 1 else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing to the test's output."""


def test_a_worker_is_ready_once_it_answers_for_its_connectors() -> None:
    """Nobody listening and a 404 are not ready; a list of no connectors is."""
    server = HTTPServer(("127.0.0.1", 0), _Starting)
    worker = ConnectWorker(f"http://127.0.0.1:{server.server_port}", pid=0)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        assert not worker.is_ready()
        assert worker.is_ready()
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert not worker.is_ready()
