"""What a Kafka broker says of itself and of its one topic, fenced or not: enough for a client that looks."""

from __future__ import annotations

import struct
from contextlib import contextmanager
from socketserver import StreamRequestHandler, ThreadingTCPServer
from threading import Thread
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

TOPIC = "events"
CLUSTER = "cluster-of-one"
_NODE = 1
_METADATA, _API_VERSIONS = 3, 18
_UNKNOWN_TOPIC, _LEADER_NOT_AVAILABLE, _UNSUPPORTED_VERSION = 3, 5, 35


class FencedBroker(ThreadingTCPServer):
    """While ``is_fenced`` it names no broker, as Kafka's does after standing still for too long."""

    daemon_threads = True
    is_fenced = False

    @property
    def address(self) -> str:
        """Return where it listens."""
        return f"127.0.0.1:{self.server_address[1]}"

    def metadata(self, topics: list[str]) -> bytes:
        """Return its answer, of version 2, of the topics that are asked after."""
        node, error = (-1, _LEADER_NOT_AVAILABLE) if self.is_fenced else (_NODE, 0)
        broker = (
            struct.pack(">i", _NODE) + _text("127.0.0.1") + struct.pack(">ih", self.server_address[1], -1)
        )
        partition = struct.pack(">hii", error, 0, node) + _array(struct.pack(">i", _NODE)) * 2
        told = [(topic, (0, [partition]) if topic == TOPIC else (_UNKNOWN_TOPIC, [])) for topic in topics]
        answers = [
            struct.pack(">h", code) + _text(topic) + struct.pack(">b", 0) + _array(*partitions)
            for topic, (code, partitions) in told
        ]
        brokers = _array() if self.is_fenced else _array(broker)
        return brokers + _text(CLUSTER) + struct.pack(">i", node) + _array(*answers)


class _Connection(StreamRequestHandler):
    server: FencedBroker

    def handle(self) -> None:
        """Answer until the client hangs up."""
        while size := self.rfile.read(4):
            request = self.rfile.read(*struct.unpack(">i", size))
            kind, version, number, name_size = struct.unpack_from(">hhih", request)
            if kind == _API_VERSIONS:
                known = struct.pack(">hhh", _API_VERSIONS, 0, 0), struct.pack(">hhh", _METADATA, 2, 2)
                answer = struct.pack(">h", _UNSUPPORTED_VERSION if version else 0) + _array(*known)
            else:
                assert kind == _METADATA
                answer = self.server.metadata(_asked(request[10 + name_size :]))
            self.wfile.write(struct.pack(">ii", 4 + len(answer), number) + answer)


@contextmanager
def fenced_broker() -> Iterator[FencedBroker]:
    """Start one, which is not fenced yet, and stop it in the end."""
    with FencedBroker(("127.0.0.1", 0), _Connection) as broker:
        Thread(target=broker.serve_forever, daemon=True).start()
        try:
            yield broker
        finally:
            broker.shutdown()


def _asked(topics: bytes) -> list[str]:
    (count,) = struct.unpack_from(">i", topics)
    if count < 0:
        return [TOPIC]  # all that there are
    names, at = [], 4
    for _ in range(count):
        (size,) = struct.unpack_from(">h", topics, at)
        names.append(topics[at + 2 : at + 2 + size].decode())
        at += 2 + size
    return names


def _text(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def _array(*elements: bytes) -> bytes:
    return struct.pack(">i", len(elements)) + b"".join(elements)
