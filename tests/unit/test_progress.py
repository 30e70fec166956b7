"""A table's progress as table properties, there and back."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.acts.changes import follow_source
from spark_jobs.protocol import progress as progress_module
from spark_jobs.protocol.batch import Batch, Pause, WrittenFile
from spark_jobs.protocol.cdc import Cdc, Position
from spark_jobs.protocol.errors import CorruptLog
from spark_jobs.protocol.offsets import NO_RANGES, OffsetRange, OffsetRanges
from spark_jobs.protocol.progress import (
    LAST_COMMITS_KEPT,
    PROPERTY_FORMAT_VERSION,
    PROPERTY_OFFSETS,
    CommitRecord,
    LastDrain,
    PendingDeadLetters,
    PendingRoutes,
    Progress,
    has_progress,
    progress_from_properties,
)
from spark_jobs.protocol.source import SourceState, has_other_ids
from tests.support.log_entries import written_file

OFFSETS = st.dictionaries(st.integers(0, 500), st.integers(0, 2**62), max_size=5)
NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)
RANGES = st.dictionaries(
    st.integers(0, 500), st.tuples(st.integers(0, 2**62), st.integers(0, 2**31)), max_size=5
).map(lambda spans: OffsetRanges.of(OffsetRange(p, start, start + n) for p, (start, n) in spans.items()))
COMMITS = st.builds(CommitRecord, NAMES, RANGES)
FILES = st.lists(st.builds(WrittenFile), max_size=2).map(tuple)
PROGRESS = st.builds(
    Progress,
    topic=NAMES,
    generation=st.just(7),
    next_offsets=OFFSETS,
    cluster_id=st.none() | NAMES,
    topic_id=st.none() | NAMES,
    earlier=st.dictionaries(st.integers(1, 6), OFFSETS, max_size=3),
    last_commits=st.lists(COMMITS, max_size=3).map(tuple),
    anchor=st.none() | st.integers(0, 2**62),
    pending_dead_letters=st.none() | st.builds(PendingDeadLetters, NAMES, RANGES, FILES, st.booleans()),
    starts=OFFSETS,
    last_drain=st.none() | st.builds(LastDrain),
    replay_epoch=st.integers(0, 2**40),
    paused=st.none() | st.builds(Pause),
    compacted_files=st.integers(0, 2**40),
    leader_epochs=st.dictionaries(
        st.integers(0, 500), st.tuples(st.integers(0, 2**62), st.integers(0, 2**31)), max_size=3
    ),
    routes=st.lists(NAMES, max_size=3).map(tuple),
    owed_routes=st.none()
    | st.builds(PendingRoutes, NAMES, RANGES, st.dictionaries(NAMES, FILES, max_size=2), st.booleans()),
    routed_from=st.none() | NAMES,
)


@given(PROGRESS)
def test_progress_survives_its_properties(progress: Progress) -> None:
    """Whatever it holds; every value is a string, as catalogs want."""
    properties = progress.to_properties()
    assert all(type(value) is str for value in properties.values())
    assert has_progress(properties)
    assert progress_from_properties(properties, table="a.b") == progress


@dataclass(frozen=True, slots=True)
class Freeze:
    """What a table would remember of an act that there is not."""

    partitions: tuple[int, ...]
    actor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WithFreeze(Progress):
    """A progress with one more declaration, as ``ActState`` would get it."""

    frozen_for: dict[int, Freeze] = field(default_factory=dict)


def test_what_a_table_remembers_of_an_act_is_one_declaration(monkeypatch: pytest.MonkeyPatch) -> None:
    """A field is written under its name, read back and checked; a table without it has its default."""
    monkeypatch.setattr(progress_module, "_codecs", cache(progress_module._codecs.__wrapped__))
    monkeypatch.setattr(progress_module, "Progress", WithFreeze)
    told = WithFreeze(
        topic="orders", generation=1, next_offsets={0: 5}, frozen_for={3: Freeze((1, 2), "ann")}
    )
    properties = told.to_properties()
    before = {name: text for name, text in properties.items() if name != "sluice.frozen-for"}
    assert properties["sluice.frozen-for"] == '{"3":{"actor":"ann","partitions":[1,2]}}'
    assert progress_from_properties(properties, table="a.b") == told
    without = progress_from_properties(before, table="a.b")
    assert without == WithFreeze(topic="orders", generation=1, next_offsets={0: 5})
    with pytest.raises(CorruptLog, match=r"3\.actor"):
        progress_from_properties({**properties, "sluice.frozen-for": '{"3":{"partitions":[1]}}'}, table="a.b")


def _batch(attempt: str, start: int, end: int) -> Batch:
    ranges = OffsetRanges.of([OffsetRange(0, start, end)])
    return Batch("orders", "shop.orders", "orders", 1, ranges, attempt, 0)


def test_a_batch_moves_its_partitions_and_is_remembered() -> None:
    """Partitions it does not cover stay, dead letters it owes are named, those paid before are forgotten."""
    batch, earlier = _batch("b", 5, 9), _batch("a", 0, 5)
    owed = PendingDeadLetters("b", batch.ranges, (written_file("x"),))
    before = Progress("orders", 1, {0: 5, 3: 1}, last_commits=(CommitRecord("a", earlier.ranges),))
    after = before.after_batch(batch, owed)
    assert after.next_offsets == {0: 9, 3: 1}
    assert after.last_commits == (CommitRecord("a", NO_RANGES), CommitRecord("b", batch.ranges))
    assert (after.ranges_of("b"), after.ranges_of("c")) == (batch.ranges, NO_RANGES)
    assert after.has_landed("a")
    assert after.has_landed("b")
    assert not after.has_landed("c")
    assert after.pending_dead_letters == owed
    assert after.after_batch(_batch("c", 9, 10), None).pending_dead_letters is None


def test_a_batch_leaves_word_of_the_leaders_it_was_planned_under() -> None:
    """With the offset it is true of; partitions that it does not cover keep theirs."""
    before = Progress("orders", 1, {0: 5, 3: 1}, leader_epochs={0: (5, 2), 3: (1, 2)})
    batch = replace(_batch("b", 5, 9), leader_epochs={0: 4})
    assert before.after_batch(batch, None).leader_epochs == {0: (9, 4), 3: (1, 2)}
    assert before.after_batch(_batch("b", 5, 9), None).leader_epochs == before.leader_epochs


def test_a_batch_of_another_source_leaves_no_word_of_its_leaders() -> None:
    """It was planned before the table followed its topic elsewhere, and lands after."""
    before = Progress("orders", 1, {0: 5}, cluster_id="new", topic_id="t")
    batch = replace(_batch("b", 5, 9), leader_epochs={0: 4}, cluster_id="old", topic_id="t")
    assert before.after_batch(batch, None).leader_epochs == {}
    assert before.after_batch(replace(batch, cluster_id="new"), None).leader_epochs == {0: (9, 4)}


def test_ids_that_a_table_was_born_without_are_those_of_the_first_batch_that_has_them() -> None:
    """The broker was upgraded, or lets its cluster be described; from then on another source is noticed."""
    batch = replace(_batch("b", 5, 9), cluster_id="c", topic_id="t")
    learned = Progress("orders", 1, {0: 5}, cluster_id="old").after_batch(batch, None)
    assert (learned.cluster_id, learned.topic_id) == ("old", "t")
    assert learned.after_batch(_batch("d", 9, 10), None).topic_id == "t"
    assert has_other_ids(learned, replace(batch, cluster_id="old", topic_id="made anew"))


def test_another_source_has_other_leaders() -> None:
    """An accepted topic or cluster is not judged by what the one before counted, even at the same offsets."""
    before = Progress("orders", 1, {0: 5}, leader_epochs={0: (5, 2)})
    source = SourceState("orders", "t", "c", {0: 0}, {0: 9}, {0: 0})
    assert follow_source(before, source, None).leader_epochs == {}
    assert follow_source(before, source, {0: 5}).leader_epochs == {}


def test_a_mirrors_next_generation_has_neither_positions_nor_beginnings_of_the_last() -> None:
    """Offsets are counted anew, another log's positions say nothing of its own: it is a restart too."""
    cdc = Cdc(("id",), {0: Position(9, 9)}, 8, {0: 400})
    before = Progress("orders", 1, {0: 500}, starts={0: 100}, cdc=cdc)
    source = SourceState("orders", "t", "c", {0: 0}, {0: 9}, {0: 0})
    assert follow_source(before, source, None).cdc == cdc
    after = follow_source(before, source, {0: 5})
    assert (before.first_offsets, after.first_offsets) == ({0: 400}, {0: 5})
    assert after.cdc == Cdc(("id",), restarts=({0: 5},))


