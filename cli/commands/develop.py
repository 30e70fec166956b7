"""Commands for developers of Sluice.

The launcher runs ``lint`` and ``test``, after installing their tools. ``prove`` and ``bench`` replace this
process by ``python -m FOLDER``, so that Ctrl-C reaches them.
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
    """Raise ``ConfigError``: only the launcher runs this command."""
    name = click.get_current_context().info_name
    raise fault("launcher-only", name=name)


def _hand_over(folder: str) -> click.Command:
    """Return a command that replaces the process by ``python -m FOLDER`` with the same arguments."""

    @click.command(folder, context_settings={"ignore_unknown_options": True, "help_option_names": []})
    @click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
    def command(arguments: tuple[str, ...]) -> NoReturn:
        os.chdir(ROOT)
        os.execv(sys.executable, [sys.executable, "-m", folder, *arguments])  # noqa: S606  (no shell wanted)

    return command


lint = click.Command(
    "lint",
    callback=_refuse,
    help="Run formatter, linter, type checks, import rules, unit and property tests.",
)
test = click.Command(
    "test",
    callback=_refuse,
    help="Run the test suite in four processes, or the named tests with any pytest option:"
    " ./sluice test tests/cli -k status.",
    params=[click.Argument(["arguments"], nargs=-1, type=click.UNPROCESSED, metavar="[PYTEST-ARGUMENTS]...")],
    options_metavar="",
    context_settings={"ignore_unknown_options": True},
)
native = click.Command(
    "native",
    callback=_refuse,
    help="Build the WebAssembly module that decodes JSON (native/json.c) with the locked compiler: 411 MB.",
    params=[click.Option(["--build"], is_flag=True, required=True, help="Write it where the code runs it.")],
)
prove = _hand_over("prove")
bench = _hand_over("bench")
