"""Small shared files in the state folder, written atomically."""

from __future__ import annotations

import errno
import os
import tempfile
from contextlib import suppress
from pathlib import Path

_MARKER = ".sluice-state"
# What folders hold that were made before there was a marker.
_EARLIER = frozenset(
    {
        *("catalog.db", "catalog.db-shm", "catalog.db-wal", "lake", "log", "kafka", "failures", "gateway"),
        *("spark", "dagster", "run", "checks", "serve", "logs", "demo", "demo.yaml"),
    }
)


def make_state_folder(home: Path) -> None:
    """Create the folder for this user only, and mark it unless it holds foreign files."""
    make_private(home)
    if os.access(home, os.W_OK) and not (home / _MARKER).exists() and not foreign_entries(home):
        with suppress(OSError):  # a full disk is for the work itself to name
            (home / _MARKER).touch()


def foreign_entries(home: Path) -> list[str]:
    """Return the foreign entries of the state folder; a marked folder has none."""
    entries = {entry.name for entry in home.iterdir()}
    return [] if _MARKER in entries else sorted(entries - _EARLIER)


def make_private(folder: Path) -> None:
    """Create the folder, or restrict it to this user: it holds records.

    Where it cannot be written nothing comes to lie in it: a run with a lake elsewhere needs none.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if folder.stat().st_uid == os.getuid() and folder.stat().st_mode & 0o077:
            folder.chmod(0o700)
    except OSError as error:
        if error.errno not in {errno.EROFS, errno.EACCES, errno.EPERM}:
            raise


def secret_of(path: Path) -> bytes:
    """Return the file's 32 random bytes, created on first use; only this user can read them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            made = Path(folder) / path.name
            write_whole(made, os.urandom(32))
            # Of two at once the first is kept: a link never replaces.
            with suppress(FileExistsError):
                path.hardlink_to(made)
    return path.read_bytes()


def write_whole(path: Path, content: str | bytes) -> None:
    """Replace the file atomically and create its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content.encode("utf-8") if isinstance(content, str) else content)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
