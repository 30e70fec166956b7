"""Whatever comes, is drained, undone, let go of or held: an answer is exactly the records below its ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import event, given
from hypothesis import strategies as st

from spark_jobs.hot.segment import SMALL_ROWS, Segment, Share, Tail, merged, shares_of
from spark_jobs.hot.watermark import Epoch
from spark_jobs.schema.iceberg_types import OFFSET

# What an offset holds: a row, a dead letter, a tombstone, a record that a filter leaves out, a marker.
KINDS = "rlfmrrrt"


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[str, Any]]:
    """Mostly records and commits that end inside what came at once: that is where a seam can go wrong."""
    came = st.tuples(st.just("append"), st.text(KINDS, min_size=2, max_size=7))
    drained = st.tuples(st.just("drain"), st.integers(1, 5))
    others = st.one_of(
        st.tuples(st.just("rollback"), st.integers(1, 6)),
        st.tuples(st.just("bump"), st.none()),
        st.tuples(st.just("overtake"), st.text(KINDS, min_size=1, max_size=4)),
        st.tuples(st.just("forget"), st.none()),
    )
    rounds = st.tuples(came, drained, st.one_of(came, drained, others))
    return [step for steps in draw(st.lists(rounds, min_size=2, max_size=8)) for step in steps]


@dataclass
class World:
    """A topic of one partition, every state of the table that somebody may still have, and a tail."""

    log: str = ""
    seam: int = 0
    generation: int = 1
    rollbacks: int = 0
    tail: Tail = field(default_factory=lambda: Tail.at(Epoch("u", "t1", 1, 0), 0, 0))
    states: list[tuple[Epoch, int]] = field(default_factory=list)

    @property
    def epoch(self) -> Epoch:
        return Epoch("u", f"t{self.generation}", self.generation, self.rollbacks)

    def append(self, kinds: str) -> None:
        """Records come, and the tail has caught up."""
        self.log += kinds
        missing = self.log[self.tail.end :]
        if missing.strip("m"):
            self.tail = self.tail.append(_segment(self.epoch, self.tail.end, missing))
        self.tail = self.tail.up_to(len(self.log))

    def overtake(self, kinds: str) -> None:
        """The tail is slow; a drain takes all there is."""
        self.log += kinds
        self._stand_at(len(self.log))

    def drain(self, offsets: int) -> None:
        self._stand_at(min(len(self.log), self.seam + offsets))

    def rollback(self, offsets: int) -> None:
        self.rollbacks += 1
        self._stand_at(max(0, self.seam - offsets))

    def bump(self, _: None) -> None:
        self.generation, self.log = self.generation + 1, ""
        self._stand_at(0)

    def forget(self, _: None) -> None:
        """Another process begins, at the seam, before it has read anything."""
        self.tail = Tail.at(self.epoch, 0, self.seam)

    def _stand_at(self, seam: int) -> None:
        self.seam = seam
        is_another = self.tail.epoch != self.epoch
        self.tail = Tail.at(self.epoch, 0, seam) if is_another else self.tail.covered(seam)
        self.states.append((self.epoch, seam))

    def ask(self, until: int | None = None, state: tuple[Epoch, int] | None = None) -> Share:
        epoch, seam = state or (self.epoch, self.seam)
        ends = None if until is None else {0: until}
        (share,) = shares_of(epoch, {0: 0}, {0: seam}, {0: self.tail}, ends)
        return share


@given(histories(), st.data())
def test_an_answer_is_exactly_the_records_below_its_end(history: Sequence[Any], data: st.DataObject) -> None:
    """The lake's below the seam and the tail's from there on; nothing past the end, nothing twice."""
    world = World()
    held: list[tuple[Share, str]] = []
    logs: dict[int, str] = {}
    for step, detail in history:
        getattr(world, step)(detail)
        logs[world.generation] = world.log
        until = data.draw(st.none() | st.integers(0, len(world.log)), label="until")
        share = world.ask(until)
        held.append((share, world.log))
        assert share.end >= min(world.seam, len(world.log) if until is None else until)
        if world.tail.end == len(world.log):
            assert share.end == (len(world.log) if until is None else until)
        if any(s.start < share.seam < s.end for s in world.tail.segments):
            event("the seam lies inside a segment")
        # Who loaded the table some commits ago has the same right.
        held += [(world.ask(state=state), logs[state[0].generation]) for state in world.states]
        for old, log in held:
            _check(old, log)


def test_the_seam_may_lie_where_no_record_is() -> None:
    """Before a marker, which stands between two segments: the second one still goes on from there."""
    world = World()
    world.append("rrm")
    world.append("rr")
    world.drain(2)
    assert world.ask().end == 5


@given(st.text(KINDS, min_size=1, max_size=12), st.data())
def test_what_is_let_go_is_what_the_table_has(kinds: str, data: st.DataObject) -> None:
    """All that it has whole, and nothing else."""
    world = World()
    for first in range(0, len(kinds), 3):
        world.append(kinds[first : first + 3])
    before = world.tail
    world.drain(data.draw(st.integers(1, len(kinds)), label="drained"))
    assert all(segment.end > world.seam for segment in world.tail.segments)
    gone = [segment for segment in before.segments if segment not in world.tail.segments]
    assert all(segment.end <= world.seam for segment in gone)


@given(st.lists(st.text("rlftr", min_size=1, max_size=3), min_size=8, max_size=80))
def test_small_segments_become_few_and_hold_the_same(came: Sequence[str]) -> None:
    """Every record once, in order, wherever segments were merged."""
    world = World()
    for kinds in came:
        world.append(kinds)
    _check(world.ask(), world.log)
    assert len(world.tail.segments) < 8 + len(world.log) / 16


def test_a_large_segment_has_dictionaries_for_what_repeats_four_times_and_holds_the_same() -> None:
    """Also where what repeats comes last."""
    count = 4 * SMALL_ROWS
    distinct = {"few": 5, "most": count // 4 - 1, "many": count // 4, "all": count}
    columns = {name: [f"{min(n, most - 1)}" for n in range(count)] for name, most in distinct.items()}
    rows = pa.table({OFFSET: range(count), **columns})
    one = merged([Segment(Epoch("u", "t", 1, 0), 0, 0, count, rows, rows[:0])]).rows
    assert [name for name in distinct if pa.types.is_dictionary(one.schema.field(name).type)] == [
        "few",
        "most",
    ]
    assert one.to_pydict() == rows.to_pydict()


def _segment(epoch: Epoch, start: int, kinds: str) -> Segment:
    """What records of these kinds come to; the segment ends behind the last one."""
    at = {kind: [start + i for i, k in enumerate(kinds) if k == kind] for kind in set(KINDS)}
    rows, letters = ({"_kafka_offset": pa.array(at[kind], pa.int64())} for kind in "rl")
    counted = (np.array(at[kind], np.int64) for kind in "tf")
    end = max((i for i, kind in enumerate(kinds) if kind != "m"), default=-1) + 1
    return Segment(epoch, 0, start, start + end, pa.table(rows), pa.table(letters), *counted)


def _offsets(share: Share) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {kind: [] for kind in "rltf"}
    for each in share.segments:
        for kind, table in (("r", each.rows), ("l", each.dead_letters)):
            found[kind] += table.column("_kafka_offset").to_pylist()
        found["t"] += each.tombstones.tolist()
        found["f"] += each.filtered.tolist()
    return found


def _check(share: Share, log: str) -> None:
    assert 0 <= share.start <= share.seam <= share.end <= len(log)
    expected = {kind: [o for o in range(share.seam, share.end) if log[o] == kind] for kind in "rltf"}
    assert _offsets(share) == expected
    assert share.hot_rows == len(expected["r"])
