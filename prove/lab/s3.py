"""An S3 for tests: moto's server in its own process."""

from __future__ import annotations

import sys
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from prove.lab.kafka_server import unique_name
from servers.environment import clean_environment
from servers.process import ServerFolder, ServerProcess, free_ports, is_listening

SERVER = Path(__file__).with_name("s3_server.py")
MAKE_OLD = "/make-old/"  # of that: then the bucket, a slash and what the objects' names begin with
REGION = "us-east-1"


@dataclass(frozen=True, slots=True)
class S3:
    """The store's address, credentials, and a bucket of the caller's own."""

    endpoint: str
    access_key: str
    secret_key: str
    bucket: str

    @property
    def pyiceberg_properties(self) -> dict[str, str]:
        """Return PyIceberg's properties."""
        return {
            "s3.endpoint": self.endpoint,
            "s3.access-key-id": self.access_key,
            "s3.secret-access-key": self.secret_key,
            "s3.region": REGION,
            "s3.path-style-access": "true",
        }

    @property
    def glue_properties(self) -> dict[str, str]:
        """Return PyIceberg's properties of the Glue at the same address, its tables in the bucket."""
        return {
            "type": "glue",
            "glue.endpoint": self.endpoint,
            "client.region": REGION,
            "client.access-key-id": self.access_key,
            "client.secret-access-key": self.secret_key,
            "warehouse": f"s3://{self.bucket}/glue",
            **self.pyiceberg_properties,
        }


@dataclass(frozen=True, slots=True)
class S3Server:
    """A running store."""

    endpoint: str
    process: ServerProcess


def store_at(endpoint: str, kind: str = "bucket") -> S3:
    """Return the store at this address, with a new bucket."""
    return S3(endpoint, "sluice", "test-secret-key", new_bucket(endpoint, kind))


def new_bucket(endpoint: str, kind: str = "bucket") -> str:
    """Create a bucket and return its name; kind ``replacing`` ignores If-None-Match."""
    bucket = unique_name(kind)
    request = urllib.request.Request(f"{endpoint}/{bucket}", method="PUT")  # noqa: S310  (our own)
    # moto keeps an account by the credential's key; the default account belongs to any other key too.
    request.add_header(
        "Authorization", f"AWS4-HMAC-SHA256 Credential=sluice/20260101/{REGION}/s3/aws4_request"
    )
    with urllib.request.urlopen(request, timeout=10):  # noqa: S310  (our own)
        return bucket


def start_s3(folder: ServerFolder) -> S3Server:
    """Start the store and wait until it listens."""
    (port,) = free_ports(1)
    command = [sys.executable, str(SERVER), str(port)]
    process = ServerProcess(folder, command, clean_environment())
    process.wait_until(lambda: is_listening(port), 60)
    return S3Server(f"http://127.0.0.1:{port}", process)


def make_objects_old(endpoint: str, location: str) -> None:
    """Set the times below an ``s3://`` location back far enough for orphan removal."""
    address = f"{endpoint}{MAKE_OLD}{location.removeprefix('s3://')}/"
    with urllib.request.urlopen(address, timeout=10):  # noqa: S310  (our own)
        pass
