"""Gates and what operators decide, killed at any point: nothing unchecked is published, nothing is lost."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from prove.lab.new_lab import progress
from prove.lab.pipeline_lab import orders
from spark_jobs.acts.held import discard, held_batches, publish

if TYPE_CHECKING:
    from typing import Any

    from prove.lab.new_lab import NewLab
    from prove.lab.pipeline_lab import Lab

pytestmark = [pytest.mark.faults, pytest.mark.kafka, pytest.mark.spark]

CHEAP = {"expect_column_values_to_be_between": {"column": "price", "max_value": 100}}
GATE: list[dict[str, Any]] = [{"name": "strict", "when": "gate", "expectations": [CHEAP]}]
BEFORE_ITS_FILES_ARE_KNOWN = ("drain.after-tasks", "drain.after-gate", "drain.after-held")


def _expensive(first: int, count: int) -> list[bytes]:
    return [json.dumps({**json.loads(each), "price": 900.5}).encode() for each in orders(first, count)]


def _lab(new_lab: NewLab) -> Lab:
    """Forty orders committed, two that fail the gate in the topic."""
    lab = new_lab(orders(0, 40), partitions=2, quality=GATE)
    lab.drain()
    new_lab.produce(lab, _expensive(40, 2))
    return lab


def _expect(lab: Lab, *, rows: int, skipped: int = 0) -> None:
    found = lab.audit()
    assert found.is_clean, found
    assert (found.rows, found.skipped, found.lag) == (rows, skipped, 0)
    assert lab.stray_files() == set()


def test_killed_before_it_is_held_it_is_judged_again(new_lab: NewLab) -> None:
    """Between writing and holding nobody knows the files: the next run reads, judges and holds anew."""
    lab = _lab(new_lab)
    for point in BEFORE_ITS_FILES_ARE_KNOWN:
        lab.kill_at(point)
        result = lab.drain()
        assert (result.stopped, len(result.held), result.lag_records) == ("held", 1, 2), point
        with lab.connections() as connections:
            discard(lab.pipeline, connections, reason="a test")
        new_lab.produce(lab, _expensive(50, 2))
    assert lab.drain().stopped == "held"
    with lab.connections() as connections:
        discard(lab.pipeline, connections, reason="a test")
    _expect(lab, rows=40, skipped=8)


def test_killed_once_it_is_held_it_stays_held(new_lab: NewLab) -> None:
    """From the object that names its files on, no run reads it again, commits it or deletes it."""
    lab = _lab(new_lab)
    lab.kill_at("drain.after-parquet-written")
    files = lab.stray_files()
    for _ in range(2):
        result = lab.drain()
        assert (result.stopped, len(result.held)) == ("held", 1)
        assert lab.stray_files() == files
    with lab.connections() as connections:
        publish(lab.pipeline, connections, reason="a sale")
    _expect(lab, rows=42)


@pytest.mark.parametrize("point", ["act.after-offset-commit", "act.before-swap", "act.after-swap"])
def test_a_discard_that_was_killed_is_done_or_not(new_lab: NewLab, point: str) -> None:
    """Before its swap the batch is still held and can be discarded; after it the offsets are passed once."""
    lab = _lab(new_lab)
    assert lab.drain().stopped == "held"
    lab.kill_at(point, work="discard")
    is_done = point == "act.after-swap"
    assert (progress(lab).skipped != ()) == is_done
    result = lab.drain()
    assert result.stopped == ("caught-up" if is_done else "held")
    with lab.connections() as connections:
        assert len(held_batches(lab.pipeline, connections)) == (0 if is_done else 1)
        if not is_done:
            discard(lab.pipeline, connections, reason="again")
    _expect(lab, rows=40, skipped=2)


def test_rows_for_the_dead_letters_survive_a_kill(new_lab: NewLab) -> None:
    """Killed after the second writing, or after its commit: each failing row is a dead letter once."""
    rejecting = [{**GATE[0], "on_failure": "dead_letters"}]
    lab = new_lab(orders(0, 10), quality=rejecting)
    lab.drain()
    for number, point in enumerate(("drain.after-gate", "drain.after-parquet-written", "drain.after-commit")):
        new_lab.produce(lab, [*orders(10, 5), *_expensive(15, 1)])
        lab.kill_at(point)
        assert lab.drain().stopped == "caught-up"
        found = lab.audit()
        assert found.is_clean, (point, found)
        assert (found.rows, found.dead_letters) == (15 + 5 * number, 1 + number)
    assert lab.stray_files() == set()


def test_a_run_that_slept_through_the_decision_changes_nothing(new_lab: NewLab) -> None:
    """Stopped between writing and holding, it wakes after its range was discarded: its files are swept."""
    lab = _lab(new_lab)
    with lab.stopped_at("drain.after-gate") as sleeper:
        assert lab.drain().stopped == "held"
        with lab.connections() as connections:
            discard(lab.pipeline, connections, reason="a test")
        sleeper.go_on()
        answer = sleeper.answer()
    assert answer.error is None
    lab.drain()
    _expect(lab, rows=40, skipped=2)
