"""``python -m servers.fetch LOCK [SET ...]``: brings a lock's jars into the cache, showing how far it is."""

from __future__ import annotations

import sys
from pathlib import Path

from servers.cache import cache_folder
from servers.jars import fetch, missing, read_lock
from spark_jobs.protocol.errors import SluiceError

_BYTES_PER_MB = 1_000_000


def main(arguments: list[str]) -> int:
    """Fetch and return the exit code."""
    jars = read_lock(Path(arguments[0]), *arguments[1:])
    wanted = missing(jars)
    if not wanted:
        return 0
    size_mb = sum(jar.size_bytes for jar in wanted) / _BYTES_PER_MB
    _say(f"Fetching {len(wanted)} jars, {size_mb:.0f} MB, into {cache_folder('jars')}\n")
    try:
        fetch(jars, _show if sys.stderr.isatty() else None)
    except SluiceError as error:
        _say(f"\n{error}\n")
        return error.exit_code
    _say(
        "\rJars fetched and verified.             \n"
        if sys.stderr.isatty()
        else "Jars fetched and verified.\n"
    )
    return 0


def _show(done_bytes: int, total_bytes: int, _file_name: str) -> None:
    _say(f"\r  {done_bytes / _BYTES_PER_MB:5.0f} of {total_bytes / _BYTES_PER_MB:.0f} MB")


def _say(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
