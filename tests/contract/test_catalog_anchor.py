"""Before any work, main must be what the last commit left, or descend from it by harmless snapshots."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from spark_jobs.acts.changes import skip_ranges
from spark_jobs.commit.anchor import check_anchor, check_properties
from spark_jobs.protocol.errors import CorruptLog, SourceChanged
from spark_jobs.protocol.offsets import OffsetRanges
from spark_jobs.protocol.progress import (
    LAST_COMMITS_KEPT,
    PROPERTY_OFFSETS,
    PendingDeadLetters,
)

if TYPE_CHECKING:
    from tests.support.lake import Lake


def _keep_only_main(lake: Lake, name: str = "t") -> None:
    table = lake.load(name)
    ids = [
        s.snapshot_id for s in table.metadata.snapshots if s.snapshot_id != table.metadata.current_snapshot_id
    ]
    table.maintenance.expire_snapshots().by_ids(ids).commit()


def _roll_back(lake: Lake, snapshot_id: int) -> None:
    with lake.load().manage_snapshots() as manage:
        manage.create_branch(snapshot_id, "main")


def _code(lake: Lake) -> str:
    with pytest.raises(SourceChanged) as caught:
        check_anchor(lake.load())
    return caught.value.code


def test_our_own_commits_are_fine(lake: Lake) -> None:
    """A new table, one with rows, one whose last commit had no files."""
    check_anchor(lake.make_table())
    lake.drain(0, 10)
    check_anchor(lake.load())
    lake.drain(10, 20, files=False)
    check_anchor(lake.load())


def test_compaction_is_fine(lake: Lake) -> None:
    """``replace`` keeps the rows; where no history is shown, the files' bounds say so."""
    lake.make_table()
    lake.drain(0, 10)
    lake.drain(0, 5, partition=1)
    lake.compact()
    check_anchor(lake.load())


def test_compaction_and_expiry_are_fine(lake_with_history: Lake) -> None:
    """The chain to the anchor is cut; a row of the last commit is there."""
    lake = lake_with_history
    lake.make_table()
    lake.drain(0, 10)
    lake.compact()
    _keep_only_main(lake)
    check_anchor(lake.load())


def test_an_act_leaves_no_row_to_look_for(sqlite_lake: Lake) -> None:
    """Where the chain is cut, the trace that is looked for is the last drain's, not the act's."""
    lake = sqlite_lake
    lake.make_table()
    lake.drain(0, 10)
    lake.act(lambda progress: progress)
    lake.compact()
    _keep_only_main(lake)
    check_anchor(lake.load())


def test_foreign_rows_are_an_error(lake: Lake) -> None:
    """Another writer's append or delete makes every count wrong."""
    lake.make_table()
    lake.drain(0, 10)
    lake.load().append(lake.load().scan().to_arrow())
    assert _code(lake) == "table-rewritten"


def test_an_overwrite_is_an_error(lake: Lake) -> None:
    """It keeps the properties, so the offsets look right."""
    lake.make_table()
    lake.drain(0, 10)
    lake.load().delete("id < 5")
    assert _code(lake) == "table-rewritten"


def test_a_rollback_is_an_error(lake_with_history: Lake) -> None:
    """Main before the anchor, properties past it."""
    lake = lake_with_history
    lake.make_table()
    first = lake.drain(0, 10)
    lake.drain(10, 20)
    _roll_back(lake, first.snapshot_id)
    assert _code(lake) == "table-rolled-back"


def test_a_rollback_hidden_by_compaction_and_expiry_is_an_error(lake_with_history: Lake) -> None:
    """No ancestor is left to ask; that no row of the last commit is there gives it away."""
    lake = lake_with_history
    lake.make_table()
    first = lake.drain(0, 10)
    lake.drain(10, 20)
    _roll_back(lake, first.snapshot_id)
    lake.compact()
    _keep_only_main(lake)
    assert _code(lake) == "table-rolled-back"


@pytest.mark.parametrize("is_kept", [True, False])
def test_a_hidden_rollback_is_an_error_however_long_ago_the_last_drain_was(
    sqlite_lake: Lake, is_kept: bool
) -> None:
    """Acts and replays took all places among the last commits; an alarm where nobody knows its offsets."""
    lake = sqlite_lake
    lake.make_table()
    first = lake.drain(0, 10)
    lake.drain(10, 20)
    for _ in range(LAST_COMMITS_KEPT):
        lake.act(lambda progress: progress if is_kept else replace(progress, last_drain_offsets=None))
    _roll_back(lake, first.snapshot_id)
    lake.compact()
    _keep_only_main(lake)
    assert _code(lake) == "table-rolled-back"


