"""``lint``: listed with the others, run by the launcher."""

from __future__ import annotations

import click

from cli.commands.launcher import refuse

command = click.Command(
    "lint", callback=refuse, help="Format, lint, types, import rules, unit and property tests."
)
