"""Folding finished attempts into the lines of a checkpoint."""

from __future__ import annotations

import pytest

from spark_jobs.core.errors import CorruptLog
from spark_jobs.core.txlog import Attempt, Closed, FlushStart, entry_to_json, fold, object_name
from spark_jobs.core.txlog_checkpoint import (
    Checkpoint,
    checkpoint_from_json,
    checkpoint_to_json,
    is_due,
    merged,
    summarise,
)
from tests.support.log_entries import TABLE_UUID, finished_phases, make_batch, offset_commit


def finished(attempt: str, at_us: int = 1_000) -> Attempt:
    """An attempt that went through."""
    batch = make_batch(attempt, at_us=at_us)
    return Attempt(TABLE_UUID, attempt, batch, finished_phases(batch), (), 6)


def test_line_holds_what_the_phases_said() -> None:
    """The line of a landed attempt carries ranges, balance, sizes, snapshot, durations, who and when."""
    line = summarise(finished("a"))
    assert line is not None
    assert (line.is_landed, line.snapshot_id, line.durations_ms) == (True, 7, {"commit": 30})
    assert (line.balance.rows, line.bytes_read, line.file_bytes, line.data_files) == (10, 2_400, 900, 1)
    assert (line.actor, line.run_id, line.started_at_us, line.finished_at_us) == (
        "tests",
        "run-1",
        1_000,
        3_000,
    )


def test_swept_attempt_is_not_landed() -> None:
    """An attempt that was swept and closed stays in the history as one that did not land."""
    batch = make_batch()
    entries = (offset_commit(batch), FlushStart("a", "/x", None), Closed(3, "r", 9))
    line = summarise(Attempt(TABLE_UUID, batch.attempt, batch, entries, (), 3))
    assert line is not None
    assert (line.is_landed, line.finished_at_us, line.balance.offsets) == (False, 9, 0)


def test_damaged_last_object_still_means_landed() -> None:
    """FlushComplete is begun only when everything landed, so a damaged one does not turn history around."""
    batch = make_batch()
    text = entry_to_json(offset_commit(batch), batch, TABLE_UUID)
    attempt = fold(TABLE_UUID, batch.attempt, {"1-OffsetCommit.json": text, "6-FlushComplete.json": "{"})
    line = summarise(attempt)
    assert line is not None
    assert line.is_landed
    assert object_name(finished_phases(batch)[5], 0) in attempt.unreadable


def test_nothing_readable_has_no_line() -> None:
    """An attempt of which nothing can be read is not folded."""
    assert summarise(fold(TABLE_UUID, "a", {"6-FlushComplete.json": ""})) is None


def test_checkpoint_comes_back() -> None:
    """What is written is what is read."""
    lines = tuple(filter(None, map(summarise, (finished("a"), finished("b")))))
    checkpoint = Checkpoint(3, lines)
    assert checkpoint_from_json(checkpoint_to_json(checkpoint, TABLE_UUID), path="p") == checkpoint


@pytest.mark.parametrize("text", ["", "{}", "null", '{"format":1,"sequence":1,"attempts":[{}]}'])
def test_damaged_checkpoint_is_named(text: str) -> None:
    """A checkpoint's objects are gone, so a damaged one is an error and not an empty history."""
    with pytest.raises(CorruptLog) as caught:
        checkpoint_from_json(text, path="p")
    assert caught.value.code == "damaged-checkpoint"


def test_newer_checkpoint_is_refused_by_name() -> None:
    """A checkpoint of a newer format is refused as what it is."""
    with pytest.raises(CorruptLog) as caught:
        checkpoint_from_json('{"format":2}', path="p")
    assert caught.value.code == "newer-log-format"


def test_attempt_folded_twice_counts_once() -> None:
    """After a fold that died while deleting, the fuller first line stands; the order is by time."""
    full, later = summarise(finished("a", at_us=5)), summarise(finished("b", at_us=1))
    batch = make_batch("a", at_us=5)
    partial = summarise(Attempt(TABLE_UUID, "a", batch, finished_phases(batch)[5:], (), 6))
    assert full is not None
    assert later is not None
    assert partial is not None
    assert merged([Checkpoint(1, (full,)), Checkpoint(2, (partial, later))]) == (later, full)


def test_due_by_number_of_finished_attempts() -> None:
    """A checkpoint is due when enough attempts wait to be folded."""
    assert not is_due(49)
    assert is_due(50)
    assert is_due(1, due_attempts=1)
