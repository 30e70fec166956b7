"""Certificates of a private authority, for servers on loopback and their clients."""

from __future__ import annotations

import datetime as dt
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from spark_jobs.storage.state_files import write_whole

DAY = dt.timedelta(days=1)
_ADDRESS = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])


class Authority:
    """A new authority whose key is not stored, so it can issue nothing later.

    ``ca`` is its certificate (PEM), by which all of its others are known.
    """

    def __init__(self, folder: Path) -> None:
        self.ca = folder / "ca.pem"
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("Sluice's own authority")
        builder = self._builder(self._name, self._key, dt.datetime.now(dt.UTC))
        own = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        write_whole(self.ca, _pem(own.sign(self._key, hashes.SHA256())))

    def issue(self, name: str, *, starts: dt.datetime | None = None, file: str = "") -> Path:
        """Write a certificate with key for the name and 127.0.0.1 to one PEM file, and return its path."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = self._builder(_name(name), key, starts or dt.datetime.now(dt.UTC))
        signed = builder.add_extension(_ADDRESS, critical=False).sign(self._key, hashes.SHA256())
        form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        path = self.ca.with_name(f"{file or name}.pem")
        write_whole(path, _pem(signed) + key.private_bytes(*form))
        return path

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, starts: dt.datetime
    ) -> x509.CertificateBuilder:
        named = x509.CertificateBuilder().subject_name(subject).issuer_name(self._name)
        # A day before: clocks differ.
        dated = named.not_valid_before(starts - DAY).not_valid_after(starts + 365 * DAY)
        return dated.public_key(key.public_key()).serial_number(x509.random_serial_number())


def fingerprint(path: str) -> str:
    """Return the SHA-256 of the first certificate in a PEM file, which is the server's."""
    certificate = x509.load_pem_x509_certificates(Path(path).read_bytes())[0]
    return certificate.fingerprint(hashes.SHA256()).hex()


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
