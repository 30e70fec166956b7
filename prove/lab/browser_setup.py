"""The browser for tests: Debian's Chromium, installed by apt-get if permitted."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

from servers.cache import cache_folder, exclusive

BROWSER = "chromium"
# Every Debian has its own current Chromium and no older one, so there is no version to pin.
INSTALL = (
    ("apt-get", "update", "--quiet=2"),
    ("apt-get", "install", "--yes", "--quiet=2", "--no-install-recommends", BROWSER),
)
MISSING = (
    f"There is no {BROWSER} on the PATH, and it could not be installed here ({{why}}).\n"
    "Tests of what a browser shows fail; all others run. Debian, Ubuntu, as root:\n"
    f"  apt-get update && apt-get install --no-install-recommends {BROWSER}"
)


class NoBrowserError(Exception):
    """No browser is available; the message contains the command to install one."""


def browser() -> str:
    """Return the browser's path; installs it if it is missing, which takes about a minute.

    Raises ``NoBrowserError``.
    """
    if (found := shutil.which(BROWSER)) is None:
        if (why := _obstacle()) is not None:
            raise NoBrowserError(MISSING.format(why=why))
        quiet = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
        with exclusive(cache_folder("browser")):
            for command in INSTALL:
                outcome = subprocess.run(command, env=quiet, check=False, stdout=sys.stderr)
                if outcome.returncode:
                    why = f"{command[0]} {command[1]} ended with exit code {outcome.returncode}"
                    raise NoBrowserError(MISSING.format(why=why))
        found = shutil.which(BROWSER) or BROWSER
    return found


def _obstacle() -> str | None:
    if not shutil.which("apt-get"):
        return "no apt-get"
    return None if os.geteuid() == 0 else "only root may install packages"
