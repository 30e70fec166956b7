"""A slow uplink to a server: a shared rate of bytes per second from all clients."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from prove.lab.tunnel import listening

_CHUNK = 16_384
_LENGTH = struct.Struct(">i")


@dataclass(slots=True)
class SlowUplink:
    """``sent`` counts bytes so far; a broker's clients get another port than its own."""

    upstream: int
    rate: float
    sent: int = 0
    _turn: threading.Lock = field(default_factory=threading.Lock)

    def connect(self, client: socket.socket) -> None:
        """Forward a client's bytes slowly, and the answers."""
        with client, socket.create_connection(("127.0.0.1", self.upstream)) as server, suppress(OSError):
            threading.Thread(target=self._answer, args=(server, client), daemon=True).start()
            while chunk := client.recv(_CHUNK):
                with self._turn:
                    self.sent += len(chunk)
                    time.sleep(len(chunk) / self.rate)
                server.sendall(chunk)

    def _answer(self, server: socket.socket, client: socket.socket) -> None:
        with suppress(OSError):
            self._pass_on(server, client)
        with suppress(OSError):  # the server has gone
            client.shutdown(socket.SHUT_RDWR)

    def _pass_on(self, server: socket.socket, client: socket.socket) -> None:
        ports = _LENGTH.pack(self.upstream), _LENGTH.pack(client.getsockname()[1])
        with server.makefile("rb") as answers:
            while len(length := answers.read(_LENGTH.size)) == _LENGTH.size:
                client.sendall(length + answers.read(*_LENGTH.unpack(length)).replace(*ports))


class PlainUplink(SlowUplink):
    """An uplink to a server that does not advertise its port."""

    def _pass_on(self, server: socket.socket, client: socket.socket) -> None:
        while chunk := server.recv(_CHUNK):
            client.sendall(chunk)


@contextmanager
def slow_uplink(
    bootstrap_servers: str, rate: float, kind: type[SlowUplink] = SlowUplink
) -> Iterator[tuple[str, SlowUplink]]:
    """Yield an address of a local broker or server behind an uplink of this rate."""
    uplink = kind(int(bootstrap_servers.rpartition(":")[2]), rate)
    with listening(uplink.connect) as port:
        yield f"127.0.0.1:{port}", uplink
