"""What is said of a drained record that has no row and no dead letter."""

from __future__ import annotations

import pytest

from spark_jobs.audit.trace_answers import KafkaSays, Where, judge_folded, judge_rowless
from spark_jobs.protocol.batch import Balance

RECORD, TOMBSTONE, NOTHING, NOT_HELD = KafkaSays
ROWS = Balance(rows=8, dead_letters=2)
WITH_TOMBSTONE = Balance(rows=8, dead_letters=1, tombstones=1)
WITH_GAP = Balance(rows=8, dead_letters=1, gaps=1)
WITH_BOTH = Balance(rows=8, tombstones=1, gaps=1)


@pytest.mark.parametrize(
    ("kafka", "booked", "there", "where"),
    [
        (TOMBSTONE, WITH_TOMBSTONE, 9, Where.TOMBSTONE),
        (TOMBSTONE, None, 0, Where.TOMBSTONE),
        (RECORD, ROWS, 9, Where.REMOVED),
        (RECORD, ROWS, 10, Where.MISSING),
        (RECORD, None, 0, Where.MISSING),
        (NOTHING, WITH_GAP, 9, Where.GAP),
        (NOTHING, WITH_GAP, 8, Where.GAP),
        (NOTHING, WITH_BOTH, 8, Where.GAP),
        (NOTHING, ROWS, 9, Where.REMOVED),
        (NOTHING, WITH_TOMBSTONE, 9, Where.TOMBSTONE),
        (NOT_HELD, ROWS, 9, Where.REMOVED),
        (NOT_HELD, WITH_TOMBSTONE, 9, Where.TOMBSTONE),
        (NOT_HELD, WITH_GAP, 9, Where.GAP),
        (NOT_HELD, WITH_BOTH, 8, Where.EMPTY),
        (NOT_HELD, WITH_GAP, 8, Where.UNKNOWN),
        (NOT_HELD, ROWS, 10, Where.MISSING),
        (NOT_HELD, None, 0, Where.UNKNOWN),
    ],
)
def test_what_is_known_decides_and_nothing_is_guessed(kafka, booked, there, where) -> None:
    """Kafka's word, then the balance of the batch against what is in the tables; else it is unknown."""
    assert judge_rowless(kafka, booked, there).where is where


def test_of_a_mirror_a_change_without_a_row_is_no_loss() -> None:
    """A newer one of its key came, or its row went: what its batch counted is told."""
    booked = Balance(rows=8, superseded=2, removes=1)
    for kafka in (RECORD, NOT_HELD):
        told = judge_folded(kafka, booked)
        assert told.where is Where.FOLDED
        assert "8 rows, 2 superseded, 1 removes" in told.why
        assert judge_folded(kafka, None).where is Where.FOLDED
    assert judge_folded(TOMBSTONE, booked).where is Where.TOMBSTONE
    assert judge_folded(NOTHING, booked).where is Where.GAP
