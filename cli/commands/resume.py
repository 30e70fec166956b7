"""``resume PIPELINE``: end a pause by removing its entry in the table."""

from __future__ import annotations

from cli.output import Report
from cli.work import Work, pipeline_command, reason_option
from spark_jobs.protocol.batch import paused_line


@pipeline_command("resume")
@reason_option("Reason, shown by `history`.")
def command(report: Report, work: Work, reason: str) -> None:
    """Let PIPELINE drain again. Does nothing if it is not paused."""
    from spark_jobs.acts.act import resume

    ended = resume(*work, reason=reason)
    report.add(pipeline=work.pipeline.name, ended=ended)
    text = f"drains again; it was {paused_line(ended)}" if ended else "it was not paused"
    report.say(f"{work.pipeline.name}: {text}")