def test_a_dead_letter_table_is_not_asked_for_drains_without_dead_letters(sqlite_lake: Lake) -> None:
    """What a later replay or rollback took away there is no sign of anything."""
    lake = sqlite_lake
    lake.make_table()
    lake.drain(0, 10, dead_letters=[3])
    lake.drain(10, 20)
    owed = PendingDeadLetters("a-replay", OffsetRanges.between({0: 0}, {0: 10}), (), replaces=True)
    lake.act(lambda p: replace(p, replay_epoch=p.replay_epoch + 1, pending_dead_letters=owed))
    lake.act(lambda progress: progress)
    lake.compact("t_dead_letters")
    _keep_only_main(lake, "t_dead_letters")
    check_anchor(lake.load("t_dead_letters"))


def test_acts_on_a_table_that_drained_nothing_leave_nothing_to_look_for(sqlite_lake: Lake) -> None:
    """Offsets that an operator left out have no rows."""
    lake = sqlite_lake
    lake.make_table()
    skipped = OffsetRanges.between({0: 0}, {0: 5})
    lake.act(lambda progress: skip_ranges(progress, skipped, "lost"))
    lake.compact()
    _keep_only_main(lake)
    check_anchor(lake.load())


def test_rows_past_the_offsets_are_an_error(sqlite_lake: Lake) -> None:
    """Properties set back by hand: the next drain would double what is there."""
    lake = sqlite_lake
    lake.make_table()
    lake.drain(0, 10)
    properties = dict(lake.load().properties)
    lake.drain(10, 20)
    with lake.load().transaction() as transaction:
        transaction.set_properties({k: v for k, v in properties.items() if k.startswith("sluice.")})
    lake.compact()
    _keep_only_main(lake)
    assert _code(lake) == "table-rolled-back"


@pytest.mark.parametrize("moved", [-3, 3])
def test_offsets_set_by_hand_are_an_error(sqlite_lake: Lake, moved: int) -> None:
    """Set back, rows would come twice; forward, rows would be left out and unfinished files swept."""
    lake = sqlite_lake
    lake.make_table()
    lake.drain(0, 10)
    document = json.loads(lake.load().properties[PROPERTY_OFFSETS])
    (generations,) = document.values()
    next(iter(generations.values()))["0"] += moved
    with lake.load().transaction() as transaction:
        transaction.set_properties({PROPERTY_OFFSETS: json.dumps(document)})
    for check in (check_anchor, check_properties):
        with pytest.raises(CorruptLog) as caught:
            check(lake.load())
        assert caught.value.code == "damaged-progress"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("sluice.pending-dead-letters", "null"),
        ("sluice.replay-epoch", "0"),
        ("sluice.rollbacks", "3"),
        ("sluice.last-commits", "[]"),
        ("sluice.leader-epochs", '{"0":[10,99]}'),
        ("sluice.topic-id", None),
    ],
)
def test_any_property_set_by_hand_is_an_error(sqlite_lake: Lake, name: str, value: str | None) -> None:
    """Each reads well and is not what was committed: owed dead letters would be forgotten, and swept."""
    lake = sqlite_lake
    lake.make_table()
    lake.drain(0, 10)
    owed = PendingDeadLetters("a", OffsetRanges.between({0: 0}, {0: 10}), ())
    lake.act(lambda progress: replace(progress, replay_epoch=1, pending_dead_letters=owed))
    check_properties(lake.load())
    with lake.load().transaction() as transaction:
        if value is None:
            transaction.remove_properties(name)
        else:
            transaction.set_properties({name: value})
    for check in (check_anchor, check_properties):
        with pytest.raises(CorruptLog) as caught:
            check(lake.load())
        assert caught.value.code == "damaged-progress"


def test_properties_put_back_are_what_they_were(sqlite_lake: Lake) -> None:
    """However a person spaces and orders them."""
    lake = sqlite_lake
    lake.make_table()
    lake.drain(0, 10)
    ours = json.loads(lake.load().properties[PROPERTY_OFFSETS])
    with lake.load().transaction() as transaction:
        transaction.set_properties({PROPERTY_OFFSETS: json.dumps(ours, indent=2)})
    check_properties(lake.load())


def test_a_commit_without_a_digest_is_believed(sqlite_lake: Lake) -> None:
    """Versions before there was one wrote none: their tables go on."""
    lake = sqlite_lake
    lake.make_table()
    said = {"sluice.generation": "0", "sluice.next-offsets": '{"0":0}'}
    with lake.load().transaction() as transaction:
        with transaction.update_snapshot(snapshot_properties=said).fast_append():
            pass
        transaction.set_properties({"sluice.rollbacks": "3"})
    check_properties(lake.load())


def test_properties_of_an_earlier_commit_are_an_error(sqlite_lake: Lake) -> None:
    """All of them set back together, the anchor too: a later commit of ours is on main."""
    lake = sqlite_lake
    lake.make_table()
    lake.drain(0, 10)
    properties = dict(lake.load().properties)
    lake.drain(10, 20)
    with lake.load().transaction() as transaction:
        transaction.set_properties({k: v for k, v in properties.items() if k.startswith("sluice.")})
    with pytest.raises(CorruptLog):
        check_anchor(lake.load())
