"""Empty commits that change progress only: an operator's acts and upkeep's re-anchoring."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from spark_jobs.commit.anchor import check_anchor
from spark_jobs.lake.tables import progress_of
from spark_jobs.protocol.batch import Pause
from spark_jobs.protocol.errors import SourceChanged
from tests.support.lake import Once

if TYPE_CHECKING:
    from spark_jobs.protocol.progress import Progress
    from tests.support.lake import Lake

PAUSE = Pause("a new format", "ann", 7)


def _pause(progress: Progress) -> Progress:
    return replace(progress, paused=PAUSE)


def test_an_act_changes_progress_and_nothing_else(lake: Lake) -> None:
    """The rows and offsets stay, the snapshot says what it was, and drains go on from there."""
    lake.make_table()
    lake.drain(0, 10)
    committed = lake.act(_pause)
    table = lake.load()
    assert progress_of(table).paused == PAUSE
    assert progress_of(table).next_offsets == {0: 10}
    assert table.metadata.current_snapshot_id == committed.snapshot_id
    summary = table.current_snapshot().summary.additional_properties
    assert (summary["sluice.kind"], summary["sluice.next-offsets"]) == ("pause", '{"0": 10}')
    check_anchor(table)
    lake.drain(10, 20)
    assert progress_of(lake.load()).paused == PAUSE
    assert lake.offsets() == list(range(20))


def test_an_act_that_loses_to_a_drain_keeps_what_the_drain_did(lake: Lake) -> None:
    """The change is asked again on the table the drain left."""
    lake.make_table()
    lake.act(_pause, Once("act.before-swap", lambda: lake.drain(0, 10)))
    progress = progress_of(lake.load())
    assert progress.paused == PAUSE
    assert progress.next_offsets == {0: 10}
    assert lake.offsets() == list(range(10))


def test_nothing_of_ours_lands_on_a_rollback_it_did_not_see(lake_with_history: Lake) -> None:
    """Another tool sets main back before the swap: the commit would have become the anchor and hidden it."""
    lake = lake_with_history
    lake.make_table()
    first = lake.drain(0, 10)
    lake.drain(10, 20)

    def roll_back() -> None:
        with lake.load().manage_snapshots() as manage:
            manage.create_branch(first.snapshot_id, "main")

    with pytest.raises(SourceChanged) as drained:
        lake.commit(lake.request(20, 30), before_swap=roll_back)
    assert drained.value.code == "table-rolled-back"
    with pytest.raises(SourceChanged) as acted:
        lake.act(_pause)
    assert acted.value.code == "table-rolled-back"
    assert lake.load().metadata.current_snapshot_id == first.snapshot_id
