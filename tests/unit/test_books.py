"""What an attempt's log becomes in the books."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from spark_jobs.books import history
from spark_jobs.books.entries import books_of, entry_of, is_due
from spark_jobs.protocol.batch import Balance, BatchCounts
from spark_jobs.protocol.work import Work
from spark_jobs.protocol.works.changes import DISCARD, SKIP
from spark_jobs.txlog.entries import (
    Attempt,
    Closed,
    FlushComplete,
    FlushStart,
    IcebergSnapshotCreated,
    entry_to_json,
    fold,
    object_name,
)
from tests.support.log_entries import TABLE_UUID, finished_phases, make_batch, offset_commit


def finished(attempt: str) -> Attempt:
    """An attempt that went through."""
    batch = make_batch(attempt)
    return Attempt(TABLE_UUID, attempt, batch, finished_phases(batch), (), 6)


def test_entry_holds_what_the_phases_said() -> None:
    """The entry of a landed attempt carries ranges, balance, sizes, snapshot, durations, who and when."""
    entry = entry_of(finished("a"))
    assert entry is not None
    assert (entry.is_landed, entry.snapshot_id, entry.durations_ms) == (True, 7, {"commit": 30})
    assert entry.counts == BatchCounts({0: Balance(rows=10)}, 2_400, 900, data_files=1)
    assert (entry.kind, entry.table_uuid) == ("drain", TABLE_UUID)
    assert (entry.actor, entry.run_id, entry.sluice_version) == ("tests", "run-1", "0.1.0")
    assert (entry.started_at_us, entry.finished_at_us) == (1_000, 3_000)


def test_swept_attempt_is_not_landed() -> None:
    """An attempt that was swept and closed stays in the history as one that did not land."""
    batch = make_batch()
    entries = (offset_commit(batch), FlushStart("a", "/x", None), Closed(3, "r", 9))
    entry = entry_of(Attempt(TABLE_UUID, batch.attempt, batch, entries, (), 3))
    assert entry is not None
    assert (entry.is_landed, entry.finished_at_us, entry.counts.balance.offsets) == (False, 9, 0)


@pytest.mark.parametrize("kind", [SKIP, DISCARD])
def test_skipped_offsets_are_counted(kind: Work) -> None:
    """The offsets of a skip or a discard that landed are in the books as skipped; of any other kind not."""
    batch = replace(make_batch(), kind=kind)
    phases = (IcebergSnapshotCreated(1, "r", 1), FlushComplete({}, None, "r", 1))
    landed = entry_of(Attempt(TABLE_UUID, "a", batch, (offset_commit(batch), *phases), (), 6))
    begun = entry_of(Attempt(TABLE_UUID, "a", batch, (offset_commit(batch),), (), 1))
    drained = entry_of(finished("a"))
    assert [entry.skipped for entry in (landed, begun, drained) if entry] == [10, 0, 0]


def test_what_a_dead_fold_left_says_when_it_began() -> None:
    """Whichever objects of an attempt are left, its entry is found at the same time in the books."""
    batch = make_batch("a", at_us=5)
    begun = replace(offset_commit(batch), started_at_us=9)
    full = entry_of(Attempt(TABLE_UUID, "a", batch, (begun, *finished_phases(batch)[1:]), (), 6))
    left = entry_of(Attempt(TABLE_UUID, "a", batch, finished_phases(batch)[5:], (), 6))
    assert [entry.started_at_us for entry in (full, left) if entry] == [5, 5]


def test_damaged_last_object_still_means_landed() -> None:
    """FlushComplete is begun only when everything landed, so a damaged one does not turn history around."""
    batch = make_batch()
    text = entry_to_json(offset_commit(batch), batch, TABLE_UUID)
    attempt = fold(TABLE_UUID, batch.attempt, {"1-OffsetCommit.json": text, "6-FlushComplete.json": "{"})
    entry = entry_of(attempt)
    assert entry is not None
    assert entry.is_landed
    assert object_name(finished_phases(batch)[5].phase, 0) in attempt.unreadable


def test_nothing_readable_has_no_entry() -> None:
    """An attempt of which nothing can be read is not folded."""
    assert entry_of(fold(TABLE_UUID, "a", {"6-FlushComplete.json": ""})) is None


def test_books_are_beside_the_table() -> None:
    """One table for all tables of a namespace, however deep it is."""
    assert books_of("lake.orders") == books_of("lake.flights") == "lake.sluice_batches"
    assert books_of("a.b.orders") == "a.b.sluice_batches"


def test_due_by_number_of_finished_attempts() -> None:
    """A fold is due when enough attempts wait for it."""
    assert not is_due(149)
    assert is_due(150)
    assert is_due(1, due_attempts=1)


def test_drains_that_neither_log_nor_books_know_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the kept snapshots' drains alone: an emptied log is told; what a gap of a summary hides is not."""
    told = [
        {"sluice.attempt": "kept", "sluice.balance": "{}"},
        {"sluice.attempt": "lost", "sluice.balance": "{}"},
        {"sluice.attempt": "skip", "sluice.balance": "{}", "sluice.kind": "skip"},
        {"sluice.attempt": "act"},
        {},
    ]
    snapshots = [SimpleNamespace(summary=SimpleNamespace(additional_properties=each)) for each in told]
    table = SimpleNamespace(metadata=SimpleNamespace(snapshots=snapshots))
    known = [SimpleNamespace(entry=SimpleNamespace(attempt=each)) for each in ("other", "kept")]
    pipeline: Any = SimpleNamespace(table="lake.a")
    connections: Any = None
    monkeypatch.setattr(history, "load_fresh", lambda *_: table)
    monkeypatch.setattr(history, "lines_of", lambda *_: iter(known))
    assert history.unlisted_drains(pipeline, connections) == 1
    monkeypatch.setattr(history, "load_fresh", lambda *_: None)
    assert history.unlisted_drains(pipeline, connections) == 0
