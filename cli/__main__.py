"""``python -m cli``: what the launcher runs once the environment stands, and a wheel's ``sluice``."""

from __future__ import annotations

import signal
import sys
from types import FrameType

from cli.app import main


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    """Being terminated ends a command as Ctrl-C does: servers and Spark work are stopped on the way out."""
    raise KeyboardInterrupt


def _stay_deaf(_number: int, _frame: FrameType | None) -> None:
    """Do what ignoring would do, here only: a handler is not handed on to the processes that are started."""


def run() -> None:
    """Run the command line and end the process with its exit code."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A script's background job. Servers that inherit it end only when they are killed, and Dagster lets
        # its runs ignore a termination the same way.
        signal.signal(signal.SIGINT, _stay_deaf)
    signal.signal(signal.SIGTERM, _interrupt)
    signal.signal(signal.SIGHUP, _interrupt)
    sys.exit(main(sys.argv[1:]))


if __name__ == "__main__":
    run()
