"""Upkeep while drains run, and killed between its phases: no work is lost, and the audit finds all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from prove.lab.pipeline_lab import orders, progress
from prove.lab.work_loop import looping
from spark_jobs.books.entries import books_of
from spark_jobs.books.fold import checkpoint
from spark_jobs.commit.anchor import check_anchor
from spark_jobs.upkeep.registry import KINDS
from tests.support.upkeep_lab import BROKEN, drain_often, expect_whole, set_upkeep, tidy

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from prove.lab.pipeline_lab import Lab
    from prove.lab.work_loop import WorkLoop
    from tests.support.new_lab import NewLab

pytestmark = [pytest.mark.faults, pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(1800)]

FIRST_DRAINS = 5


@pytest.fixture
def lab(new_lab: NewLab) -> Lab:
    """A table of a few small commits."""
    lab = new_lab()
    set_upkeep(lab, compact_above=5, keep_snapshots=2)
    drain_often(lab, new_lab, FIRST_DRAINS)
    return lab


def draining(lab: Lab, new_lab: NewLab) -> AbstractContextManager[WorkLoop]:
    """Drains run while the block does, each of ten orders and a dead letter."""

    def drain(number: int) -> None:
        new_lab.produce(lab, [*orders(1000 + 10 * number, 10), BROKEN])
        assert sum(batch.counts.balance.rows for batch in lab.drain().batches) == 10

    return looping(drain)


def test_all_upkeep_while_drains_run(lab: Lab, new_lab: NewLab) -> None:
    """No drain and no upkeep fails, every one of both lands, and each record is in the table once."""
    with draining(lab, new_lab) as drains:
        compacted = tidy(lab, "compaction")
        merged = tidy(lab, "manifests")
        expired = tidy(lab, "snapshots")
        tidy(lab, "orphans")
    assert drains.done >= 1
    for table in compacted.tables:
        assert table.done.counts["rewritten_files"] >= FIRST_DRAINS
    assert [bool(table.done.counts) for table in merged.tables] == [True, True]
    assert [table.done.counts["expired_snapshots"] >= 1 for table in expired.tables] == [True, True]
    check_anchor(lab.table())
    assert progress(lab).compacted_files >= 1
    expect_whole(lab, FIRST_DRAINS + drains.done)


def test_folds_while_drains_run(new_lab: NewLab) -> None:
    """Every attempt is in the books exactly once, and what they say of each adds up to all offsets."""
    lab = new_lab()
    folds = 0
    with draining(lab, new_lab) as drains, lab.connections() as connections:
        while drains.done < 8 and drains.is_running:
            folds += checkpoint(lab.pipeline, connections).folded_attempts > 0
    assert folds >= 2
    with lab.connections() as connections:
        checkpoint(lab.pipeline, connections)
        assert connections.txlog.attempts(str(lab.table().metadata.table_uuid)) == ()
    booked = lab.rows(books_of(lab.pipeline.table)).to_pylist()
    assert len(booked) == len({row["attempt"] for row in booked}) == drains.done
    (next_offset,) = progress(lab).next_offsets.values()
    bounds = sorted((each["start"], each["end"]) for row in booked for each in row["ranges"])
    assert [start for start, _ in [*bounds, (next_offset, 0)]] == [0, *(end for _, end in bounds)]
    assert sum(row["rows"] + row["dead_letters"] for row in booked) == next_offset == 11 * drains.done
    expect_whole(lab, drains.done)


def test_upkeep_killed_between_its_phases(new_lab: NewLab) -> None:
    """Killed at each place in turn: drains go on, and the same upkeep done again ends as without."""
    lab = new_lab()
    set_upkeep(lab, compact_above=5, keep_snapshots=2)
    drain_often(lab, new_lab, FIRST_DRAINS)
    times = FIRST_DRAINS
    for kind in KINDS:
        for place in kind.fail_points:
            lab.kill_at(place, work=kind.name)
            drain_often(lab, new_lab, 1)
            times += 1
    result = tidy(lab, "compaction")
    tidy(lab, "snapshots")
    assert result.tables[0].after.data_files < times
    check_anchor(lab.table())
    expect_whole(lab, times)
