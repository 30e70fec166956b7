"""What tasks counted is held against what lies in their files before anything is committed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from spark_jobs.drain.write_splits import add_up, verify_offsets
from spark_jobs.protocol.batch import Balance, OutcomeKind, SplitOutcome, Written, WrittenFile
from spark_jobs.protocol.errors import CorruptLog
from tests.support.log_entries import make_batch, written_file


class _SourceAskedError(Exception):
    """Comparing the source comes after the counts."""


class _Admin:
    def source_state(self, topic: str) -> None:
        raise _SourceAskedError(topic)


# A batch of ten offsets; nothing of its run is asked here but the topic's state.
RUN = cast("Any", SimpleNamespace(batch=make_batch(), connections=SimpleNamespace(admin=_Admin())))


def _outcome(
    balance: Balance, data: tuple[WrittenFile, ...], dead_letters: tuple[WrittenFile, ...] = ()
) -> SplitOutcome:
    return SplitOutcome(1, OutcomeKind.WRITTEN, Written(data, dead_letters, {0: balance}))


@pytest.mark.parametrize(
    ("balance", "data_rows", "letter_rows"),
    [
        (Balance(rows=9), (9,), ()),  # an offset nobody accounts for
        (Balance(rows=11), (11,), ()),
        (Balance(rows=10), (9,), ()),  # a row that was counted and is in no file
        (Balance(rows=10), (5, 6), ()),
        (Balance(rows=10), (), ()),
        (Balance(rows=8, dead_letters=2), (8,), (1,)),
        (Balance(rows=8, dead_letters=2), (8,), ()),
        (Balance(rows=8, dead_letters=2), (9,), (1,)),  # as many in all
    ],
)
def test_counts_that_the_files_do_not_bear_out_commit_nothing(
    balance: Balance, data_rows: tuple[int, ...], letter_rows: tuple[int, ...]
) -> None:
    """Every offset is accounted for, and every row and dead letter that was counted is in a file."""
    data = tuple(written_file(f"d{n}", rows=rows) for n, rows in enumerate(data_rows))
    letters = tuple(written_file(f"l{n}", rows=rows) for n, rows in enumerate(letter_rows))
    with pytest.raises(CorruptLog) as caught:
        verify_offsets(RUN, add_up([_outcome(balance, data, letters)], has_strays=False))
    assert caught.value.code == "unbalanced"


def test_counts_that_hold_are_followed_by_a_look_at_the_source() -> None:
    """A batch that balances is compared with the topic it was read from."""
    outcome = _outcome(
        Balance(rows=7, dead_letters=2, gaps=1), (written_file("d", rows=7),), (written_file("l", rows=2),)
    )
    with pytest.raises(_SourceAskedError):
        verify_offsets(RUN, add_up([outcome], has_strays=False))
