"""``lint`` and ``test``: listed with the others, run by the launcher, which brings their tools first."""

from __future__ import annotations

import click

from spark_jobs.protocol.errors import ConfigError


def _refuse(**_: object) -> None:
    name = click.get_current_context().info_name
    raise ConfigError(
        f"`{name}` is run by the launcher",
        code="launcher-only",
        hint=f"Type ./sluice {name} in the project, nothing before {name}; lint takes no options.",
    )


lint = click.Command(
    "lint", callback=_refuse, help="Format, lint, types, import rules, unit and property tests."
)
test = click.Command(
    "test",
    callback=_refuse,
    help="The whole test suite, in two processes; or what you name, with any option of pytest's:"
    " ./sluice test tests/cli -k status.",
    params=[click.Argument(["arguments"], nargs=-1, type=click.UNPROCESSED, metavar="[PYTEST-ARGUMENTS]...")],
    options_metavar="",
    context_settings={"ignore_unknown_options": True},
)
