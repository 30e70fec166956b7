"""Schema registry with Confluent's API on loopback: Apicurio with schemas in memory.

It starts empty, and gives ids in the order in which schemas are registered: the same ones in the same order
have the same ids again.
"""

from __future__ import annotations

import tarfile
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

import requests

from servers.cache import cache_folder, exclusive
from servers.environment import FRUGAL_OPTIONS, clean_environment, java_21
from servers.jars import jar_paths
from servers.process import ServerFolder, ServerProcess, free_ports, is_listening

_START_TIMEOUT_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class RegistryServer:
    """A running registry and its API address for Confluent's clients."""

    url: str
    process: ServerProcess


def registry_url(port: int) -> str:
    """Return the API address of the registry on that port."""
    return f"http://127.0.0.1:{port}/apis/ccompat/v7"


def start_registry(folder: ServerFolder, port: int | None = None) -> RegistryServer:
    """Start the registry (some eight seconds), on a free port if none is given."""
    own, management_port = free_ports(2)
    port = port or own
    options = {
        "quarkus.http.host": "127.0.0.1",
        "quarkus.http.port": str(port),
        "quarkus.management.host": "127.0.0.1",
        "quarkus.management.port": str(management_port),
        "quarkus.log.level": "WARN",
        "quarkus.otel.sdk.disabled": "true",
    }
    jar = _unpacked() / "quarkus-run.jar"
    process = ServerProcess(
        folder,
        [
            *(str(java_21() / "bin" / "java"), "-Xmx512m", *FRUGAL_OPTIONS),
            *(f"-D{name}={value}" for name, value in options.items()),
            *("-jar", str(jar)),
        ],
        clean_environment(java_21()),
    )
    url = registry_url(port)
    process.wait_until(lambda: is_listening(port) and _answers(f"{url}/subjects"), _START_TIMEOUT_SECONDS)
    return RegistryServer(url, process)


def _unpacked() -> Path:
    """Return the folder of the server's files, unpacked once for all clones."""
    (archive,) = jar_paths("registry")
    place = cache_folder("unpacked")
    target = place / archive.name.removesuffix(".tar.gz")
    with exclusive(place):
        if not target.exists():
            with tempfile.TemporaryDirectory(dir=place) as draft, tarfile.open(archive) as packed:
                whole = Path(draft, "whole")
                packed.extractall(whole, filter="data")
                whole.rename(target)
    return target


def _answers(url: str) -> bool:
    with requests.Session() as session, suppress(requests.RequestException):
        session.trust_env = False  # our own is behind no proxy
        return session.get(url, timeout=5).status_code == HTTPStatus.OK
    return False
