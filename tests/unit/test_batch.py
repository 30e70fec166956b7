"""A batch's name and the balance of its offsets."""

from __future__ import annotations

from dataclasses import replace

from spark_jobs.protocol.batch import Balance, Batch, total, unbalanced
from spark_jobs.protocol.offsets import OffsetRange, OffsetRanges

RANGES = OffsetRanges.of([OffsetRange(1, 5, 9), OffsetRange(0, 0, 10)])
BATCH = Batch("orders", "shop.orders", "orders", 1, RANGES, "attempt-1", 7)


def test_the_same_work_has_the_same_name() -> None:
    """Two runs that plan one range agree on its name and differ in their attempts."""
    other_run = replace(BATCH, attempt="attempt-2", ingested_at_us=8, pipeline="renamed")
    assert other_run.batch_id == BATCH.batch_id
    assert BATCH.batch_id.startswith("drain-")


def test_other_work_has_another_name() -> None:
    """Table, topic, generation and ranges each tell batches apart."""
    others = [
        replace(BATCH, table="shop.other"),
        replace(BATCH, topic="other"),
        replace(BATCH, generation=2),
        replace(BATCH, ranges=OffsetRanges.of([OffsetRange(0, 0, 10)])),
        replace(BATCH, ranges=OffsetRanges.of([OffsetRange(0, 0, 10), OffsetRange(1, 5, 10)])),
    ]
    assert len({BATCH.batch_id, *(other.batch_id for other in others)}) == 6


def test_balances_add_up() -> None:
    """Field by field; all of them together are the offsets accounted for."""
    both = Balance(rows=1, dead_letters=2, tombstones=3, gaps=4) + Balance(rows=10, gaps=5)
    assert both == Balance(rows=11, dead_letters=2, tombstones=3, gaps=9)
    assert both.offsets == 25
    assert total([]) == Balance()
    assert total([Balance(rows=1), Balance(dead_letters=1), Balance(tombstones=1)]) == Balance(
        rows=1, dead_letters=1, tombstones=1
    )


def test_a_batch_balances_only_partition_by_partition() -> None:
    """Too many offsets of one partition never make up for too few of another."""
    assert (
        unbalanced(RANGES, {0: Balance(rows=6, dead_letters=1, tombstones=1, gaps=2), 1: Balance(rows=4)})
        == {}
    )
    assert unbalanced(RANGES, {0: Balance(rows=9), 1: Balance(rows=5)}) == {0: 1, 1: -1}
    assert unbalanced(RANGES, {0: Balance(rows=10)}) == {1: 4}
