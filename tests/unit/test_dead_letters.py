"""Whose dead letters are there: pure rules over two tables' progress."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spark_jobs.acts.changes import Rewind, rewind_progress
from spark_jobs.protocol.offsets import NO_RANGES, OffsetRanges
from spark_jobs.protocol.progress import PendingDeadLetters, Progress
from spark_jobs.protocol.source import is_of_another_table, is_stale, still_pending, with_dead_letters
from tests.support.log_entries import make_batch, make_progress, written_file

DATA = Progress("orders", 2, {0: 20, 1: 5}, replay_epoch=3)


@pytest.mark.parametrize(
    ("there", "is_another"),
    [
        pytest.param({}, False, id="as-far"),
        pytest.param({"next_offsets": {}}, False, id="knows-no-partition"),
        pytest.param({"next_offsets": {0: 10}}, False, id="behind"),
        pytest.param({"next_offsets": {0: 21}}, True, id="ahead"),
        pytest.param({"next_offsets": {7: 1}}, False, id="a-partition-the-table-has-not-begun"),
        pytest.param({"next_offsets": {0: 21}, "replay_epoch": 2}, False, id="before-a-rollback"),
        pytest.param({"next_offsets": {0: 10}, "replay_epoch": 4}, True, id="after-a-later-replay"),
        pytest.param({"next_offsets": {0: 21}, "generation": 1}, False, id="of-an-earlier-source"),
        pytest.param({"next_offsets": {}, "generation": 3}, True, id="of-a-later-source"),
        pytest.param({"next_offsets": {}, "topic": "payments"}, True, id="of-another-topic"),
    ],
)
def test_dead_letters_ahead_are_of_another_table(there: dict[str, object], is_another: bool) -> None:
    """Unless a rollback or a new source explains it."""
    assert is_of_another_table(replace(DATA, **there), DATA) is is_another


RANGES = OffsetRanges.between({0: 0}, {0: 20})


def test_what_is_owed_is_owed_until_it_landed() -> None:
    """The data table goes on naming it until its own next commit."""
    pending = PendingDeadLetters(
        "attempt-1", OffsetRanges.between({0: 0}, {0: 20}), (written_file("dead.parquet"),)
    )
    owing = replace(DATA, pending_dead_letters=pending)
    assert still_pending(DATA, None) is None
    assert still_pending(owing, None) is pending
    assert still_pending(owing, DATA.with_attempt("attempt-0")) is pending
    assert still_pending(owing, DATA.with_attempt("attempt-1")) is None


def test_dead_letters_that_a_rollback_took_out_never_come_back() -> None:
    """The offsets have come round again and their attempt is forgotten: the epoch refuses who slept."""
    batch = make_batch()
    owed = PendingDeadLetters(batch.attempt, batch.ranges, (written_file("dead.parquet"),))
    drained = make_progress().after_batch(batch, owed)
    letters = with_dead_letters(make_progress(), drained, owed)
    rewind = Rewind({0: 0}, batch.ranges, NO_RANGES)
    undone = rewind_progress(drained, rewind, None, None, attempt="rollback", reason="")
    assert undone.pending_dead_letters is not None
    emptied = replace(with_dead_letters(letters, undone, undone.pending_dead_letters), last_commits=())
    assert emptied.next_offsets == make_progress().next_offsets
    assert is_stale(emptied, drained, owed)
    again = make_batch("attempt-b")
    anew = replace(owed, attempt=again.attempt)
    assert not is_stale(emptied, undone.after_batch(again, anew), anew)
