"""Halving: the record to blame is found whatever the ranges, in as few runs as promised."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.drain.planning import first_half, rest, resumed
from spark_jobs.protocol.offsets import OffsetRange, OffsetRanges

if TYPE_CHECKING:
    from collections.abc import Iterator


@st.composite
def _ranges(draw: st.DrawFn) -> OffsetRanges:
    lengths = draw(st.dictionaries(st.integers(0, 9), st.integers(0, 5000), min_size=1, max_size=6))
    starts = {partition: draw(st.integers(0, 10**12)) for partition in lengths}
    return OffsetRanges.of(
        OffsetRange(partition, starts[partition], starts[partition] + length)
        for partition, length in lengths.items()
    )


def _offsets(ranges: OffsetRanges) -> list[tuple[int, int]]:
    return [(r.partition, offset) for r in ranges for offset in range(r.start, r.end)]


def _tries(suspects: OffsetRanges, poison: tuple[int, int]) -> Iterator[tuple[OffsetRanges, bool]]:
    """What is run after ``suspects`` died, and whether it dies too, until one record does."""
    while suspects.records > 1:
        tried = first_half(suspects)
        dies = poison in _offsets(tried)
        yield tried, dies
        suspects = tried if dies else rest(suspects, tried)
    yield suspects, poison in _offsets(suspects)


@given(_ranges())
def test_the_first_half_and_the_rest_are_the_whole(suspects: OffsetRanges) -> None:
    """No offset is left out or tried twice, each half begins where its partition stands, none is empty."""
    tried = first_half(suspects)
    left = rest(suspects, tried)
    assert sorted(_offsets(tried) + _offsets(left)) == _offsets(suspects)
    assert tried.records == (max(1, suspects.records // 2) if suspects else 0)
    assert all(len(r) for ranges in (tried, left) for r in ranges)
    assert all(suspects.starts[p] == start for p, start in tried.starts.items())


@given(st.data())
def test_the_poison_is_found_and_all_before_it_is_committed(data: st.DataObject) -> None:
    """In at most log2 runs, and what landed is the offsets before it when the ranges are laid end to end."""
    suspects = data.draw(_ranges().filter(bool))
    offsets = _offsets(suspects)
    poison = data.draw(st.sampled_from(offsets))
    tries = list(_tries(suspects, poison))
    *_, (last, dies) = tries
    assert dies
    assert _offsets(last) == [poison]
    assert len(tries) <= suspects.records.bit_length() + 1
    landed = [offset for tried, died in tries if not died for offset in _offsets(tried)]
    assert landed == offsets[: offsets.index(poison)]


@given(st.data(), st.integers(2, 5))
def test_runs_that_end_too_early_name_the_poison_between_them(data: st.DataObject, tries_a_run: int) -> None:
    """Each is cut off after a few tries and finds more behind it: they go on where the last one was."""
    suspects = data.draw(_ranges().filter(bool))
    poison = data.draw(st.sampled_from(_offsets(suspects)))
    starts, ends = suspects.starts, suspects.ends
    unfinished: list[OffsetRanges] = []
    for run in range(2 * suspects.records.bit_length() ** 2):
        backlog = OffsetRanges.of(
            OffsetRange(p, starts[p], end + run * (p == poison[0])) for p, end in ends.items()
        )
        first = resumed(backlog, unfinished)
        tries = [(first, True), *_tries(first, poison)] if poison in _offsets(first) else [(first, False)]
        for ranges, dies in tries[:tries_a_run]:
            if not dies:
                starts |= ranges.ends
            elif ranges.records == 1:
                return
            else:
                unfinished.append(ranges)
    raise AssertionError(f"{poison} was not named in {len(unfinished)} tries")


@given(st.lists(st.integers(2, 5000), min_size=1, max_size=5))
def test_a_backlog_that_only_grew_was_not_halved(backlogs: list[int]) -> None:
    """Runs that were killed at an ever larger backlog make no later batch smaller."""
    *killed, now = (OffsetRanges((OffsetRange(0, 7, 7 + n),)) for n in sorted(backlogs))
    assert resumed(now, killed) == now
