"""Certificates of an authority of the test's own: for a server on loopback, and for its clients."""

from __future__ import annotations

import datetime as dt
import ipaddress
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

if TYPE_CHECKING:
    from pathlib import Path

_DAY = dt.timedelta(days=1)


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
    folder.mkdir()
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "an authority")])
    ca = _builder(name, name, key).add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
    (folder / "ca.pem").write_bytes(_pem(ca.sign(key, hashes.SHA256())))
    for who in ("server", "client"):
        own = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, who)])
        address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
        signed = _builder(subject, name, own).add_extension(address, False).sign(key, hashes.SHA256())
        private = own.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        (folder / f"{who}.pem").write_bytes(_pem(signed) + private)
    return Certificates(folder / "ca.pem", folder / "server.pem", folder / "client.pem")


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    named = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer)
    dated = named.not_valid_before(now - _DAY).not_valid_after(now + _DAY)
    return dated.public_key(key.public_key()).serial_number(x509.random_serial_number())


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
