"""A proxy that speaks TLS before a server of plain TCP: bytes of a connection pass both ways as they come."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from prove.lab.tunnel import listening, pump

if TYPE_CHECKING:
    from tests.support.certificates import Certificates


@contextmanager
def tls_before(port: int, certificates: Certificates) -> Iterator[int]:
    """Give the port on loopback where TLS is spoken before the server at ``port``."""
    context = certificates.server_context()
    context.set_alpn_protocols(["h2"])  # gRPC takes nothing else

    def connect(plain: socket.socket) -> None:
        client = context.wrap_socket(plain, server_side=True)
        server = socket.create_connection(("127.0.0.1", port))
        threading.Thread(target=pump, args=(server, client), daemon=True).start()
        pump(client, server)

    with listening(connect) as own:
        yield own
