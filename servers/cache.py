"""The user's cache folder: what is downloaded or derived once and shared by all clones."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def cache_folder(name: str) -> Path:
    """Return (and create) ``<user's cache>/sluice/<name>``."""
    base = os.environ.get("XDG_CACHE_HOME")
    root = Path(base) if base and Path(base).is_absolute() else Path.home() / ".cache"
    folder = root / "sluice" / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Hold the folder's lock; the kernel frees it when the holder dies, so it never goes stale."""
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
