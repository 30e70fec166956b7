"""The user's cache folder for downloads, shared by all clones."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


def user_cache() -> Path:
    """Return Sluice's part of the user's cache folder, shared by all clones."""
    # The clone's own is for a container's user without HOME and without an entry in the list of users.
    base, home = os.environ.get("XDG_CACHE_HOME", ""), os.path.expanduser("~/.cache")  # noqa: PTH111
    folders = (Path(base), Path(home), Path(__file__).resolve().parents[1] / ".cache")
    return next(each for each in folders if each.is_absolute()) / "sluice"


def cache_folder(name: str) -> Path:
    """Return a subfolder of that name, created if needed."""
    folder = user_cache() / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextmanager
def exclusive(folder: Path, waits: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Hold the folder's lock; the kernel releases it when the holder dies.

    ``waits`` is called first if another process holds it.
    """
    with (folder / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waits()
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
