"""Rounds never hold too many, never the wrong ones, and never keep the oldest waiting."""

from __future__ import annotations

from dagster import RunRequest
from hypothesis import given
from hypothesis import strategies as st

from orchestration.rounds import ROUND_SIZE, Due, choose_rounds

REQUEST = RunRequest()
DUES = st.lists(st.tuples(st.booleans(), st.floats(0, 1e10)), max_size=100).map(
    lambda each: [Due(f"p{n}", "s", REQUEST, may, since) for n, (may, since) in enumerate(each)]
)


@given(DUES, st.integers(-3, 8))
def test_rounds_are_few_even_and_of_the_oldest(due: list[Due], free: int) -> None:
    """At most ``free`` and no more than hold them, sizes differ by one, nobody younger goes first."""
    rounds = choose_rounds(due, free=free)
    waiting = [each for each in due if each.may_share]
    chosen = [each for members in rounds for each in members]
    sizes = [len(members) for members in rounds]
    assert len({each.pipeline for each in chosen}) == len(chosen)
    assert all(each.may_share for each in chosen)
    assert len(rounds) == max(0, min(free, -(-len(waiting) // ROUND_SIZE)))
    assert len(chosen) == min(len(waiting), len(rounds) * ROUND_SIZE)
    assert not sizes or max(sizes) <= min(ROUND_SIZE, min(sizes) + 1)
    left = [each.waits_since for each in waiting if each not in chosen]
    assert not chosen or not left or max(each.waits_since for each in chosen) <= min(left)
