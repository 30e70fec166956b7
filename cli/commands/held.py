"""``held list|publish|discard PIPELINE``: batches that failed a quality gate, and what becomes of them."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from typing import Any

import click

from cli import output
from cli.work import connections_for, load_pipeline
from spark_jobs.recovery.recovered import AdoptedBatch, HeldBatch

_reason = click.option("--reason", required=True, help="Why; kept with the table and in the log.")
_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object as the last line.")
_attempt = click.argument("attempt", required=False)


@click.group("held")
def command() -> None:
    """Batches that failed a quality gate: they wait, with their files, and all later ones wait for them.

    Each is published as it is, or discarded with a reason. Nothing is done about them by itself.
    """


@command.command("list")
@click.argument("pipeline")
@_json
def list_held(pipeline: str, as_json: bool) -> int:
    """What is held of PIPELINE and which expectations were not met. Exit code 1 when something is."""
    config, chosen = load_pipeline(pipeline)
    with connections_for(config, chosen, "held") as connections:
        from spark_jobs.acts.held import held_batches  # noqa: PLC0415  (pyiceberg: not for `--help`)

        held = held_batches(chosen, connections)
    if as_json:
        output.json_line({"pipeline": chosen.name, "held": [_fields(each) for each in held]})
    elif not held:
        output.say(f"{chosen.name}: no batch is held")
    else:
        _print(chosen.name, held)
    return 1 if held else 0


@command.command("publish")
@click.argument("pipeline")
@_attempt
@_reason
@_json
def publish_held(pipeline: str, attempt: str | None, reason: str, as_json: bool) -> None:
    """Commit what is held of PIPELINE as it is.

    ATTEMPT is needed only when several are held. Interrupted, it is finished by the next drain.
    """
    config, chosen = load_pipeline(pipeline)
    with connections_for(config, chosen, "held") as connections:
        from spark_jobs.acts.held import publish  # noqa: PLC0415  (pyiceberg: not for `--help`)

        landed = publish(chosen, connections, reason=reason, attempt=attempt)
    _print_decided(chosen.name, "published", landed, f", snapshot {landed.snapshot_id}", as_json=as_json)


@command.command("discard")
@click.argument("pipeline")
@_attempt
@_reason
@_json
def discard_held(pipeline: str, attempt: str | None, reason: str, as_json: bool) -> None:
    """Pass over what is held of PIPELINE: its records go to no table, the table remembers which and why.

    They can be drained later, while Kafka has them, with `./sluice replay`.
    """
    config, chosen = load_pipeline(pipeline)
    with connections_for(config, chosen, "held") as connections:
        from spark_jobs.acts.held import discard  # noqa: PLC0415  (pyiceberg: not for `--help`)

        gone = discard(chosen, connections, reason=reason, attempt=attempt)
    _print_decided(chosen.name, "discarded", gone, "; drains go on after them", as_json=as_json)


def _fields(batch: AdoptedBatch | HeldBatch) -> dict[str, Any]:
    return {**dataclasses.asdict(batch), "ranges": str(batch.ranges)}


def _print_decided(
    pipeline: str, decided: str, batch: AdoptedBatch | HeldBatch, what_now: str, *, as_json: bool
) -> None:
    if as_json:
        output.json_line({"pipeline": pipeline, decided: _fields(batch)})
        return
    rows = output.count(batch.balance.rows, "row")
    output.say(f"{pipeline}: {decided} {rows} of {batch.ranges}{what_now}")


def _print(pipeline: str, held: tuple[HeldBatch, ...]) -> None:
    output.table(
        ("attempt", "offsets", "rows", "dead letters", "held since", "suites"),
        [
            (
                each.attempt,
                str(each.ranges),
                each.balance.rows,
                each.balance.dead_letters,
                _when(each),
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


def _when(held: HeldBatch) -> str | None:
    if held.held_at_us is None:
        return None
    return datetime.fromtimestamp(held.held_at_us / 1e6, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
