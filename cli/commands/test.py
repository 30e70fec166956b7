"""``test``: listed with the others, run by the launcher."""

from __future__ import annotations

import click

from cli.commands.launcher import refuse

command = click.Command(
    "test",
    callback=refuse,
    help="The whole test suite, in two processes; or what you name, with any option of pytest's:"
    " ./sluice test tests/cli -k status.",
    params=[click.Argument(["arguments"], nargs=-1, type=click.UNPROCESSED, metavar="[PYTEST-ARGUMENTS]...")],
    options_metavar="",
    context_settings={"ignore_unknown_options": True},
)
