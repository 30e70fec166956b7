"""``check [PIPELINE]``: test every connection that a pipeline needs, with timings."""

from __future__ import annotations

import click

from cli import output
from cli.work import pipelines_named
from spark_jobs.config.file import load_config


@click.command("check")
@click.argument("pipeline", required=False)
@click.option(
    "--deep", is_flag=True, help="Also test on a scratch table what the catalog keeps and compares."
)
def command(pipeline: str | None, *, deep: bool) -> int:
    """Test the connections of PIPELINE, or of all: broker, topic, catalog, registries, storage, Spark.

    Continues after a failure and removes its test files and tables. Without PIPELINE, a pipeline without
    problems is one line. If the table does not exist yet, settings for its records are proposed. Exit code 1
    if a check failed.
    """
    from cli.commands.check_steps import Checklist, check_pipeline, check_shared

    config = load_config()
    chosen = pipelines_named(config, pipeline)
    checklist = Checklist()
    if deep and not chosen:
        checklist.skip("catalog commits", "a pipeline: scratch tables lie beside its table")
    shared = check_shared(checklist, config, beside=chosen[0].table if deep and chosen else "")
    checklists = [checklist, *(check_pipeline(config, one, shared, is_brief=not pipeline) for one in chosen)]
    for problem in config.problems:
        output.say(f"left out: {problem}")
    done, failed = sum(each.done for each in checklists), sum(each.failed for each in checklists)
    skipped = sum(each.skipped for each in checklists)
    parts = [output.count(done, "check"), f"{failed} failed" if failed else "all passed"]
    output.say(", ".join([*parts, *([f"{skipped} skipped"] if skipped else [])]))
    return 1 if failed or config.problems else 0
