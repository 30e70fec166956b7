"""``bench``: hands over to the project's ``bench`` folder, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parent.parent


@click.command("bench", context_settings={"ignore_unknown_options": True, "help_option_names": []})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def command(arguments: tuple[str, ...]) -> int:
    """Measure throughput, latency and memory, as ratios within one run."""
    return subprocess.run([sys.executable, "-m", "bench", *arguments], cwd=ROOT, check=False).returncode
