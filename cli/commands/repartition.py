"""``repartition PIPELINE``: change a table's partitioning to ``partition_by``."""

from __future__ import annotations

from cli.output import Report
from cli.work import Work, pipeline_command, reason_option


@pipeline_command("repartition", needs_kafka=False)
@reason_option("Reason, shown by `history`.")
def command(report: Report, work: Work, reason: str) -> None:
    """Change the partitioning of PIPELINE's table to what sluice.yaml declares.

    It applies to new files. Older files keep theirs and stay readable. Safe during drains. Refused while a
    batch is held.
    """
    from spark_jobs.reshape.repartition import repartition

    done = repartition(*work, reason=reason)
    report.add(pipeline=work.pipeline.name)
    report.add(done)
    before, after = (", ".join(terms) or "nothing" for terms in (done.before, done.after))
    report.say(f"{work.pipeline.name}: new files are partitioned by {after}, older ones by {before}")
