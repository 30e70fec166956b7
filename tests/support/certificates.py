"""Certificates of an authority of the test's own: for a server on loopback, and for its clients."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING

from servers.certificates import Authority

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Certificates:
    """PEM files: the authority's certificate, and of ``server`` and ``client`` certificate and key in one."""

    ca: Path
    server: Path
    client: Path

    def server_context(self, *, asks_clients: bool = False) -> ssl.SSLContext:
        """What a server with these certificates wants of its clients."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.server)
        if asks_clients:
            context.load_verify_locations(self.ca)
            context.verify_mode = ssl.CERT_REQUIRED
        return context


def make_certificates(folder: Path) -> Certificates:
    """Make all of them anew."""
    authority = Authority(folder)
    return Certificates(authority.ca, authority.issue("server"), authority.issue("client"))
