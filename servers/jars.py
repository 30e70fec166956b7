"""Jars by lock file: coordinates, sizes and checksums, fetched in parallel into the user's cache.

No transitive resolving happens at run time. The repository's address is the default of ``maven-artifact``
unless ``SLUICE_MAVEN_MIRROR`` names another; proxies come from the standard variables.
``python -m servers.jars LOCK [SET ...]`` brings a lock's jars into the cache, showing how far it is.
"""

from __future__ import annotations

import hashlib
import os
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import requests
from maven_artifact import Artifact, Downloader

from servers.cache import cache_folder, exclusive
from spark_jobs.protocol.errors import SluiceError, fault

RUNTIME_LOCK = Path(__file__).with_name("jars.lock")
MIRROR_VARIABLE = "SLUICE_MAVEN_MIRROR"

# Told, from several threads but one at a time: bytes done, bytes in all, the file just worked on.
OnProgress: TypeAlias = Callable[[int, int, str], None]

_PARALLEL_DOWNLOADS = 12
_CHUNK_BYTES = 256 * 1024
_BYTES_PER_MB = 1_000_000
_TIMEOUT_SECONDS = (20, 60)
_ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class Jar:
    """One line of a lock file; files other than jars have their ``extension`` there, as in Gradle."""

    group: str
    artifact: str
    version: str
    classifier: str | None
    sha256: str
    set_name: str
    size_bytes: int
    extension: str = "jar"

    @property
    def file_name(self) -> str:
        """Return Maven's file name, unique over all lock files."""
        suffix = f"-{self.classifier}" if self.classifier else ""
        return f"{self.artifact}-{self.version}{suffix}.{self.extension}"


def read_lock(path: Path, *set_names: str) -> tuple[Jar, ...]:
    """Return a lock file's jars in order, of the named sets only if any is named."""
    jars = tuple(_parse(line) for line in path.read_text().splitlines() if line and not line.startswith("#"))
    return tuple(jar for jar in jars if not set_names or jar.set_name in set_names)


def jar_paths(*set_names: str, lock: Path = RUNTIME_LOCK) -> tuple[Path, ...]:
    """Return the sets' files in the cache, fetching missing ones silently."""
    return fetch(read_lock(lock, *set_names))


def lake_jar_sets(catalog_properties: Mapping[str, str]) -> tuple[str, ...]:
    """Return the jar sets for a lake: Iceberg's bundle only for its store, and a driver for Postgres."""
    families = {key.partition(".")[0] for key in catalog_properties}
    warehouse = catalog_properties.get("warehouse", "")
    more = {
        "spark-s3": "s3" in families or warehouse.startswith(("s3://", "s3a://")),
        "spark-gcs": "gcs" in families or warehouse.startswith("gs://"),
        "spark-postgres": catalog_properties.get("uri", "").startswith("postgresql"),
    }
    return ("spark", *(name for name, is_needed in more.items() if is_needed))


def missing(jars: Iterable[Jar]) -> tuple[Jar, ...]:
    """Return the jars that are not in the cache yet."""
    # A file gets its name only after its checksum was verified, so the size is enough here.
    sizes = {path.name: path.stat().st_size for path in cache_folder("jars").glob("[!.]*")}
    return tuple(jar for jar in jars if sizes.get(jar.file_name) != jar.size_bytes)


def fetch(jars: tuple[Jar, ...], on_progress: OnProgress | None = None) -> tuple[Path, ...]:
    """Fetch all jars into the cache and return their paths in order; safe for concurrent processes.

    Raises RetryableError when the repository does not answer, ConfigError when a file is not the locked one.
    """
    folder = cache_folder("jars")
    if missing(jars):
        with exclusive(folder):
            wanted = missing(jars)
            meter = _Meter(sum(jar.size_bytes for jar in wanted), on_progress)
            with ThreadPoolExecutor(_PARALLEL_DOWNLOADS) as pool:
                for outcome in [pool.submit(_download, jar, folder, meter) for jar in wanted]:
                    outcome.result()
    return tuple(folder / jar.file_name for jar in jars)


def _parse(line: str) -> Jar:
    coordinates, sha256, set_name, size_bytes = line.split()
    coordinates, _, extension = coordinates.partition("@")
    group, artifact, version, *rest = coordinates.split(":")
    classifier, size = rest[0] if rest else None, int(size_bytes)
    return Jar(group, artifact, version, classifier, sha256, set_name, size, extension or "jar")


@dataclass(slots=True)
class _Meter:
    total_bytes: int
    on_progress: OnProgress | None
    done_bytes: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, size_bytes: int, file_name: str) -> None:
        with self.lock:
            self.done_bytes += size_bytes
            if self.on_progress is not None:
                self.on_progress(self.done_bytes, self.total_bytes, file_name)


def _download(jar: Jar, folder: Path, meter: _Meter) -> None:
    draft = folder / f".{jar.file_name}.{os.getpid()}.part"
    try:
        for attempt in range(1, _ATTEMPTS + 1):
            received_bytes = 0
            try:
                received_bytes, sha256 = _receive(jar, draft, meter)
                break
            except requests.RequestException as error:
                if attempt == _ATTEMPTS:
                    status = getattr(error.response, "status_code", None)
                    what = f"HTTP {status}" if status else type(error).__name__
                    raise fault("jar-download", jar=jar.file_name, what=what) from error
        if sha256 != jar.sha256:
            raise fault(
                "jar-checksum",
                jar=jar.file_name,
                sha256=sha256,
                expected=jar.sha256,
                size_bytes=received_bytes,
            )
        draft.replace(folder / jar.file_name)
    finally:
        draft.unlink(missing_ok=True)


def _receive(jar: Jar, draft: Path, meter: _Meter) -> tuple[int, str]:
    digest, size_bytes = hashlib.sha256(), 0
    try:
        with requests.get(_address(jar), stream=True, timeout=_TIMEOUT_SECONDS) as answer:
            answer.raise_for_status()
            with draft.open("wb") as file:
                for chunk in answer.iter_content(_CHUNK_BYTES):
                    file.write(chunk)
                    digest.update(chunk)
                    size_bytes += len(chunk)
                    meter.add(len(chunk), jar.file_name)
    except requests.RequestException:
        meter.add(-size_bytes, jar.file_name)
        raise
    return size_bytes, digest.hexdigest()


def _address(jar: Jar) -> str:
    mirror = os.environ.get(MIRROR_VARIABLE)
    resolver = (Downloader(base=mirror.rstrip("/")) if mirror else Downloader()).resolver
    artifact = Artifact(jar.group, jar.artifact, jar.version, jar.classifier, jar.extension)
    return str(resolver.uri_for_artifact(artifact))


def main(arguments: list[str]) -> int:
    """Fetch and return the exit code."""
    jars = read_lock(Path(arguments[0]), *arguments[1:])
    wanted = missing(jars)
    if not wanted:
        return 0
    size_mb = sum(jar.size_bytes for jar in wanted) / _BYTES_PER_MB
    _say(f"Fetching {len(wanted)} jars, {size_mb:.0f} MB, into {cache_folder('jars')}\n")
    is_shown = sys.stderr.isatty()
    try:
        fetch(jars, _show if is_shown else None)
    except SluiceError as error:
        _say(f"\n{error}\n")
        return error.exit_code
    _say("\n" * is_shown + "Jars fetched and verified.\n")
    return 0


def _show(done_bytes: int, total_bytes: int, _file_name: str) -> None:
    _say(f"\r  {done_bytes / _BYTES_PER_MB:5.0f} of {total_bytes / _BYTES_PER_MB:.0f} MB")


def _say(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
