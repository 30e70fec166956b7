"""Hostile lakes: another engine does something to the table between a crash and the restart.

The other engine is PyIceberg as anybody may use it.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from pyiceberg.expressions import AlwaysTrue
from pyiceberg.table.update import SetSnapshotRefUpdate

from prove.hostile.case import (
    ADOPTED,
    Case,
    Told,
    changed,
    drained,
    interrupted,
    other_engine,
    put_right,
    refused,
)
from prove.lab.fault_proxy import Fault, is_table_commit
from prove.stage import BATCH, REST, SQLITE
from spark_jobs.acts.rollback import rollback

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyiceberg.table import Table

    from prove.scenario import Scenario
    from prove.stage import Play

GROUP = "a table changed by others between a crash and the restart"
NAMED = "a named error and no commit; put back, the dead run's files are committed"
NAMED_THEN_BACK = "a named error and no commit; rolled back to what we committed, all is there"
QUICK = frozenset({"rolled-back"})


def hostile_lakes() -> Iterator[Scenario]:
    """Every case, in the report's order."""
    yield REFUSED_AFTER_LANDING.scenario(GROUP)
    for catalog in (SQLITE, REST):
        for case in CASES:
            there = replace(case, name=f"lake/{case.name}", catalog=catalog)
            yield there.scenario(GROUP, is_quick=catalog == SQLITE and case.name in QUICK)


def _dropped(play: Play) -> Told:
    interrupted(play)
    table, dead_letters = play.lab.tables
    with other_engine(play) as catalog:
        catalog.drop_table(table)
    ended = refused(play, "dead-letters-of-another-table")
    with other_engine(play) as catalog:
        catalog.drop_table(dead_letters)
    return put_right(ended, play)


def _renamed(play: Play) -> Told:
    interrupted(play)
    name = play.lab.pipeline.table
    with other_engine(play) as catalog:
        catalog.rename_table(name, f"{name}_kept")
    ended = refused(play, "dead-letters-of-another-table")
    with other_engine(play) as catalog:
        catalog.rename_table(f"{name}_kept", name)
    return put_right(ended, play)


def _rolled_back(play: Play) -> Told:
    first, _last = _set_back(play)
    ended = refused(play, "table-rolled-back")
    _roll_back(play, first)
    return put_right(ended, play)


def _rolled_back_and_forth(play: Play) -> Told:
    _first, last = _set_back(play)
    ended = refused(play, "table-rolled-back")
    _set_main(play, last)
    return put_right(ended, play)


def _set_back(play: Play) -> tuple[int, int]:
    """Main is set to the snapshot before the last commit; that one's id and the last commit's."""
    drained(play)
    interrupted(play)
    last = play.lab.table().metadata.current_snapshot()
    assert last is not None
    assert last.parent_snapshot_id is not None
    _set_main(play, last.parent_snapshot_id)
    return last.parent_snapshot_id, last.snapshot_id


def _set_main(play: Play, snapshot_id: int) -> None:
    with other_engine(play) as catalog:
        reference = {"ref-name": "main", "type": "branch", "snapshot-id": snapshot_id}
        main = SetSnapshotRefUpdate.model_validate(reference)
        catalog.commit_table(catalog.load_table(play.lab.pipeline.table), (), (main,))


def _roll_back(play: Play, to_snapshot: int) -> None:
    with play.lab.connections() as connections:
        rollback(play.lab.pipeline, connections, to_snapshot=to_snapshot, reason="another engine was there")


def _rewritten(change: Callable[[Table], object], play: Play) -> Told:
    """Rows changed by another writer: what we committed last is gone back to."""
    interrupted(play)
    ours = play.lab.table().metadata.current_snapshot_id
    assert ours is not None
    changed(play, change)
    ended = refused(play, "table-rewritten")
    _roll_back(play, ours)
    return put_right(ended, play)


def _row_again(table: Table) -> None:
    table.append(table.scan(row_filter="_kafka_offset = 3").to_arrow())


def _expired(play: Play) -> Told:
    for _ in range(3):
        drained(play)
    interrupted(play)
    changed(play, expire)
    return put_right("all snapshots but the last had expired", play)


def expire(table: Table) -> None:
    """Leave the table its current snapshot only."""
    now = table.metadata.current_snapshot_id
    older = [each.snapshot_id for each in table.metadata.snapshots if each.snapshot_id != now]
    table.maintenance.expire_snapshots().by_ids(older).commit()


def _refused_after_landing(play: Play) -> Told:
    """Iceberg's own code takes out what such a commit wrote: its snapshot is main and cannot be read."""
    for _ in range(5):
        drained(play)
    ours = play.lab.table().metadata.current_snapshot_id
    assert ours is not None
    assert play.proxy is not None
    play.proxy.arm(Fault.LANDED_401, is_table_commit)
    play.lab.start(work="compaction").answer()
    broken = play.lab.table().metadata.current_snapshot_id
    assert broken not in {None, ours}, "the compaction did not land"
    play.produce_batch()
    ended = refused(play, "manifest-unreadable")
    _roll_back(play, ours)
    changed(play, lambda table: table.maintenance.expire_snapshots().by_id(broken).commit())
    return put_right(ended, play)


_rewritten_case = partial(Case, promise=NAMED_THEN_BACK, may_read_again=(BATCH,))
CASES = (
    Case(
        "dropped",
        "the table dropped",
        "a named error while its dead letters are there; without them the topic is drained anew",
        _dropped,
        may_read_again=(2 * BATCH,),
    ),
    Case("renamed", "the table renamed", NAMED, _renamed),
    Case(
        "rolled-back",
        "main set to an earlier snapshot, and meant so",
        "a named error and no commit; taken over, what is missing is drained again",
        _rolled_back,
        may_read_again=(2 * BATCH,),
    ),
    Case("rolled-back-and-forth", "main set to an earlier snapshot, and back", NAMED, _rolled_back_and_forth),
    _rewritten_case(
        "rows-deleted",
        "rows deleted",
        happen=partial(_rewritten, lambda table: table.delete("_kafka_offset = 3")),
    ),
    _rewritten_case(
        "truncated", "all rows deleted", happen=partial(_rewritten, lambda table: table.delete(AlwaysTrue()))
    ),
    _rewritten_case("rows-added", "a row added once more", happen=partial(_rewritten, _row_again)),
    Case("expired", "all snapshots expired but the last", ADOPTED, _expired),
)

REFUSED_AFTER_LANDING = Case(
    "lake/compaction-landed-401",
    "a compaction landed and Iceberg's own code was told 401",
    NAMED_THEN_BACK,
    _refused_after_landing,
    catalog=REST,
    may_read_again=(BATCH,),
    needs=frozenset({"spark"}),
)
