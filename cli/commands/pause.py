"""``pause PIPELINE``: drains stop, by a word in the table."""

from __future__ import annotations

from cli.output import Report
from cli.work import Work, pipeline_command, reason_option
from spark_jobs.protocol.batch import paused_line


@pipeline_command("pause")
@reason_option("Why, for whoever finds the pipeline standing.")
def command(report: Report, work: Work, reason: str) -> None:
    """Stop PIPELINE's drains until `./sluice resume`: one under way ends with the batch it is at.

    Upkeep and replays go on. It is kept in the table, so it outlives Dagster's database. Safe to repeat: the
    last reason counts.
    """
    from spark_jobs.acts.act import pause

    paused = pause(*work, reason=reason)
    report.add(pipeline=work.pipeline.name, paused=paused)
    report.say(f"{work.pipeline.name}: {paused_line(paused)}")
