"""A figure of the benchmark stands under the label and beside the goal that are meant for it."""

from __future__ import annotations

from bench.catch_up import GOAL_RATIO, CatchUpResult, CatchUpRound
from bench.report import SHARE, catch_up_rows, shapes_rows, small_batches_rows
from bench.small_batches import GOAL_FIRST_SECONDS, FirstBatch, SmallBatchesResult


def _result() -> CatchUpResult:
    """The drain takes twice the bare loop's time and four times its CPU time."""
    only = CatchUpRound(
        order="drain, bare loop",
        drain_seconds=2.0,
        drain_rows=1_000_000,
        drain_file_bytes=1,
        drain_batches=1,
        drain_cpu_us_by_step={"decode": 1},
        drain_cpu_us=4_000_000,
        drain_durations_ms={"tasks": 1},
        bare_seconds=1.0,
        bare_rows=1_000_000,
        bare_file_bytes=1,
        bare_cpu_us=1_000_000,
        audit_cpu_us=8_000_000,
    )
    return CatchUpResult(1_000_000, 242.0, 1.0, (only,))


def test_a_slower_drain_has_less_than_the_bare_loops_speed():
    """What is labelled a share of the bare loop's speed is below 1 where the drain takes longer."""
    rows = {what: (measured, goal) for what, measured, goal in catch_up_rows(_result())}
    assert rows[f"{SHARE}, by time"] == ("0.50", f">= {GOAL_RATIO}")
    assert rows[f"{SHARE}, by CPU time"][0] == "0.25"
    shape = {what.strip(): measured for what, measured, _ in shapes_rows({"tiny": _result()})}
    assert shape[f"{SHARE}, by time; by CPU time"] == "0.50; 0.25"


def test_the_goal_of_a_first_batch_leaves_the_process_start_out():
    """The goal stands beside attaching, recovery, plan, drain and commit; start and imports are apart."""
    result = SmallBatchesResult(
        records_per_batch=1_000,
        runs=1,
        rows=1_000,
        expected_rows=1_000,
        first=(FirstBatch(0.5, 2.5, 1.25, 0.25, {"commit": 30}),),
        later_seconds=(0.5,),
        later_durations_ms={"commit": 30.0},
    )
    with_goal = [row for row in small_batches_rows(result) if row[2] == f"<= {GOAL_FIRST_SECONDS} s"]
    assert [row[1] for row in with_goal] == ["1.50 s"]
    assert "4.50 s" in {row[1] for row in small_batches_rows(result)}
