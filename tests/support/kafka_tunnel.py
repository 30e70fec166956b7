"""A tunnel before a broker in which a producer's first request meets a leader that is not ready."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_PRODUCE = (0).to_bytes(2, "big")
_LENGTH = struct.Struct(">i")


@contextmanager
def refuses_first_request(bootstrap_servers: str, topic: str) -> Iterator[str]:
    """Give bootstrap servers of a broker on loopback that does not know the topic at the first request.

    That names another topic when it reaches the broker. A client is told the tunnel's port for the broker's.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        tunnel = _Tunnel(int(bootstrap_servers.rpartition(":")[2]), port, topic.encode())

        def serve() -> None:
            with suppress(OSError):  # closed
                while True:
                    client, _ = listener.accept()
                    threading.Thread(target=tunnel.connect, args=(client,), daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        yield f"127.0.0.1:{port}"


class _Tunnel:
    def __init__(self, upstream: int, port: int, topic: bytes) -> None:
        self._upstream = upstream
        self._ports = _LENGTH.pack(upstream), _LENGTH.pack(port)
        self._names = topic, b"?" * len(topic)
        self._has_refused = False

    def connect(self, client: socket.socket) -> None:
        with suppress(OSError), client, socket.create_connection(("127.0.0.1", self._upstream)) as server:
            threading.Thread(target=self._answer, args=(server, client), daemon=True).start()
            for request in _frames(client):
                if request.startswith(_PRODUCE) and not self._has_refused:
                    self._has_refused = True
                    request = request.replace(*self._names)  # noqa: PLW2901
                _send(server, request)

    def _answer(self, server: socket.socket, client: socket.socket) -> None:
        with suppress(OSError):
            for answer in _frames(server):
                _send(client, answer.replace(*self._ports))


def _frames(end: socket.socket) -> Iterator[bytes]:
    with end.makefile("rb") as stream:
        while len(length := stream.read(_LENGTH.size)) == _LENGTH.size:
            yield stream.read(*_LENGTH.unpack(length))


def _send(end: socket.socket, frame: bytes) -> None:
    end.sendall(_LENGTH.pack(len(frame)) + frame)
