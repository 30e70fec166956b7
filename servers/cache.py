"""The user's cache folder: what is downloaded or derived once and shared by all clones."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from spark_jobs.protocol.errors import ConfigError


def cache_folder(name: str) -> Path:
    """Return (and create) ``<user's cache>/sluice/<name>``."""
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        root = Path(base) if base and Path(base).is_absolute() else Path.home() / ".cache"
        folder = root / "sluice" / name
        folder.mkdir(parents=True, exist_ok=True)
    except (RuntimeError, OSError) as error:
        raise ConfigError(
            f"this user has no cache folder: {error}",
            code="no-cache-folder",
            hint="Set XDG_CACHE_HOME to a folder that this user may write.",
        ) from error
    return folder


@contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Hold the folder's lock; the kernel frees it when the holder dies, so it never goes stale."""
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
