"""A file system of a few megabytes, to be filled completely."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from prove.lab.left_out import LeftOut

_BLOCK = b"\0" * 65536


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """Mount it at ``folder``, which requires root; unmount it at the end."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", str(folder)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        raise LeftOut("only root may mount a small file system")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(filler: Path) -> None:
    """Fill the disk with this file."""
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(_BLOCK)
    with filler.open("ab", buffering=0) as file, suppress(OSError):
        while True:
            file.write(b"\0")
