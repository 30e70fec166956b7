"""``prove``: hands over to the project's ``prove`` folder, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parent.parent


@click.command("prove", context_settings={"ignore_unknown_options": True, "help_option_names": []})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def command(arguments: tuple[str, ...]) -> int:
    """Strike real pipelines at every point, restart them, and count what was lost or doubled."""
    return subprocess.run([sys.executable, "-m", "prove", *arguments], cwd=ROOT, check=False).returncode
