"""``check [PIPELINE]``: every connection a pipeline needs, tried for real, a line and milliseconds each."""

from __future__ import annotations

import click

from cli import output
from cli.work import pipelines_named
from spark_jobs.config.file import load_config


@click.command("check")
@click.argument("pipeline", required=False)
def command(pipeline: str | None) -> int:
    """Try what PIPELINE, or every pipeline, needs: broker, topic, catalogs, registries, storage, Spark.

    Goes on after a failure and leaves nothing behind. Exit code 1 when anything failed.
    """
    from cli.commands.check_steps import Checklist, check_pipeline, check_shared

    config = load_config()
    chosen = pipelines_named(config, pipeline)
    checklist = Checklist()
    shared = check_shared(checklist, config)
    for one in chosen:
        check_pipeline(checklist, config, one, shared)
    for problem in config.problems:
        output.say(f"left out: {problem}")
    failed, skipped = checklist.failed, checklist.skipped
    outcome = f"{failed} failed" if failed else "all well"
    output.say(
        ", ".join(
            [output.count(checklist.done, "check"), outcome, *([f"{skipped} skipped"] if skipped else [])]
        )
    )
    return 1 if failed or config.problems else 0
