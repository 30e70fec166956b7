"""A schema registry with Confluent's API: Apicurio, its schemas in memory."""

from __future__ import annotations

import tarfile
import tempfile
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from prove.lab.rest_catalog import TEST_LOCK
from servers.cache import cache_folder, exclusive
from servers.environment import clean_environment
from servers.jars import jar_paths
from servers.java import FRUGAL_OPTIONS, java_21
from servers.process import ServerFolder, ServerProcess, free_ports, is_listening

_API = "/apis/ccompat/v7"


@dataclass(frozen=True, slots=True)
class RegistryServer:
    """A running registry and the address of its API as Confluent's clients want it."""

    url: str
    process: ServerProcess


def start_registry(folder: ServerFolder) -> RegistryServer:
    """Start it, which takes some eight seconds."""
    port, management_port = free_ports(2)
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
    url = f"http://127.0.0.1:{port}{_API}"
    process.wait_until(lambda: is_listening(port) and _answers(f"{url}/subjects"), 120)
    return RegistryServer(url, process)


def _unpacked() -> Path:
    """Return the folder of the server's files, unpacked once for all clones."""
    (archive,) = jar_paths("registry", lock=TEST_LOCK)
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
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310  (our own)
            return bool(answer.status == 200)
    except urllib.error.URLError:
        return False
