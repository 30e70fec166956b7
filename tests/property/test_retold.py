"""What is below a partition's furthest place: told again by a killed connector, or never told before."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from cli.stand.recorded_changes import recording
from prove.lab.generated_changes import SourceEvent
from spark_jobs.mirror.fold import Fate, first_new, fold
from spark_jobs.protocol.cdc import Cdc
from tests.property.test_mirror_fold import Mirror, as_events, recorded_log

if TYPE_CHECKING:
    import pyarrow as pa


@pytest.mark.parametrize("seed", range(20))
def test_a_restart_of_connect_never_stops(seed: int) -> None:
    """Killed at any commit, telling again from any before it, drained in any batches: its rows, no stop."""
    chance = random.Random(seed)
    log, _ = recorded_log()
    commits = sorted({told.commit for events in log.values() for told in events if told.commit})
    again, killed = sorted(chance.choices(commits, k=2))
    for events in log.values():
        until = [index for index, told in enumerate(events) if (told.commit or 0) <= killed]
        end = until[-1] + 1
        events[end:end] = [told for told in events[:end] if told.commit and told.commit >= again]
    mirror, taken = Mirror(), dict.fromkeys(log, 0)
    while taken != {p: len(events) for p, events in log.items()}:
        taken = mirror.take(log, taken, {p: chance.randint(taken[p], len(log[p])) for p in log})
    found = {key: (told.score, note) for key, (told, note) in mirror.rows.items()}
    assert found == {row[0]: (row[3], row[2]) for row in recording()["moments"][-1]["rows"]}


def told(key: int, sequence: int, time_ms: int, operation: str = "u") -> SourceEvent:
    """Return a change of its own transaction."""
    return SourceEvent(operation, key, sequence, sequence - 5, time_ms, note="n")


def new_in(
    *events: SourceEvent, had: tuple[tuple[int, int], ...] = (), before: Cdc | None = None
) -> int | None:
    """Return which event is new though it stands below; ``had`` are keys and places of earlier batches."""
    known = {(f'{{"id":{key}}}', sequence) for key, sequence in had}
    batch = [(0, offset, each) for offset, each in enumerate(events)]

    def look(asked: pa.Table) -> np.ndarray:
        places = zip(asked["_cdc_row_id"].to_pylist(), asked["_cdc_sequence"].to_pylist(), strict=True)
        return np.array([place in known for place in places])

    return first_new(fold(as_events(batch), before or Cdc()), look)


@pytest.mark.parametrize("clock_ms", [-3_000, 0, 3_000])
@pytest.mark.parametrize("operation", ["c", "u", "d", "r"])
def test_a_server_that_had_not_got_as_far_is_noticed_whatever_its_clock_says(
    clock_ms: int, operation: str
) -> None:
    """What it tells below was never told before: nothing of it is skipped; what was told is."""
    first = told(1, 500, 5_000)
    lower = told(2, 400, 5_000 + clock_ms, operation)
    assert new_in(first, lower) == 1
    stood = fold(as_events([(0, 0, first)]), Cdc()).cdc
    assert new_in(lower, before=stood, had=((1, 500),)) == 0
    assert new_in(lower, before=stood, had=((1, 500), (2, 400))) is None
    # It tells again what both had, and goes on otherwise.
    assert new_in(told(2, 400, 9), told(3, 450, 9), before=stood, had=((2, 400),)) == 1


def test_what_comes_before_an_event_that_was_told_was_told_too() -> None:
    """Where a compaction left no row of it: a log has one history. Twice below, neither proves the other."""
    first = told(1, 500, 5_000)
    stood = fold(as_events([(0, 0, first)]), Cdc()).cdc
    gone = told(2, 400, 5_000), told(2, 410, 5_000, "d")
    assert new_in(*gone, told(3, 420, 5_000), before=stood, had=((3, 420),)) is None
    assert new_in(*gone, first, before=stood) is None
    assert new_in(*gone, before=stood) == 0
    assert new_in(*gone, *gone, before=stood) == 0


def test_an_earlier_truncate_that_lies_further_still_counts() -> None:
    """One of a lower place that is told later takes nothing back."""
    emptied = replace(told(0, 50, 9, "t"), key=None, commit=None)
    cdc = fold(as_events([(0, 0, emptied)]), Cdc()).cdc
    lower = replace(emptied, sequence=40)
    folded = fold(as_events([(0, 1, lower), (0, 2, replace(told(1, 45, 9), commit=None))]), cdc)
    assert [*folded.fates] == [Fate.TRUNCATES, Fate.BEFORE_TRUNCATE]
    assert (folded.cdc.truncated_below, folded.cut and folded.cut.sequence) == (50, 40)