def test_only_the_last_commits_are_kept() -> None:
    """The properties do not grow with the table's age."""
    progress = Progress("orders", 1, {})
    for n in range(3 * LAST_COMMITS_KEPT):
        progress = progress.after_batch(_batch(f"attempt-{n}", n, n + 1), None)
    attempts = [commit.attempt for commit in progress.last_commits]
    assert attempts == [f"attempt-{n}" for n in range(2 * LAST_COMMITS_KEPT, 3 * LAST_COMMITS_KEPT)]


def test_the_offsets_of_the_last_drain_are_known_however_long_ago_it_was() -> None:
    """Also after acts; of an earlier version's table as long as they stand among the last commits."""
    last = LastDrain("b", 0, 4, 0, None)
    drained = Progress("orders", 1, {0: 5}).after_batch(_batch("b", 5, 9), None, last)
    later = drained.with_attempt("act").with_attempt("another")
    assert later.last_drained() == drained.last_drained() == _batch("b", 5, 9).ranges
    earlier = replace(drained, last_drain_offsets=None)
    assert (earlier.last_drained(), earlier.with_attempt("act").last_drained()) == (
        drained.last_drained(),
        NO_RANGES,
    )
    overtaken = replace(drained.with_attempt("c"), last_drain=replace(last, attempt="c"))
    assert overtaken.last_drained() == NO_RANGES


