"""``bench``: hands over to the project's ``bench`` folder, which takes this process over, and so Ctrl-C."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import NoReturn

import click

ROOT = Path(__file__).resolve().parent.parent


@click.command("bench", context_settings={"ignore_unknown_options": True, "help_option_names": []})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def command(arguments: tuple[str, ...]) -> NoReturn:
    """Measure throughput, latency and memory, as ratios within one run."""
    os.chdir(ROOT)
    os.execv(sys.executable, [sys.executable, "-m", "bench", *arguments])  # noqa: S606  (no shell wanted)
