"""Batches that fail their gate, decided about while drains run or sleep: each record is accounted for."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from prove.lab.pipeline_lab import by_offset, orders, progress
from prove.lab.work_loop import looping
from spark_jobs.acts.held_batches import discard, held_batches, publish

if TYPE_CHECKING:
    from prove.lab.pipeline_lab import Lab
    from prove.lab.work_loop import WorkLoop
    from spark_jobs.recovery.decide import HeldBatch
    from tests.support.new_lab import NewLab

pytestmark = [pytest.mark.faults, pytest.mark.kafka, pytest.mark.spark]

CHEAP = {"expect_column_values_to_be_between": {"column": "price", "max_value": 10_000}}
GATE: list[dict[str, Any]] = [{"name": "strict", "when": "gate", "expectations": [CHEAP]}]
FIRST, EACH = 40, 10
DECISIONS = 6


def _records(number: int) -> list[bytes]:
    """Ten orders; the last one of every other round is too expensive."""
    *cheap, last = orders(FIRST + EACH * number, EACH)
    price = 90_000.5 if number % 2 else 1.5
    return [*cheap, json.dumps({**json.loads(last), "price": price}).encode()]


def _next_held(lab: Lab, drains: WorkLoop) -> HeldBatch:
    while drains.is_running:
        drains.wait_for(drains.done + 1)
        with lab.connections() as connections:
            if held := held_batches(lab.pipeline, connections):
                return held[0]
    raise AssertionError("the drains ended")


def _offsets(batches: list[HeldBatch]) -> set[tuple[int, int]]:
    ranges = (each for held in batches for each in held.batch.ranges)
    return {(r.partition, offset) for r in ranges for offset in range(r.start, r.end)}


def test_decisions_about_held_batches_while_drains_run(new_lab: NewLab) -> None:
    """A published batch is in the table, a discarded one is skipped, whatever drains did at that moment."""
    lab = new_lab(orders(0, FIRST), partitions=2, quality=GATE)
    lab.drain()
    ended: set[str | None] = set()
    published: list[HeldBatch] = []
    discarded: list[HeldBatch] = []

    def drain(number: int) -> None:
        new_lab.produce(lab, _records(number))
        ended.add(lab.start().answer().error)

    def decide(held: HeldBatch) -> None:
        is_wanted = len(published) <= len(discarded)
        with lab.connections() as connections:
            (publish if is_wanted else discard)(
                lab.pipeline, connections, reason="a test", attempt=held.batch.attempt
            )
        (published if is_wanted else discarded).append(held)

    with looping(drain) as drains:
        for _ in range(DECISIONS):
            decide(_next_held(lab, drains))
    while (result := lab.drain()).stopped == "held":
        decide(result.held[0])

    # A decision settles what is unfinished, and may take a live drain for dead: the next one goes on.
    assert ended <= {None, "taken-over"}
    rows, gone = by_offset(lab), _offsets(discarded)
    assert not rows.keys() & gone
    assert {key for key, row in rows.items() if row["price"] > 10_000} <= _offsets(published) <= rows.keys()
    assert sum(skip.end - skip.start for skip in progress(lab).skipped) == len(gone)
    found = lab.audit()
    assert found.is_clean, found
    assert (found.rows + found.skipped, found.skipped) == (FIRST + EACH * drains.done, len(gone))
    assert (found.dead_letters, found.lag) == (0, 0)
    assert lab.stray_files() == set()


def test_a_run_that_slept_through_the_decision_changes_nothing(new_lab: NewLab) -> None:
    """Stopped between writing and holding, it wakes after its range was discarded: its files are swept."""
    lab = new_lab(orders(0, FIRST), partitions=2, quality=GATE)
    lab.drain()
    new_lab.produce(lab, _records(1))
    with lab.stopped_at("drain.after-gate") as sleeper:
        assert lab.drain().stopped == "held"
        with lab.connections() as connections:
            discard(lab.pipeline, connections, reason="a test")
        sleeper.go_on()
        answer = sleeper.answer()
    assert answer.error is None
    lab.drain()
    found = lab.audit()
    assert found.is_clean, found
    assert (found.rows, found.skipped, found.lag) == (FIRST, EACH, 0)
    assert lab.stray_files() == set()
