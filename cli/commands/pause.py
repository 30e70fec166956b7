"""``pause PIPELINE``: stop its drains by an entry in the table."""

from __future__ import annotations

from cli.output import Report
from cli.work import Work, pipeline_command, reason_option
from spark_jobs.protocol.batch import paused_line


@pipeline_command("pause")
@reason_option("Reason, shown by `status`.")
def command(report: Report, work: Work, reason: str) -> None:
    """Stop PIPELINE's drains until `./sluice resume`. A running drain ends after its current batch.

    Upkeep and replays are not affected. The pause is stored in the table. Safe to repeat; the last reason
    is kept.
    """
    from spark_jobs.acts.act import pause

    paused = pause(*work, reason=reason)
    report.add(pipeline=work.pipeline.name, paused=paused)
    report.say(f"{work.pipeline.name}: {paused_line(paused)}")
