"""``resume PIPELINE``: drains go on, by a word in the table."""

from __future__ import annotations

from cli.output import Report
from cli.work import Work, pipeline_command, reason_option
from spark_jobs.protocol.batch import paused_line


@pipeline_command("resume")
@reason_option("Why, for the history.")
def command(report: Report, work: Work, reason: str) -> None:
    """Let PIPELINE drain again. Safe to repeat: one that is not paused is left alone."""
    from spark_jobs.acts.act import resume

    ended = resume(*work, reason=reason)
    report.add(pipeline=work.pipeline.name, ended=ended)
    told = f"drains again; it was {paused_line(ended)}" if ended else "it was not paused"
    report.say(f"{work.pipeline.name}: {told}")
