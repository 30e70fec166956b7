"""``prove`` and ``bench``: the project's folder of that name takes this process over, and so Ctrl-C."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import NoReturn

import click

ROOT = Path(__file__).resolve().parents[2]


def hand_over(folder: str) -> click.Command:
    """Return the command that becomes ``python -m FOLDER`` with whatever is typed after it."""

    @click.command(folder, context_settings={"ignore_unknown_options": True, "help_option_names": []})
    @click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
    def command(arguments: tuple[str, ...]) -> NoReturn:
        os.chdir(ROOT)
        os.execv(sys.executable, [sys.executable, "-m", folder, *arguments])  # noqa: S606  (no shell wanted)

    return command
