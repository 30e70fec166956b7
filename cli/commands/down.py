"""``down``: stop a running ``up`` or ``demo`` from another terminal."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress

import click

from cli import output
from cli.stand.run_record import UpRecord, read_up
from spark_jobs.config.file import load_written
from spark_jobs.protocol.errors import fault

STOP_SECONDS = 30.0
POLL_SECONDS = 0.1


@click.command("down")
def command() -> None:
    """Stop the running `up` or `demo`, and servers that a killed one left running."""
    from cli.stand.running import stop_left_over

    config = load_written()
    record = read_up(config.home)
    if record is not None:
        output.say(f"stopping `{record.command}` (process {record.pid})")
        _stop(config.home, record)
    left = stop_left_over(config)
    if left:
        output.say(f"stopped servers that were left running: {', '.join(left)}")
    output.say("stopped" if record or left else "nothing was running")


def _stop(home: str, record: UpRecord) -> None:
    with suppress(ProcessLookupError):
        os.kill(record.pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_SECONDS
    while read_up(home) == record:
        if time.monotonic() > deadline:
            raise fault("still-running", process=record.pid, seconds=STOP_SECONDS)
        time.sleep(POLL_SECONDS)
