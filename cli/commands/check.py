"""``check [PIPELINE]``: every connection a pipeline needs, tried for real, with milliseconds."""

from __future__ import annotations

import click

from cli import output
from cli.work import pipelines_named
from spark_jobs.config.file import load_config


@click.command("check")
@click.argument("pipeline", required=False)
def command(pipeline: str | None) -> int:
    """Try what PIPELINE, or every pipeline, needs: broker, topic, catalogs, registries, storage, Spark.

    Goes on after a failure and leaves nothing behind. Without PIPELINE one that is well is one line. Before
    there is a table, lines are proposed for what its records are. Exit code 1 when anything failed.
    """
    from cli.commands.check_steps import Checklist, check_pipeline, check_shared

    config = load_config()
    chosen = pipelines_named(config, pipeline)
    checklist = Checklist()
    shared = check_shared(checklist, config)
    checklists = [checklist, *(check_pipeline(config, one, shared, is_brief=not pipeline) for one in chosen)]
    for problem in config.problems:
        output.say(f"left out: {problem}")
    done, failed = sum(each.done for each in checklists), sum(each.failed for each in checklists)
    skipped = sum(each.skipped for each in checklists)
    told = [output.count(done, "check"), f"{failed} failed" if failed else "all well"]
    output.say(", ".join([*told, *([f"{skipped} skipped"] if skipped else [])]))
    return 1 if failed or config.problems else 0
