"""The browser that one test needs: Debian's own Chromium, brought by apt-get where that is allowed.

It is asked for by ``./sluice test`` when the browser's tests are among those to be run, and by prove's case
of one.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence

from bootstrap.install import say

BROWSER = "chromium"
BROWSER_TESTS = "tests/browser"
# Every Debian has its own current Chromium and no older one, so there is no version to pin.
INSTALL = (
    ("apt-get", "update", "--quiet=2"),
    ("apt-get", "install", "--yes", "--quiet=2", "--no-install-recommends", BROWSER),
)
MISSING = (
    f"There is no {BROWSER} on the PATH, and it could not be installed here ({{why}}).\n"
    f"The test in {BROWSER_TESTS} will fail; all others run. Debian, Ubuntu, as root:\n"
    f"  apt-get update && apt-get install --no-install-recommends {BROWSER}"
)


def is_asked_for(pytest_arguments: Sequence[str]) -> bool:
    """True if the browser's test may be among these: it is unless other tests are named."""
    named = [argument for argument in pytest_arguments if argument.startswith("tests")]
    return not named or any(
        argument.startswith(BROWSER_TESTS) or argument.rstrip("/") == "tests" for argument in named
    )


def ensure_browser() -> bool:
    """Install the browser when it is missing, which takes about a minute; say so when that cannot be done."""
    if shutil.which(BROWSER):
        return True
    why = _obstacle()
    if why is None:
        say(f"Installing {BROWSER} for the browser's test, once (130 MB).")
        quiet = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
        for command in INSTALL:
            outcome = subprocess.run(command, env=quiet, check=False, stdout=sys.stderr)
            if outcome.returncode:
                why = f"{command[0]} {command[1]} ended with exit code {outcome.returncode}"
                break
        else:
            return True
    say(MISSING.format(why=why))
    return False


def _obstacle() -> str | None:
    if not shutil.which("apt-get"):
        return "no apt-get"
    return None if os.geteuid() == 0 else "only root may install packages"
