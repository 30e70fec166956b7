"""``checks``: results of the built-in checks, with the command that fixes each failure."""

from __future__ import annotations

import click

from cli.output import Report, fields, reported
from cli.work import pipelines_named
from spark_jobs.checks.registry import BY_NAME
from spark_jobs.config.file import load_config
from spark_jobs.monitoring.checkup import check_up
from spark_jobs.monitoring.survey import Surveyor
from spark_jobs.protocol.errors import fault

_HELP = f"""Run the built-in checks of PIPELINE or of --all. Reads only.

{", ".join(BY_NAME)}: docs/runbook.md describes each
check and what to do when it fails. Severities and limits are set under `checks:` in sluice.yaml. `./sluice
audit` compares records with Kafka; a running Sluice does so every hour.

Exit code 1 if a check of severity error fails.
"""


@click.command("checks", help=_HELP)
@click.argument("pipeline", required=False)
@click.option("--all", "is_all", is_flag=True, help="Check every pipeline.")
@reported
def command(report: Report, pipeline: str | None, is_all: bool) -> int:
    """Run the built-in checks; return 1 if a check of severity error fails."""
    if (pipeline is None) is not is_all:
        raise fault("no-such-pipeline.unnamed")
    config = load_config()
    chosen = pipelines_named(config, pipeline)
    found = check_up(Surveyor(config.model_copy(update={"pipelines": chosen})))
    results = [(health.pipeline.name, result) for health in found for result in health.results]
    report.add(
        pipelines=[
            {
                "pipeline": health.pipeline.name,
                "checks": [{**fields(each), "runbook": each.runbook} for each in health.results],
            }
            for health in found
        ]
    )
    report.table(
        ("pipeline", "check", "", "fact"),
        [
            (name, result.name, "ok" if result.passed else result.severity.value, result.fact)
            for name, result in results
        ],
    )
    failed = [(name, result) for name, result in results if not result.passed]
    for name, result in failed:
        report.say(f"{name} {result.name}: {result.mend}\n  see {result.runbook}")
    if not failed:
        report.say("every check passes")
    return 1 if any(result.is_failed_error for _, result in failed) else 0
