"""A Google Cloud Storage for tests: ``gcs_server`` in a process of its own."""

from __future__ import annotations

import json
import sys
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from prove.lab.kafka_server import unique_name
from servers.environment import clean_environment
from servers.process import ServerFolder, ServerProcess, free_ports, is_listening

ROOT = Path(__file__).parents[2]
FRONT = "/front/"  # of that address: then the bucket
ACCOUNT = "sluice@test.iam.gserviceaccount.com"
TOKEN = "test-oauth-token"


@dataclass(slots=True)
class Orders:
    """How a bucket answers: without these permissions, as to a token that ended, its next creation late.

    ``is_old``: every object is said to be four days older.
    """

    lacking: Sequence[str] = ()
    is_expired: bool = False
    holds_back: bool = False
    is_old: bool = False


@dataclass(frozen=True, slots=True)
class Gcs:
    """The store's address, and a bucket of the caller's own."""

    endpoint: str
    bucket: str

    @property
    def properties(self) -> dict[str, str]:
        """Return PyIceberg's properties."""
        return {"gcs.service.host": self.endpoint, "gcs.oauth2.token": TOKEN}

    def location(self, folder: str) -> str:
        """Return a location in the bucket."""
        return f"gs://{self.bucket}/{folder}"

    def order(self, **orders: object) -> None:
        """Let the bucket answer by these ``Orders``, and what it holds back go on."""
        _ask("PUT", f"{self.endpoint}{FRONT}{self.bucket}", asdict(Orders(**orders)))  # type: ignore[arg-type]

    @contextmanager
    def holding_back(self) -> Iterator[tuple[Callable[[], None], Callable[[], None]]]:
        """Hold back the next creation of an object; yield what waits for it, and what lets it go on."""
        self.order(holds_back=True)
        try:
            yield lambda: _ask("GET", f"{self.endpoint}{FRONT}{self.bucket}"), self.order
        finally:
            self.order()


@dataclass(frozen=True, slots=True)
class GcsServer:
    """A running store."""

    endpoint: str
    process: ServerProcess


def start_gcs(folder: ServerFolder) -> GcsServer:
    """Start the store and wait until it answers."""
    port, store_port = free_ports(2)
    command = [sys.executable, "-m", "prove.lab.gcs_server", str(port), str(store_port)]
    process = ServerProcess(folder, command, clean_environment(), ROOT)
    process.wait_until(lambda: is_listening(port) and is_listening(store_port), 60)
    return GcsServer(f"http://127.0.0.1:{port}", process)


def gcs_at(endpoint: str, kind: str = "bucket") -> Gcs:
    """Return the store at this address, with a new bucket; kind ``replacing`` ignores conditions."""
    bucket = unique_name(kind)
    _ask("POST", f"{endpoint}/storage/v1/b?project=test", {"name": bucket})
    return Gcs(endpoint, bucket)


def _ask(method: str, address: str, content: object = None) -> None:
    body = None if content is None else json.dumps(content).encode()
    request = urllib.request.Request(address, body, method=method)  # noqa: S310  (our own)
    with urllib.request.urlopen(request, timeout=30):  # noqa: S310  (our own)
        pass
