"""A proxy that speaks TLS before a server of plain TCP: bytes of a connection pass both ways as they come."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.support.certificates import Certificates

_CHUNK = 65_536


@contextmanager
def tls_before(port: int, certificates: Certificates) -> Iterator[int]:
    """Give the port on loopback where TLS is spoken before the server at ``port``."""
    context = certificates.server_context()
    context.set_alpn_protocols(["h2"])  # gRPC takes nothing else
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with suppress(OSError):  # closed
                while True:
                    plain, _ = listener.accept()
                    threading.Thread(target=_connect, args=(plain,), daemon=True).start()

        def _connect(plain: socket.socket) -> None:
            with suppress(OSError):
                client = context.wrap_socket(plain, server_side=True)
                server = socket.create_connection(("127.0.0.1", port))
                back = threading.Thread(target=pump, args=(server, client), daemon=True)
                back.start()
                pump(client, server)

        threading.Thread(target=serve, daemon=True).start()
        yield listener.getsockname()[1]


def pump(source: socket.socket, target: socket.socket) -> None:
    """Pass on what comes, until an end closes; then close both."""
    with suppress(OSError):
        while chunk := source.recv(_CHUNK):
            target.sendall(chunk)
    for end in (source, target):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
