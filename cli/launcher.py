"""``lint`` and ``test``: listed with the others, run by the launcher, which brings their tools first."""

from __future__ import annotations

import click

from spark_jobs.core.errors import ConfigError


def _of_launcher(name: str, line: str) -> click.Command:
    def refuse(arguments: tuple[str, ...]) -> None:  # noqa: ARG001  (whatever they are, the launcher takes them)
        raise ConfigError(
            f"`{name}` is run by the launcher",
            code="launcher-only",
            hint=f"Type ./sluice {name} in the project.",
        )

    return click.Command(
        name,
        callback=refuse,
        help=line,
        params=[click.Argument(["arguments"], nargs=-1, type=click.UNPROCESSED)],
        context_settings={"ignore_unknown_options": True},
    )


lint = _of_launcher("lint", "Format, lint, types, import rules, unit and property tests.")
test = _of_launcher("test", "The whole test suite.")
