"""``held list|publish|discard PIPELINE``: batches that failed a quality gate, and what becomes of them."""

from __future__ import annotations

import click

from cli.output import Report, count, when
from cli.work import Work, pipeline_command, reason_option
from spark_jobs.recovery.decide import AdoptedBatch, HeldBatch

_reason = reason_option("Why; kept with the table and in the log.")
_attempt = click.argument("attempt", required=False)


@click.group("held")
def command() -> None:
    """Batches that failed a quality gate: they wait, with their files, and all later ones wait for them.

    Each is published as it is, or discarded with a reason. Nothing is done about them by itself.
    """


@pipeline_command("list", "held", of=command)
def list_held(report: Report, work: Work) -> int:
    """What is held of PIPELINE and which expectations were not met. Exit code 1 when something is."""
    from spark_jobs.acts.held_batches import held_batches

    pipeline, held = work.pipeline.name, held_batches(*work)
    report.add(pipeline=pipeline, held=[each.shown() for each in held])
    if not held:
        report.say(f"{pipeline}: no batch is held")
        return 0
    _tell(report, pipeline, held)
    return 1


@pipeline_command("publish", "held", of=command)
@_attempt
@_reason
def publish_held(report: Report, work: Work, attempt: str | None, reason: str) -> None:
    """Commit what is held of PIPELINE as it is.

    ATTEMPT is needed only when several are held. Interrupted, it is finished by the next drain.
    """
    from spark_jobs.acts.held_batches import publish

    landed = publish(*work, reason=reason, attempt=attempt)
    _tell_decided(report, work, "published", landed, f", snapshot {landed.snapshot_id}")


@pipeline_command("discard", "held", of=command)
@_attempt
@_reason
def discard_held(report: Report, work: Work, attempt: str | None, reason: str) -> None:
    """Pass over what is held of PIPELINE: its records go to no table, the table remembers which and why.

    They can be drained later, while Kafka has them, with `./sluice replay`.
    """
    from spark_jobs.acts.held_batches import discard

    gone = discard(*work, reason=reason, attempt=attempt)
    _tell_decided(report, work, "discarded", gone, "; drains go on after them")


def _tell_decided(
    report: Report, work: Work, decided: str, batch: AdoptedBatch | HeldBatch, what_now: str
) -> None:
    report.add(pipeline=work.pipeline.name, **{decided: batch.shown()})
    rows = count(batch.counts.balance.all_rows, "row")
    report.say(f"{work.pipeline.name}: {decided} {rows} of {batch.batch.ranges}{what_now}")


def _tell(report: Report, pipeline: str, held: tuple[HeldBatch, ...]) -> None:
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
    report.say(f"./sluice held publish {pipeline} --reason '...'   commits it as it is")
    report.say(f"./sluice held discard {pipeline} --reason '...'   passes over it")
