"""When a drain is due, as a pure decision."""

from __future__ import annotations

from dataclasses import replace

import pytest

from orchestration.run_requests import (
    LONGEST_RETRY_SECONDS,
    Backlog,
    patience,
    retry_delay_seconds,
    should_drain,
    should_drain_now,
    state_key,
    uncompacted_files,
)
from spark_jobs.config.quantities import Start, StartKind
from spark_jobs.config.settings import PipelineConfig

PIPELINE = PipelineConfig(
    name="orders",
    topic="orders",
    table="lake.orders",
    freshness_seconds=60,
    max_batch_records=1000,
    max_batch_bytes=10_000,
)


@pytest.mark.parametrize(
    ("backlog", "expected"),
    [
        (Backlog(records=0, bytes=0, seconds_since_commit=9999.0), None),
        (Backlog(records=1, bytes=9, seconds_since_commit=59.0), None),
        (Backlog(records=1, bytes=9, seconds_since_commit=60.0), "freshness requires a batch every 60 s"),
        (Backlog(records=1000, bytes=9, seconds_since_commit=0.0), "a full batch by count"),
        (Backlog(records=10, bytes=10_000, seconds_since_commit=0.0), "a full batch by size"),
        (Backlog(records=1, bytes=9, seconds_since_commit=-1.0), "a clock was set back"),
        (Backlog(records=0, bytes=0, seconds_since_commit=-1.0), None),
        (Backlog(records=0, bytes=0, seconds_since_commit=None), None),
        (Backlog(records=1, bytes=1, seconds_since_commit=None), "the table does not exist"),
        (Backlog(0, 0, 1.0, disagreement="the topic was re-created"), "re-created"),
    ],
)
def test_a_run_is_due_by_count_size_age_or_trouble(backlog: Backlog, expected: str | None) -> None:
    """Each trigger fires at its bound and says so; an idle or fresh pipeline asks for nothing."""
    reason = should_drain(backlog, PIPELINE)
    assert reason is None if expected is None else reason is not None and expected in reason


def test_latest_is_resolved_before_the_first_record() -> None:
    """A pipeline that starts at the end makes its table while the topic is empty, to miss no record."""
    latest = PIPELINE.model_copy(update={"start": Start(StartKind.LATEST)})
    assert should_drain(Backlog(records=0, bytes=0, seconds_since_commit=None), latest)


def test_pauses_grow_and_stay_bounded() -> None:
    """The first run waits for nothing, each further one longer, none beyond the longest pause."""
    pauses = [retry_delay_seconds(made) for made in range(60)]
    assert pauses[0] == 0
    assert pauses == sorted(pauses)
    assert pauses[-1] == LONGEST_RETRY_SECONDS


def test_state_changes_with_configuration_and_offsets_only() -> None:
    """Editing the pipeline or moving its offsets names another state; looking again does not."""
    state = ["uuid", 1, {0: 5, 1: 7}]
    edited = PIPELINE.model_copy(update={"columns": {"id": "long"}})
    assert state_key(PIPELINE, state) == state_key(PIPELINE, ["uuid", 1, {1: 7, 0: 5}])
    assert len({state_key(PIPELINE, state), state_key(edited, state), state_key(PIPELINE, None)}) == 3


def test_uncompacted_files_make_batches_larger() -> None:
    """Beyond a limit a batch waits longer, ten times at most, and says so; a full one never waits."""
    limit = PIPELINE.upkeep.compact_above * 10
    assert [patience(files, PIPELINE) for files in (0, limit, 3 * limit, 99 * limit)] == [1, 1, 3, 10]
    crowded = Backlog(records=1, bytes=9, seconds_since_commit=179.0, uncompacted_files=3 * limit)
    assert should_drain(crowded, PIPELINE) is None
    reason = should_drain(replace(crowded, seconds_since_commit=180.0), PIPELINE)
    assert reason is not None
    assert reason.endswith(f"(longer because {3 * limit:,} files are uncompacted)")
    assert (
        should_drain(replace(crowded, records=1000), PIPELINE) == "1,000 records wait, a full batch by count"
    )


def test_only_small_files_count_as_uncompacted() -> None:
    """A table of large files needs no compaction however many they are."""
    counts = {"total-data-files": "500", "added-data-files": "2", "added-files-size": str(2 * 1024)}
    assert uncompacted_files(counts, 480) == 20
    assert uncompacted_files(counts, 600) == 0
    assert uncompacted_files({**counts, "added-files-size": str(64 * 1024**2)}, 480) == 0
    assert uncompacted_files({}, 0) == 0


def test_a_tick_of_a_schedule_takes_whatever_waits() -> None:
    """However little and however young it is; nothing is asked for when nothing waits."""
    nightly = PIPELINE.model_copy(update={"schedule": "0 2 * * *"})
    young = Backlog(records=1, bytes=9, seconds_since_commit=1.0)
    assert should_drain(young, nightly) is None
    assert should_drain_now(young, nightly) == "1 record waits at the tick of schedule 0 2 * * *"
    assert should_drain_now(replace(young, records=0), nightly) is None
    assert should_drain_now(replace(young, disagreement="moved"), nightly) == "moved"
