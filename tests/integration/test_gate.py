"""Gates on real parts: what does not meet them is not in the table, and nothing of it is lost."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from prove.lab.pipeline_lab import PIPELINE, by_offset, progress
from spark_jobs.acts.held_batches import discard, held_batches, publish
from spark_jobs.protocol.errors import ConfigError
from tests.support.lake import Once
from tests.support.new_lab import DEAD_LETTERS, summary

if TYPE_CHECKING:
    from prove.lab.pipeline_lab import Lab
    from tests.support.new_lab import NewLab

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

NOT_NULL = {"expect_column_values_to_not_be_null": {"column": "customer"}}
CHEAP = {"expect_column_values_to_be_between": {"column": "price", "max_value": 100}}


def gate(*expectations: dict[str, Any], **settings: Any) -> list[dict[str, Any]]:
    """One suite named strict that is judged before the commit."""
    return [{"name": "strict", "when": "gate", "expectations": list(expectations), **settings}]


def sales(first: int, count: int, *, price: float = 1.5, customer: str | None = "c") -> list[bytes]:
    """Orders with consecutive numbers that cost the same."""
    return [
        json.dumps({"id": n, "customer": customer, "price": price}).encode()
        for n in range(first, first + count)
    ]


def test_a_batch_that_meets_its_gate_is_committed(new_lab: NewLab) -> None:
    """Judged and committed in one run; the snapshot says that it passed."""
    lab = new_lab(sales(0, 20), partitions=2, quality=gate(NOT_NULL, CHEAP))
    result = lab.drain()
    assert (result.stopped, result.held, result.balance.rows) == ("caught-up", (), 20)
    assert summary(lab.table().current_snapshot())["sluice.gate"] == "passed"
    assert "gate" in result.batches[0].durations_ms


def test_a_batch_that_does_not_is_held_and_later_ones_wait(new_lab: NewLab) -> None:
    """Nothing of it is committed; later runs stop at it, read nothing and delete nothing."""
    lab = new_lab(sales(0, 20), quality=gate(CHEAP))
    lab.drain()
    new_lab.produce(lab, sales(20, 5, price=900.0))
    held = lab.drain()
    assert (held.stopped, held.lag_records, len(held.batches)) == ("held", 5, 0)
    assert str(held.held[0].batch.ranges) == "0:20-25"
    assert "fails for 5 of 5 rows (first at 0:20, 0:21, 0:22)" in held.held[0].story
    files = lab.stray_files()
    assert len(files) == 1
    new_lab.produce(lab, sales(25, 5))
    again = lab.drain()
    assert (again.stopped, again.lag_records, again.held) == ("held", 10, held.held)
    assert lab.stray_files() == files
    assert len(by_offset(lab)) == 20


def test_a_null_list_of_objects_is_null_to_a_gate(new_lab: NewLab) -> None:
    """PyIceberg's own scan would show it as an empty one, and let the batch pass."""
    records = [b'{"id": 0, "items": [{"sku": "a"}]}', b'{"id": 1, "items": []}', b'{"id": 2, "items": null}']
    lab = new_lab(records, quality=gate({"expect_column_values_to_not_be_null": {"column": "items"}}))
    (held,) = lab.drain().held
    assert "fails for 1 of 3 rows (first at 0:2)" in held.story


def _held_lab(new_lab: NewLab) -> Lab:
    """Twenty orders committed, five held, five more waiting."""
    lab = new_lab(sales(0, 20), quality=gate(CHEAP))
    lab.drain()
    new_lab.produce(lab, sales(20, 5, price=900.0))
    assert lab.drain().stopped == "held"
    new_lab.produce(lab, sales(25, 5))
    return lab


def test_published_as_it_is(new_lab: NewLab) -> None:
    """Its own files land, the snapshot says who wanted it and why, and drains go on behind it."""
    lab = _held_lab(new_lab)
    files = lab.stray_files()
    with lab.connections() as connections:
        (held,) = held_batches(lab.pipeline, connections)
        published = publish(lab.pipeline, connections, reason="a sale of cars")
    assert published.batch.attempt == held.batch.attempt
    said = summary(lab.table().current_snapshot())
    assert (said["sluice.published-by"], said["sluice.reason"]) == ("test", "a sale of cars")
    assert (said["sluice.gate"], said["sluice.attempt"]) == ("held", held.batch.attempt)
    assert lab.stray_files() & files == set()
    assert lab.drain().stopped == "caught-up"
    found = lab.audit()
    assert found.is_clean
    assert (found.rows, found.lag) == (30, 0)


