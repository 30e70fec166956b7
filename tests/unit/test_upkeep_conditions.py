"""When upkeep is due, from figures alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spark_jobs.config.sections import UpkeepSettings
from spark_jobs.upkeep.figures import MEDIUM, SMALL, TableFigures
from spark_jobs.upkeep.kinds.compaction import MEDIUM_FACTOR, full_tiers
from spark_jobs.upkeep.kinds.manifests import MANIFESTS_DUE
from spark_jobs.upkeep.kinds.snapshots import expiry_cutoff_ms
from spark_jobs.upkeep.registry import due_upkeep

SETTINGS = UpkeepSettings(compact_above=20, keep_snapshots=100, keep_snapshots_for_seconds=86_400)
NOW_MS = 1_800_000_000_000
DAY_MS = 86_400_000
IDLE = TableFigures(data_files=3, snapshots=4, expirable_snapshots=3, oldest_expirable_ms=NOW_MS - 1000)


def due(*figures: TableFigures, orphans: float | None = 0.0) -> list[str]:
    """The kinds that are due."""
    since = {} if orphans is None else {"orphans": orphans}
    found = due_upkeep(figures, SETTINGS, now_ms=NOW_MS, seconds_since=since)
    assert all(each.reason for each in found)
    return [each.kind.name for each in found]


def test_a_tidy_table_is_due_for_nothing() -> None:
    """Few files, few snapshots and a young oldest one ask for no job."""
    assert due(IDLE, IDLE) == []
    assert due() == []


def test_files_that_share_no_partition_start_no_compaction() -> None:
    """A thousand small files of a thousand partitions have nothing to be merged with."""
    assert due(replace(IDLE, small_files=1000)) == []
    assert due(replace(IDLE, mergeable_small_files=19)) == []
    assert due(replace(IDLE, mergeable_small_files=20)) == ["compaction"]


def test_either_table_makes_the_pipeline_due() -> None:
    """Dead-letter tables fill with small files as well."""
    assert due(IDLE, replace(IDLE, mergeable_small_files=20)) == ["compaction"]


def test_deleted_rows_are_left_out_when_readers_notice_them() -> None:
    """By their share, of a table that is not small, or when there are more files of them than of rows."""
    large = replace(IDLE, rows=1_000_000, deleted_rows=199_999, delete_files=3)
    assert due(large) == []
    assert due(replace(large, deleted_rows=200_000)) == ["compaction"]
    assert due(replace(IDLE, rows=12_000, deleted_rows=9_999, delete_files=8)) == []
    assert due(replace(IDLE, rows=12_000, deleted_rows=10_000)) == ["compaction"]
    assert due(replace(IDLE, delete_files=9, data_files=10)) == []
    assert due(replace(IDLE, delete_files=9, data_files=9)) == ["compaction"]


def test_medium_files_wait_for_more_of_them() -> None:
    """Rewriting a medium file costs more, so that more of them must have come together."""
    enough = 20 * MEDIUM_FACTOR
    assert full_tiers(replace(IDLE, mergeable_medium_files=enough - 1), SETTINGS.compact_above) == ()
    assert full_tiers(replace(IDLE, mergeable_medium_files=enough), SETTINGS.compact_above) == (MEDIUM,)
    both = replace(IDLE, mergeable_small_files=20, mergeable_medium_files=enough)
    assert full_tiers(both, SETTINGS.compact_above) == (SMALL, MEDIUM)
    assert full_tiers(replace(IDLE, mergeable_small_files=1), 1) == (SMALL,)


@pytest.mark.parametrize(("expirable", "is_due"), [(100, False), (119, False), (120, True)])
def test_snapshots_expire_with_some_slack(expirable: int, is_due: bool) -> None:
    """One more than is kept is not worth a job; a fifth more is."""
    assert (due(replace(IDLE, expirable_snapshots=expirable)) == ["snapshots"]) is is_due


def test_old_snapshots_are_due_by_age() -> None:
    """A table that is seldom written loses its old snapshots too."""
    assert due(replace(IDLE, oldest_expirable_ms=NOW_MS - DAY_MS)) == []
    assert due(replace(IDLE, oldest_expirable_ms=NOW_MS - DAY_MS * 2)) == ["snapshots"]


def test_manifests_and_orphans() -> None:
    """Manifests are due by number, orphans a day after they were last looked for."""
    assert due(replace(IDLE, small_manifests=MANIFESTS_DUE)) == ["manifests"]
    assert due(IDLE, orphans=86_399) == []
    assert due(IDLE, orphans=86_400) == ["orphans"]
    assert due(IDLE, orphans=None) == ["orphans"]


def test_what_the_catalog_forbids_is_never_due() -> None:
    """A catalog with a history of its own is not asked in vain again and again."""
    everything = TableFigures(
        mergeable_small_files=99,
        small_manifests=99,
        expirable_snapshots=999,
        shows_history=False,
        keeps_garbage=True,
    )
    assert due(everything, orphans=None) == []


def test_the_cutoff_keeps_the_newest_so_many() -> None:
    """Beyond the count snapshots go however young, and at least the newest stays however old."""
    times = [NOW_MS - n * 1000 for n in range(150)]
    cutoff = expiry_cutoff_ms(times, SETTINGS, NOW_MS)
    assert cutoff is not None
    assert sum(at >= cutoff for at in times) == 100
    assert expiry_cutoff_ms(times[:100], SETTINGS, NOW_MS) is None
    assert expiry_cutoff_ms([NOW_MS - 9 * DAY_MS], SETTINGS, NOW_MS) is None


def test_the_cutoff_by_age_goes_into_what_the_count_would_keep() -> None:
    """Either bound is enough for a snapshot to expire."""
    times = [NOW_MS, NOW_MS - DAY_MS // 2, NOW_MS - 2 * DAY_MS]
    assert expiry_cutoff_ms(times, SETTINGS, NOW_MS) == NOW_MS - DAY_MS