def test_properties_of_many_partitions_stay_small() -> None:
    """Every commit writes them, and gateways refuse requests of a megabyte."""
    partitions = range(1000)
    starts, ends = dict.fromkeys(partitions, 1_234_567_890), dict.fromkeys(partitions, 1_234_667_890)
    ranges = OffsetRanges.between(starts, ends)
    progress = Progress("orders", 1, starts, starts=dict.fromkeys(partitions, 0))
    for number in range(LAST_COMMITS_KEPT):
        attempt = f"{number:036}"
        batch = replace(_batch(attempt, 0, 1), ranges=ranges, leader_epochs=dict.fromkeys(partitions, 12))
        owed = PendingDeadLetters(attempt, ranges, (written_file("x"),))
        progress = progress.after_batch(batch, owed, LastDrain(attempt, 0, 1, 1, 1))
    assert sum(map(len, progress.to_properties().values())) <= 150 * 1024


def test_a_newer_format_and_damage_are_named() -> None:
    """Never read as if nothing had been drained yet."""
    good = replace(Progress("orders", 1, {0: 1}), anchor=3).to_properties()
    assert not has_progress({})
    for version in ("6", "", "x"):
        with pytest.raises(CorruptLog) as caught:
            progress_from_properties({**good, PROPERTY_FORMAT_VERSION: version}, table="a.b")
        assert caught.value.code == "newer-format"
    for damaged in ("", "[]", "{}", json.dumps({"orders": {}}), json.dumps({"orders": {"1": {"0": "x"}}})):
        with pytest.raises(CorruptLog) as caught:
            progress_from_properties({**good, PROPERTY_OFFSETS: damaged}, table="a.b")
        assert caught.value.code == "damaged-progress"
        assert caught.value.where == {"table": "a.b"}
    without = {key: value for key, value in good.items() if key != PROPERTY_OFFSETS}
    with pytest.raises(CorruptLog, match="damaged-progress"):
        progress_from_properties(without, table="a.b")
