"""What logs, summaries and books of earlier versions mean by a work's name is what it meant to them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from spark_jobs.protocol import works
from spark_jobs.protocol.offsets import spans_after_drain, spans_after_replay
from spark_jobs.protocol.work import WORKS, Check, Effect, Settler, Touched, work_of

OFFSETS, LETTERS, LOSSES, MANY = Check.OFFSETS, Check.LETTERS, Check.LOSSES, Check.DEAD_LETTERS
# What a commit may have changed, what it tells of offsets, what is checked before it, and its fence.
BY_NAME = {
    "drain": (Touched.ITS_FILES, Effect.EACH, (OFFSETS, MANY), "offsets"),
    "replay": (Touched.ANY, Effect.EACH, (OFFSETS, LOSSES, MANY), "epoch"),
    "redrive": (Touched.ITS_FILES, Effect.SOME, (LETTERS,), "epoch"),
    "rebuild": (Touched.ANY, Effect.EACH, (OFFSETS, MANY), "epoch"),
    "retype": (Touched.ANY, Effect.NOTHING, (OFFSETS, MANY), "epoch"),
    "rollback": (Touched.ANY, Effect.NOTHING, (OFFSETS, MANY), "nothing"),
    "skip": (Touched.NONE, Effect.PASSED_OVER, (OFFSETS, MANY), "nothing"),
    "discard": (Touched.NONE, Effect.PASSED_OVER, (OFFSETS, MANY), "nothing"),
    **dict.fromkeys(
        ("pause", "resume", "accept", "repartition", "cancel", "reanchor"),
        (Touched.NONE, Effect.NOTHING, (OFFSETS, MANY), "nothing"),
    ),
    "of another version": (Touched.ITS_FILES, Effect.NOTHING, (OFFSETS, MANY), "offsets"),
}


def test_no_work_is_left_out() -> None:
    """One that is added says here what its name means from then on."""
    assert works is not None
    assert {*WORKS} == {*BY_NAME} - {"of another version"}


@pytest.mark.parametrize("name", BY_NAME)
def test_a_name_means_what_it_did(name: str) -> None:
    """Also who settles what is left of it, and by which schemas records are read after it."""
    touches, told, checks, fence = BY_NAME[name]
    work = work_of(name)
    assert (work.touches, work.effect, work.checks) == (touches, told, checks)
    assert work.writes_files == (fence != "nothing")
    assert work.settler is (Settler.REPLAY if fence == "epoch" else Settler.DRAIN)
    assert work.asks_anew == (fence != "epoch")
    assert work.spans_after is (spans_after_replay if fence == "epoch" else spans_after_drain)
    assert work.new("told") == ("told" if name == "drain" else None)
    assert work.kept("table") == (None if name == "rebuild" else "table")


@pytest.mark.parametrize("name", BY_NAME)
def test_a_fence_goes_by_its_own_count_and_offsets(name: str) -> None:
    """A grown count closes it, moved offsets only what is not behind those of the table; neither an act."""
    fence, how = work_of(name).fence, BY_NAME[name][-1]

    def table(**counts: int) -> Any:
        return SimpleNamespace(**{"rollbacks": 0, "replay_epoch": 0, "next_offsets": {0: 5}, **counts})

    assert fence.has_closed(table(rollbacks=1), 0, {0: 5}) == (how == "offsets")
    assert fence.has_closed(table(replay_epoch=1), 0, {0: 5}) == (how == "epoch")
    assert fence.has_closed(table(), 0, {0: 4}) == (how != "epoch")
    assert not fence.has_closed(table(), 0, {0: 6})
    assert fence.is_next(table(), 0, {0: 5}) == (how != "epoch")
    assert not fence.is_next(table(), 0, {0: 4})
