"""``held list|publish|discard PIPELINE``: batches that failed a quality gate, and what becomes of them."""

from __future__ import annotations

import click

from cli import output
from cli.work import opened
from spark_jobs.recovery.recovered import AdoptedBatch, HeldBatch

_reason = click.option("--reason", required=True, help="Why; kept with the table and in the log.")
_attempt = click.argument("attempt", required=False)


@click.group("held")
def command() -> None:
    """Batches that failed a quality gate: they wait, with their files, and all later ones wait for them.

    Each is published as it is, or discarded with a reason. Nothing is done about them by itself.
    """


@command.command("list")
@click.argument("pipeline")
@output.json_option
def list_held(pipeline: str, as_json: bool) -> int:
    """What is held of PIPELINE and which expectations were not met. Exit code 1 when something is."""
    with opened(pipeline, "held") as (chosen, connections):
        from spark_jobs.acts.held import held_batches

        held = held_batches(chosen, connections)
    if as_json:
        output.json_line({"pipeline": chosen.name, "held": [each.shown() for each in held]})
    elif not held:
        output.say(f"{chosen.name}: no batch is held")
    else:
        _print(chosen.name, held)
    return 1 if held else 0


@command.command("publish")
@click.argument("pipeline")
@_attempt
@_reason
@output.json_option
def publish_held(pipeline: str, attempt: str | None, reason: str, as_json: bool) -> None:
    """Commit what is held of PIPELINE as it is.

    ATTEMPT is needed only when several are held. Interrupted, it is finished by the next drain.
    """
    with opened(pipeline, "held") as (chosen, connections):
        from spark_jobs.acts.held import publish

        landed = publish(chosen, connections, reason=reason, attempt=attempt)
    _print_decided(chosen.name, "published", landed, f", snapshot {landed.snapshot_id}", as_json=as_json)


@command.command("discard")
@click.argument("pipeline")
@_attempt
@_reason
@output.json_option
def discard_held(pipeline: str, attempt: str | None, reason: str, as_json: bool) -> None:
    """Pass over what is held of PIPELINE: its records go to no table, the table remembers which and why.

    They can be drained later, while Kafka has them, with `./sluice replay`.
    """
    with opened(pipeline, "held") as (chosen, connections):
        from spark_jobs.acts.held import discard

        gone = discard(chosen, connections, reason=reason, attempt=attempt)
    _print_decided(chosen.name, "discarded", gone, "; drains go on after them", as_json=as_json)


def _print_decided(
    pipeline: str, decided: str, batch: AdoptedBatch | HeldBatch, what_now: str, *, as_json: bool
) -> None:
    if as_json:
        output.json_line({"pipeline": pipeline, decided: batch.shown()})
        return
    rows = output.count(batch.counts.balance.all_rows, "row")
    output.say(f"{pipeline}: {decided} {rows} of {batch.batch.ranges}{what_now}")


def _print(pipeline: str, held: tuple[HeldBatch, ...]) -> None:
    output.table(
        ("attempt", "offsets", "rows", "dead letters", "held since", "suites"),
        [
            (
                each.batch.attempt,
                str(each.batch.ranges),
                each.counts.balance.all_rows,
                each.counts.balance.dead_letters,
                output.when(each.held_at_us),
                each.suites,
            )
            for each in held
        ],
        numbers=("rows", "dead letters"),
    )
    for each in held:
        output.say(each.story)
    output.say(f"./sluice held publish {pipeline} --reason '...'   commits it as it is")
    output.say(f"./sluice held discard {pipeline} --reason '...'   passes over it")
