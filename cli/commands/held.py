"""``held list|publish|discard PIPELINE``: batches that failed a quality gate."""

from __future__ import annotations

import click

from cli.output import Report, count, when
from cli.work import Work, pipeline_command, reason_option
from spark_jobs.recovery.decide import AdoptedBatch, HeldBatch

_reason = reason_option("Reason, stored in the table and the log.")
_attempt = click.argument("attempt", required=False)


@click.group("held")
def command() -> None:
    """List, publish or discard batches that failed a quality gate.

    A held batch and all later batches wait until an operator publishes or discards it.
    """


@pipeline_command("list", "held", of=command)
def list_held(report: Report, work: Work) -> int:
    """List the held batches of PIPELINE and their failed expectations. Exit code 1 if there are any."""
    from spark_jobs.acts.held_batches import held_batches

    pipeline, held = work.pipeline.name, held_batches(*work)
    report.add(pipeline=pipeline, held=[each.shown() for each in held])
    if not held:
        report.say(f"{pipeline}: no batch is held")
        return 0
    _show(report, pipeline, held)
    return 1


@pipeline_command("publish", "held", of=command)
@_attempt
@_reason
def publish_held(report: Report, work: Work, attempt: str | None, reason: str) -> None:
    """Commit a held batch of PIPELINE unchanged.

    ATTEMPT is needed only if several batches are held. If this is interrupted, the next drain finishes it.
    """
    from spark_jobs.acts.held_batches import publish

    batch = publish(*work, reason=reason, attempt=attempt)
    _show_decision(report, work, "published", batch, f", snapshot {batch.snapshot_id}")


@pipeline_command("discard", "held", of=command)
@_attempt
@_reason
def discard_held(report: Report, work: Work, attempt: str | None, reason: str) -> None:
    """Discard a held batch of PIPELINE. Its records are skipped; the table keeps offsets and reason.

    `./sluice replay` can drain them later, while Kafka still holds them.
    """
    from spark_jobs.acts.held_batches import discard

    batch = discard(*work, reason=reason, attempt=attempt)
    _show_decision(report, work, "discarded", batch, "; drains continue after them")


def _show_decision(
    report: Report, work: Work, decided: str, batch: AdoptedBatch | HeldBatch, what_now: str
) -> None:
    report.add(pipeline=work.pipeline.name, **{decided: batch.shown()})
    rows = count(batch.counts.balance.all_rows, "row")
    report.say(f"{work.pipeline.name}: {decided} {rows} of {batch.batch.ranges}{what_now}")


def _show(report: Report, pipeline: str, held: tuple[HeldBatch, ...]) -> None:
    report.table(
        ("attempt", "offsets", "rows", "dead letters", "held since", "suites"),
        [
            (
                each.batch.attempt,
                str(each.batch.ranges),
                each.counts.balance.all_rows,
                each.counts.balance.dead_letters,
                when(each.held_at_us),
                each.suites,
            )
            for each in held
        ],
        numbers=("rows", "dead letters"),
    )
    for each in held:
        report.say(each.story)
    report.say(f"./sluice held publish {pipeline} --reason '...'   commits it unchanged")
    report.say(f"./sluice held discard {pipeline} --reason '...'   skips its records")
