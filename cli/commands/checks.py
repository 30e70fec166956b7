"""``checks``: the built-in checks of one pipeline or all, each with what mends it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import click

from cli import output
from cli.work import pipelines_named
from spark_jobs.checks.registry import BY_NAME
from spark_jobs.config.file import load_config
from spark_jobs.monitoring.checkup import Health, check_up
from spark_jobs.monitoring.survey import Surveyor
from spark_jobs.protocol.errors import ConfigError

_HELP = f"""Judge PIPELINE (or --all) by the built-in checks; reads only, so it is safe to repeat.

{", ".join(BY_NAME)}: docs/OPERATIONS.md says what each
means and what to do. Severity and limits are under `checks:` in sluice.yaml. Records are compared with
Kafka by the hourly audit of the running Sluice, or at once by `./sluice audit`.

Exit code 1 when a check of severity error fails.
"""


@click.command("checks", help=_HELP)
@click.argument("pipeline", required=False)
@click.option("--all", "is_all", is_flag=True, help="Every pipeline.")
@output.json_option
def command(pipeline: str | None, is_all: bool, as_json: bool) -> int:
    """Judge by the built-in checks; the exit code is 1 when a check of severity error fails."""
    if (pipeline is None) is not is_all:
        raise ConfigError(
            "name a pipeline, or all of them with --all",
            code="no-such-pipeline",
            hint="./sluice checks PIPELINE, or ./sluice checks --all.",
        )
    config = load_config()
    chosen = pipelines_named(config, pipeline)
    found = check_up(Surveyor(config.model_copy(update={"pipelines": chosen})))
    if as_json:
        output.json_line(
            {"pipelines": [{"pipeline": each.pipeline.name, "checks": _fields(each)} for each in found]}
        )
    else:
        _print(found)
    return 1 if any(result.is_failed_error for health in found for result in health.results) else 0


def _print(found: Sequence[Health]) -> None:
    output.table(
        ("pipeline", "check", "", "fact"),
        [
            (each.pipeline.name, result.name, "ok" if result.passed else result.severity.value, result.fact)
            for each in found
            for result in each.results
        ],
    )
    failed = [(health, result) for health in found for result in health.results if not result.passed]
    for health, result in failed:
        output.say(f"{health.pipeline.name} {result.name}: {result.mend}")
        output.say(f"  see {result.runbook}")
    if not failed:
        output.say("every check passes")


def _fields(health: Health) -> list[dict[str, object]]:
    return [{**dataclasses.asdict(result), "runbook": result.runbook} for result in health.results]
