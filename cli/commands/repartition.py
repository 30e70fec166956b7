"""``repartition PIPELINE``: the table partitioned as ``partition_by`` says by now."""

from __future__ import annotations

from cli.output import Report
from cli.work import Work, pipeline_command, reason_option


@pipeline_command("repartition", needs_kafka=False)
@reason_option("Why, for the history.")
def command(report: Report, work: Work, reason: str) -> None:
    """Partition PIPELINE's table by what sluice.yaml declares now: files written from then on.

    Older files stay as they are and are read as before. Safe beside drains; refused while a batch is held.
    """
    from spark_jobs.reshape.repartition import repartition

    done = repartition(*work, reason=reason)
    report.add(pipeline=work.pipeline.name)
    report.add(done)
    before, after = (", ".join(terms) or "nothing" for terms in (done.before, done.after))
    report.say(f"{work.pipeline.name}: new files are partitioned by {after}, older ones by {before}")