def test_published_by_a_drain_that_came_first(new_lab: NewLab) -> None:
    """The decision is in the log; that another run carried it out is no failure of the command."""
    lab = _held_lab(new_lab)
    drained = Once("held.after-published", lab.drain)
    with lab.connections(fail_points=drained) as connections:
        published = publish(lab.pipeline, connections, reason="a sale of cars")
    assert lab.table().snapshot_by_id(published.snapshot_id) is not None
    assert lab.audit().is_clean


def test_discarded_with_a_reason(new_lab: NewLab) -> None:
    """Its offsets are passed in one commit that says why, its files go, its records are told, not missing."""
    lab = _held_lab(new_lab)
    with lab.connections() as connections:
        (held,) = held_batches(lab.pipeline, connections)
        discard(lab.pipeline, connections, reason="a test of the shop", attempt=held.batch.attempt)
        assert held_batches(lab.pipeline, connections) == ()
    said = summary(lab.table().current_snapshot())
    assert (said["sluice.kind"], said["sluice.reason"]) == ("discard", "a test of the shop")
    assert lab.stray_files() == set()
    assert lab.drain().stopped == "caught-up"
    assert sorted(offset for _, offset in by_offset(lab)) == [*range(20), *range(25, 30)]
    found = lab.audit()
    assert found.is_clean, found
    assert (found.rows, found.skipped, found.lag) == (25, 5, 0)


def test_an_act_without_a_held_batch_is_refused(new_lab: NewLab) -> None:
    """Publishing or discarding what is not held is a named error and changes nothing."""
    lab = new_lab(sales(0, 5), quality=gate(CHEAP))
    lab.drain()
    before = progress(lab)
    with lab.connections() as connections:
        for act in (publish, discard):
            with pytest.raises(ConfigError, match="nothing-held"):
                act(lab.pipeline, connections, reason="why not")
    assert progress(lab) == before


def test_failing_rows_go_to_the_dead_letters(new_lab: NewLab) -> None:
    """Exactly the rows that fail, with suite, expectation and bytes; the others are committed at once."""
    records = [
        *sales(0, 10),
        *sales(10, 1, price=900.0),
        *sales(11, 9),
        *sales(20, 1, customer=None),
        b"broken",
    ]
    lab = new_lab(records, quality=gate(CHEAP, NOT_NULL, on_failure="dead_letters"))
    result = lab.drain()
    assert (result.stopped, result.balance.rows, result.balance.dead_letters) == ("caught-up", 19, 3)
    letters = by_offset(lab, DEAD_LETTERS)
    assert set(letters) == {(0, 10), (0, 20), (0, 21)}
    expensive = letters[0, 10]
    assert expensive["phase"] == "quality"
    assert expensive["error"].startswith("suite strict: expect_column_values_to_be_between(column='price'")
    assert json.loads(expensive["value"])["price"] == 900.0
    assert "expect_column_values_to_not_be_null" in letters[0, 20]["error"]
    assert lab.stray_files() == set()
    assert lab.audit().is_clean


def test_a_figure_that_is_off_holds_even_then(new_lab: NewLab) -> None:
    """An expectation about all rows together names no row to take out: the batch is held."""
    few = {"expect_table_row_count_to_be_between": {"max_value": 3}}
    lab = new_lab(sales(0, 5), quality=gate(NOT_NULL, few, on_failure="dead_letters"))
    result = lab.drain()
    assert result.stopped == "held"
    assert "found 5" in result.held[0].story


def test_what_cannot_be_judged_stops_the_pipeline(new_lab: NewLab) -> None:
    """A column that is not there is a named error; nothing is committed, held or adopted later."""
    lab = new_lab(sales(0, 5), quality=gate({"expect_column_values_to_not_be_null": {"column": "custmer"}}))
    for _ in range(2):
        with pytest.raises(ConfigError, match="custmer"):
            lab.drain()
    with lab.connections() as connections:
        assert held_batches(lab.pipeline, connections) == ()
    assert lab.rows().num_rows == 0


def test_columns_that_the_batch_itself_adds_are_judged(new_lab: NewLab) -> None:
    """Files written before a column was added have nulls there; the gate sees the batch as readers will."""
    lab = new_lab(sales(0, 10), partitions=2, quality=gate(NOT_NULL))
    lab.drain()
    late = [json.dumps({"id": n, "customer": "c", "price": 1.5, "coupon": "x"}).encode() for n in range(10)]
    new_lab.produce(lab, late)
    assert PIPELINE
    assert lab.drain().stopped == "caught-up"
    assert lab.audit().is_clean
