"""The launcher's own commands, ``lint`` and ``test``: it runs them, since it brings their tools first."""

from __future__ import annotations

import click

from spark_jobs.protocol.errors import ConfigError


def refuse(**_: object) -> None:
    """Say that the launcher runs this command; raises ``ConfigError``."""
    name = click.get_current_context().info_name
    raise ConfigError(
        f"`{name}` is run by the launcher",
        code="launcher-only",
        hint=f"Type ./sluice {name} in the project, nothing before {name}; lint takes no options.",
    )
