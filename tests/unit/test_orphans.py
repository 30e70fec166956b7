"""Which listed files may be deleted, from facts alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spark_jobs.storage.paths import is_local, normalise_path
from spark_jobs.upkeep.orphans import OrphanFacts, judge_orphans, overlaps

BEFORE_US = 1_000
ATTEMPT = "7a5e0c3e-1111-4222-8333-444455556666"
FACTS = OrphanFacts(named=frozenset(), unfinished={}, before_us=BEFORE_US)
OLD = "file:/lake/t/data/old.parquet"


def deletable(listed: dict[str, int | None], facts: OrphanFacts) -> tuple[str, ...]:
    """The files that may go; the others are counted, each once."""
    verdicts = judge_orphans(listed, facts)
    assert len(verdicts.deletable) + sum(verdicts.kept.values()) == len(listed)
    return verdicts.deletable


def test_an_old_file_that_nothing_needs_goes() -> None:
    """It keeps the spelling it was listed with: that is what the storage is asked by."""
    assert deletable({OLD: 1}, FACTS) == (OLD,)


@pytest.mark.parametrize("modified_us", [BEFORE_US, BEFORE_US + 1, None])
def test_young_and_vanished_files_stay(modified_us: int | None) -> None:
    """The age is judged again by the file itself, whatever the listing went by."""
    assert deletable({OLD: modified_us}, FACTS) == ()


@pytest.mark.parametrize(
    ("listed", "named"),
    [
        ("file:/lake/t/data/f.parquet", "file:///lake/t/data/f.parquet"),
        ("file:///lake/t/data/f.parquet", "/lake/t/data/f.parquet"),
        ("s3a://b/t/data/f.parquet", "s3://b/t/data/f.parquet"),
        ("s3://b/t/data/f.parquet", "s3n://b/t/data/f.parquet"),
        ("s3://b/t//data/f.parquet", "s3://b/t/data/f.parquet"),
    ],
)
def test_a_named_file_stays_however_it_is_spelled(listed: str, named: str) -> None:
    """Java and Python write one place in several ways."""
    facts = replace(FACTS, named=frozenset({normalise_path(named)}))
    assert deletable({listed: 1}, facts) == ()
    assert deletable({f"{listed}x": 1}, facts) == (f"{listed}x",)


def test_files_of_an_unfinished_attempt_stay() -> None:
    """By its name in theirs, wherever a location provider put them and however old they are."""
    facts = replace(FACTS, unfinished={ATTEMPT: 500})
    ours = f"s3://b/t/data/0011/{ATTEMPT}-0-12ab.parquet"
    assert deletable({ours: 1, "s3://b/t/data/other.parquet": 1}, facts) == ("s3://b/t/data/other.parquet",)
    assert deletable({f"s3://b/{ATTEMPT}/data/x.parquet": 1}, facts) != ()


def test_manifests_written_since_an_unfinished_attempt_began_stay() -> None:
    """A process that is stopped for days may yet send the commit it has staged."""
    facts = replace(FACTS, unfinished={ATTEMPT: 500})
    before, since = "file:/lake/t/metadata/a-m0.avro", "file:/lake/t/metadata/snap-1-0-b.avro"
    assert deletable({before: 499, since: 500}, facts) == (before,)
    assert deletable({before: 499, since: 500}, FACTS) == (before, since)


OURS = ("file:///lake/ns/t-1", "s3://b/ns/t-1/elsewhere")


@pytest.mark.parametrize(
    "other",
    ["/lake/ns/t-1", "file:/lake/ns/t-1/inner", "file:///lake/ns", "file:///lake/ns/", "s3a://b/ns/t-1"],
)
def test_another_table_in_at_or_around_ours_is_an_overlap(other: str) -> None:
    """What one table does not name may be the other's."""
    assert overlaps(OURS, {"ns.other": (other,)}) == ("ns.other",)


@pytest.mark.parametrize("other", ["/lake/ns/t-10", "file:///lake/ns/t", "s3://b/ns/t-2", ""])
def test_a_neighbour_is_no_overlap(other: str) -> None:
    """Names that begin alike are different folders."""
    assert overlaps(OURS, {"ns.other": (other,)}) == ()


@pytest.mark.parametrize(
    ("location", "expected"),
    [("/lake/t", True), ("file:///lake/t", True), ("s3://lake/t", False), ("hdfs://host/lake/t", False)],
)
def test_local_locations_are_told_from_others(location: str, expected: bool) -> None:
    """However the local one is spelled."""
    assert is_local(location) is expected
