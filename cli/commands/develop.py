"""The project's own commands.

``lint`` and ``test`` are run by the launcher, which brings their tools first; ``prove`` and ``bench`` are the
folders of that name, which take this process over, and so Ctrl-C.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import NoReturn

import click

from spark_jobs.protocol.errors import fault

ROOT = Path(__file__).resolve().parents[2]


def _refuse(**_: object) -> None:
    """Say that the launcher runs this command; raises ``ConfigError``."""
    name = click.get_current_context().info_name
    raise fault("launcher-only", name=name)


def _hand_over(folder: str) -> click.Command:
    """Return the command that becomes ``python -m FOLDER`` with whatever is typed after it."""

    @click.command(folder, context_settings={"ignore_unknown_options": True, "help_option_names": []})
    @click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
    def command(arguments: tuple[str, ...]) -> NoReturn:
        os.chdir(ROOT)
        os.execv(sys.executable, [sys.executable, "-m", folder, *arguments])  # noqa: S606  (no shell wanted)

    return command


lint = click.Command(
    "lint", callback=_refuse, help="Format, lint, types, import rules, unit and property tests."
)
test = click.Command(
    "test",
    callback=_refuse,
    help="The whole test suite, in four processes; or what you name, with any option of pytest's:"
    " ./sluice test tests/cli -k status.",
    params=[click.Argument(["arguments"], nargs=-1, type=click.UNPROCESSED, metavar="[PYTEST-ARGUMENTS]...")],
    options_metavar="",
    context_settings={"ignore_unknown_options": True},
)
prove = _hand_over("prove")
bench = _hand_over("bench")
