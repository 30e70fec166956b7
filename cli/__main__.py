"""``python -m cli``: what the ``sluice`` launcher runs once the environment stands."""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING

from cli.app import main

if TYPE_CHECKING:
    from types import FrameType


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    """Being terminated ends a command as Ctrl-C does: servers and Spark work are stopped on the way out."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _interrupt)
    signal.signal(signal.SIGHUP, _interrupt)
    sys.exit(main(sys.argv[1:]))
