"""Entry point: ``python -m cli`` behind the launcher, and a wheel's ``sluice``."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

from cli.app import EXIT_INTERRUPTED, main
from spark_jobs.spark.environment import reach_loopback


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    """Handle termination like Ctrl-C, so that servers and Spark work are stopped."""
    raise KeyboardInterrupt


def _stay_deaf(_number: int, _frame: FrameType | None) -> None:
    """Ignore a signal here only: unlike SIG_IGN, a handler is not inherited by child processes."""


def run() -> None:
    """Run the command line and end the process with its exit code."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A script's background job. Servers that inherit it end only when they are killed, and Dagster lets
        # its runs ignore a termination the same way.
        signal.signal(signal.SIGINT, _stay_deaf)
    signal.signal(signal.SIGTERM, _interrupt)
    signal.signal(signal.SIGHUP, _interrupt)
    reach_loopback(os.environ)
    code = main(sys.argv[1:])
    if code == EXIT_INTERRUPTED and "pyspark.sql.connect" in sys.modules:
        # On its way out PySpark would ask a server that is silent for ten minutes.
        sys.stdout.flush()
        os._exit(code)
    sys.exit(code)


if __name__ == "__main__":
    run()
