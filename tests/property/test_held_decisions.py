"""Whatever of its log is there and wherever the table stands: a held batch waits for its operator."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.protocol.source import has_passed
from spark_jobs.recovery.decide import Decision, decide
from spark_jobs.txlog.entries import (
    Attempt,
    Closed,
    Held,
    Notified,
    Published,
    Swept,
    entry_to_json,
    fold,
    object_name,
)
from tests.support.log_entries import (
    TABLE_UUID,
    finished_phases,
    held_written,
    make_batch,
    make_progress,
    written_file,
)

BATCH = make_batch(start=10, end=20)
WRITTEN = held_written(BATCH, written_file(f"/lake/t/data/{BATCH.attempt}-0.parquet"))
BEFORE = finished_phases(BATCH)[:3]
HELD = Held("strict", ({"suite": "strict", "rows": 1, "results": []},), "run-1", 1)
PUBLISHED = Published("why", "ada", "run-2", 2)
MARKS = (HELD, PUBLISHED, Swept(1, "run-3", 3), Closed(1, "run-3", 3), Notified("delivered", "run-3", 3))


def _attempt(entries: list) -> Attempt:
    objects = {object_name(entry.phase, 4): entry_to_json(entry, BATCH, TABLE_UUID) for entry in entries}
    return fold(TABLE_UUID, BATCH.attempt, objects)


@given(
    lost=st.sets(st.sampled_from(range(3))),
    marks=st.sets(st.sampled_from(range(len(MARKS)))),
    has_written=st.booleans(),
    next_offset=st.integers(0, 30),
    generation=st.integers(0, 2),
    present=st.booleans(),
    named=st.booleans(),
)
def test_nobody_publishes_or_deletes_what_is_held(
    *,
    lost: set[int],
    marks: set[int],
    has_written: bool,
    next_offset: int,
    generation: int,
    present: bool,
    named: bool,
) -> None:
    """Adopted only after an operator's word, with all files, at its starts; swept only past its starts."""
    entries = [entry for number, entry in enumerate(BEFORE) if number not in lost]
    entries += [WRITTEN] if has_written else []
    entries += [MARKS[number] for number in sorted(marks)]
    attempt, progress = _attempt(entries), make_progress(next_offset, generation=generation)
    decision = decide(
        attempt, progress, has_all_files=lambda: present, names_its_files=lambda: named
    ).decision
    is_at_starts = next_offset == BATCH.ranges.starts[0] and generation == BATCH.generation
    if decision is Decision.ADOPT:
        assert has_written
        assert PUBLISHED in entries
        assert present
        assert is_at_starts
    if decision is Decision.SWEEP:
        assert has_passed(progress, BATCH)
    if has_written and PUBLISHED not in entries and present and is_at_starts:
        assert decision is Decision.HOLD
