"""Which schema reads a record that names none: whatever was done to the table, the one it was drained by."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.acts.changes import Rewind, follow_source, rewind_progress
from spark_jobs.protocol.batch import Batch
from spark_jobs.protocol.offsets import NO_RANGES, OffsetRange, OffsetRanges, SchemaKey, spans_of
from spark_jobs.protocol.progress import PendingDeadLetters, Progress, progress_from_properties
from spark_jobs.protocol.source import SourceState
from spark_jobs.protocol.works.replay import REPLAY
from spark_jobs.records.framing import spans_at

Read: TypeAlias = dict[tuple[int, int], tuple[SchemaKey, ...]]

IDS = st.integers(1, 3)
LENGTHS = st.dictionaries(st.integers(0, 2), st.integers(1, 5), min_size=1)
DRAINS = st.tuples(st.just("drain"), LENGTHS, st.tuples(IDS, IDS))
ROLLBACKS = st.tuples(st.just("rollback"), LENGTHS, st.none())
SKIPS = st.tuples(st.just("skip"), LENGTHS, st.none())


def keys_of(value: int, key: int) -> tuple[SchemaKey, ...]:
    """Return the schemas of a batch's values and keys."""
    return SchemaKey.parse(str(value)), SchemaKey.parse(f"key/{key}")


def batch_of(progress: Progress, lengths: dict[int, int], read_by: tuple[SchemaKey, ...]) -> Batch:
    """Return a batch of so many records from where the table stands."""
    at = {p: progress.next_offsets.get(p, 0) for p in lengths}
    ranges = OffsetRanges.of(OffsetRange(p, at[p], at[p] + length) for p, length in lengths.items())
    return Batch("p", "a.b", "t", progress.generation, ranges, "attempt", 0, read_by=read_by)


def back(progress: Progress, lengths: dict[int, int]) -> Progress:
    """Return the progress that went back so many records."""
    offsets = {p: max(0, at - lengths.get(p, 0)) for p, at in progress.next_offsets.items()}
    rewind = Rewind(offsets, NO_RANGES, NO_RANGES)
    return rewind_progress(progress, rewind, None, None, attempt="attempt", reason="")


def reads(progress: Progress, places: list[tuple[int, int]], *, of_key: bool) -> list[SchemaKey]:
    """Return by what the table's records at these places are read."""
    spans = spans_of(progress.schema_spans, of_key=of_key)
    partitions, offsets = (np.array(each, np.int64) for each in zip(*places, strict=True))
    return [spans[number].key for number in spans_at(partitions, offsets, spans)]


@given(st.lists(DRAINS | ROLLBACKS | SKIPS, max_size=12))
def test_every_record_is_read_by_what_it_was_drained_by(
    done: list[tuple[str, dict[int, int], tuple[int, int] | None]],
) -> None:
    """Also after rollbacks and skips; there are no more spans than changes of a schema."""
    progress, drained, changes = Progress("t", 1, {}), Read(), 0
    last: dict[bool, SchemaKey] = {}
    for kind, lengths, ids in done:
        if kind == "rollback":
            progress = back(progress, lengths)
            drained = {at: keys for at, keys in drained.items() if at[1] < progress.next_offsets[at[0]]}
            last = {}
        elif ids is None:
            ends = {p: progress.next_offsets.get(p, 0) + length for p, length in lengths.items()}
            progress = replace(progress, next_offsets={**progress.next_offsets, **ends})
        else:
            batch = batch_of(progress, lengths, keys_of(*ids))
            progress = progress.after_batch(batch, None)
            drained |= {
                (r.partition, at): batch.read_by for r in batch.ranges for at in range(r.start, r.end)
            }
            changes += sum(last.get(key.of_key) != key for key in batch.read_by)
            last = {key.of_key: key for key in batch.read_by}
        assert progress_from_properties(progress.to_properties(), table="a.b") == progress
        assert len(progress.schema_spans) <= changes
        for number, of_key in enumerate((False, True)):
            if drained:
                found = reads(progress, [*drained], of_key=of_key)
                assert found == [keys[number] for keys in drained.values()]


@given(st.lists(st.tuples(LENGTHS, IDS), min_size=1, max_size=4), IDS)
def test_a_replay_of_what_has_no_schema_yet_is_remembered(
    drains: list[tuple[dict[int, int], int]], replayed_by: int
) -> None:
    """Whichever drain lands between its plan and its commit, which reads on by its own."""
    progress = Progress("t", 1, {0: 5, 1: 5})
    ranges = OffsetRanges.of([OffsetRange(0, 2, 4)])
    replay = replace(batch_of(progress, {0: 1}, keys_of(replayed_by, 1)[:1]), kind=REPLAY, ranges=ranges)
    drained: Read = {}
    for lengths, number in drains:
        batch = batch_of(progress, lengths, keys_of(number, 1)[:1])
        progress = progress.after_batch(batch, None)
        drained |= {(r.partition, at): batch.read_by for r in batch.ranges for at in range(r.start, r.end)}
    progress = progress.after_replay(replay, PendingDeadLetters("attempt", ranges, ()))
    assert reads(progress, [(0, 2), (0, 3)], of_key=False) == [*replay.read_by] * 2
    assert reads(progress, [*drained], of_key=False) == [keys[0] for keys in drained.values()]


def test_another_generation_begins_without_a_schema() -> None:
    """Its offsets are counted anew; one that goes on at the same offsets keeps them."""
    progress = Progress("t", 1, {}).after_batch(batch_of(Progress("t", 1, {}), {0: 5}, keys_of(1, 2)), None)
    source = SourceState("t", "other", "other")
    assert follow_source(progress, source, None).schema_spans == progress.schema_spans
    assert follow_source(progress, source, {0: 0}).schema_spans == ()
