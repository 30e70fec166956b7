"""Tunnels to a server on loopback, with a thread per connection."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

_CHUNK = 65_536


@contextmanager
def listening(connect: Callable[[socket.socket], None]) -> Iterator[int]:
    """Yield a local port; ``connect`` is called with each client, and may raise ``OSError``."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with suppress(OSError):  # closed
                while True:
                    client, _ = listener.accept()
                    threading.Thread(target=handle, args=(client,), daemon=True).start()

        def handle(client: socket.socket) -> None:
            with suppress(OSError):
                connect(client)

        threading.Thread(target=serve, daemon=True).start()
        yield listener.getsockname()[1]


def pump(source: socket.socket, target: socket.socket) -> None:
    """Forward data until one end closes; then close both."""
    with suppress(OSError):
        while chunk := source.recv(_CHUNK):
            target.sendall(chunk)
    for end in (source, target):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
