"""A tunnel before a broker in which a producer's first request meets a leader that is not ready."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from prove.lab.tunnel import listening

_PRODUCE = (0).to_bytes(2, "big")
_LENGTH = struct.Struct(">i")


@contextmanager
def refuses_first_request(bootstrap_servers: str, topic: str) -> Iterator[str]:
    """Give bootstrap servers of a broker on loopback that does not know the topic at the first request.

    That names another topic when it reaches the broker. A client is told the tunnel's port for the broker's.
    """
    tunnel = _Tunnel(int(bootstrap_servers.rpartition(":")[2]), topic.encode())
    with listening(tunnel.connect) as port:
        yield f"127.0.0.1:{port}"


class _Tunnel:
    def __init__(self, upstream: int, topic: bytes) -> None:
        self._upstream = upstream
        self._topic = topic
        self._has_refused = False

    def connect(self, client: socket.socket) -> None:
        with client, socket.create_connection(("127.0.0.1", self._upstream)) as server:
            threading.Thread(target=self._answer, args=(server, client), daemon=True).start()
            for request in _frames(client):
                _send(server, self._misnamed(request))

    def _misnamed(self, request: bytes) -> bytes:
        if self._has_refused or not request.startswith(_PRODUCE):
            return request
        self._has_refused = True
        return request.replace(self._topic, b"?" * len(self._topic))

    def _answer(self, server: socket.socket, client: socket.socket) -> None:
        ports = _LENGTH.pack(self._upstream), _LENGTH.pack(client.getsockname()[1])
        with suppress(OSError):
            for answer in _frames(server):
                _send(client, answer.replace(*ports))


def _frames(end: socket.socket) -> Iterator[bytes]:
    with end.makefile("rb") as stream:
        while len(length := stream.read(_LENGTH.size)) == _LENGTH.size:
            yield stream.read(*_LENGTH.unpack(length))


def _send(end: socket.socket, frame: bytes) -> None:
    end.sendall(_LENGTH.pack(len(frame)) + frame)
