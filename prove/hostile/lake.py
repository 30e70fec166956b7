"""Hostile lakes: another engine changes the table between a crash and the restart.

The other engine is PyIceberg as anybody may use it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from pyiceberg.expressions import AlwaysTrue
from pyiceberg.table.update import SetSnapshotRefUpdate

from prove.hostile.case import (
    ADOPTED,
    Case,
    History,
    change_table,
    expect_refusal,
    interrupt,
    other_engine,
    repair,
    scenarios,
)
from prove.lab.fault_proxy import Fault, is_table_commit
from prove.workload import BATCH, REST, SQLITE, Workload
from spark_jobs.acts.rollback import rollback

if TYPE_CHECKING:
    from pyiceberg.table import Table

NAMED = "a named error and no commit; put back, the dead run's files are committed"
NAMED_THEN_BACK = "a named error and no commit; rolled back to what we committed, all is there"


def _drop(workload: Workload) -> History:
    interrupt(workload)
    table, dead_letters = workload.lab.tables
    with other_engine(workload) as catalog:
        catalog.drop_table(table)
    ended = expect_refusal(workload, "dead-letters-of-another-table")
    with other_engine(workload) as catalog:
        catalog.drop_table(dead_letters)
    return repair(ended, workload)


def _rename(workload: Workload) -> History:
    interrupt(workload)
    name = workload.lab.pipeline.table
    with other_engine(workload) as catalog:
        catalog.rename_table(name, f"{name}_kept")
    ended = expect_refusal(workload, "dead-letters-of-another-table")
    with other_engine(workload) as catalog:
        catalog.rename_table(f"{name}_kept", name)
    return repair(ended, workload)


def _roll_back_behind(workload: Workload) -> History:
    first, _last = _set_back(workload)
    ended = expect_refusal(workload, "table-rolled-back")
    _roll_back(workload, first)
    return repair(ended, workload)


def _roll_back_and_forth(workload: Workload) -> History:
    _first, last = _set_back(workload)
    ended = expect_refusal(workload, "table-rolled-back")
    _set_main(workload, last)
    return repair(ended, workload)


def _set_back(workload: Workload) -> tuple[int, int]:
    """Set main to the snapshot before the last commit; return that commit's ids."""
    workload.drain_batches()
    interrupt(workload)
    last = workload.lab.table().metadata.current_snapshot()
    assert last is not None
    assert last.parent_snapshot_id is not None
    _set_main(workload, last.parent_snapshot_id)
    return last.parent_snapshot_id, last.snapshot_id


def _set_main(workload: Workload, snapshot_id: int) -> None:
    with other_engine(workload) as catalog:
        reference = {"ref-name": "main", "type": "branch", "snapshot-id": snapshot_id}
        main = SetSnapshotRefUpdate.model_validate(reference)
        catalog.commit_table(catalog.load_table(workload.lab.pipeline.table), (), (main,))


def _roll_back(workload: Workload, to_snapshot: int) -> None:
    with workload.lab.connections() as connections:
        rollback(
            workload.lab.pipeline, connections, to_snapshot=to_snapshot, reason="another engine was there"
        )


def _rewrite(change: Callable[[Table], object], workload: Workload) -> History:
    """Let another writer change rows and restore our last commit."""
    interrupt(workload)
    ours = workload.lab.table().metadata.current_snapshot_id
    assert ours is not None
    change_table(workload, change)
    ended = expect_refusal(workload, "table-rewritten")
    _roll_back(workload, ours)
    return repair(ended, workload)


def _append_row_again(table: Table) -> None:
    table.append(table.scan(row_filter="_kafka_offset = 3").to_arrow())


def _expire(workload: Workload) -> History:
    workload.drain_batches(3)
    interrupt(workload)
    change_table(workload, expire)
    return repair("all snapshots but the last had expired", workload)


def expire(table: Table) -> None:
    """Expire all but the current snapshot."""
    now = table.metadata.current_snapshot_id
    older = [each.snapshot_id for each in table.metadata.snapshots if each.snapshot_id != now]
    table.maintenance.expire_snapshots().by_ids(older).commit()


def _refuse_after_landing(workload: Workload) -> History:
    """Delete files of a commit that landed, by Iceberg's own code: main cannot be read."""
    workload.drain_batches(5)
    ours = workload.lab.table().metadata.current_snapshot_id
    assert ours is not None
    assert workload.proxy is not None
    workload.proxy.arm(Fault.LANDED_401, is_table_commit)
    workload.lab.start(work="compaction").answer()
    broken = workload.lab.table().metadata.current_snapshot_id
    assert broken not in {None, ours}, "the compaction did not land"
    workload.produce_batch()
    ended = expect_refusal(workload, "manifest-unreadable")
    _roll_back(workload, ours)
    change_table(workload, lambda table: table.maintenance.expire_snapshots().by_id(broken).commit())
    return repair(ended, workload)


_case = partial(Case, catalogs=(SQLITE, REST))
_rewritten_case = partial(_case, promise=NAMED_THEN_BACK, may_read_again=(BATCH,))
CASES = (
    _case(
        "dropped",
        "the table dropped",
        "a named error while its dead letters are there; without them the topic is drained anew",
        _drop,
        may_read_again=(2 * BATCH,),
    ),
    _case("renamed", "the table renamed", NAMED, _rename),
    _case(
        "rolled-back",
        "main set to an earlier snapshot, and meant so",
        "a named error and no commit; taken over, what is missing is drained again",
        _roll_back_behind,
        may_read_again=(2 * BATCH,),
    ),
    _case("rolled-back-and-forth", "main set to an earlier snapshot, and back", NAMED, _roll_back_and_forth),
    _rewritten_case(
        "rows-deleted",
        "rows deleted",
        inject=partial(_rewrite, lambda table: table.delete("_kafka_offset = 3")),
    ),
    _rewritten_case(
        "truncated", "all rows deleted", inject=partial(_rewrite, lambda table: table.delete(AlwaysTrue()))
    ),
    _rewritten_case("rows-added", "a row added once more", inject=partial(_rewrite, _append_row_again)),
    _case("expired", "all snapshots expired but the last", ADOPTED, _expire),
    Case(
        "compaction-landed-401",
        "a compaction landed and Iceberg's own code was told 401",
        NAMED_THEN_BACK,
        _refuse_after_landing,
        (REST,),
        may_read_again=(BATCH,),
        needs=frozenset({"spark"}),
    ),
)
SCENARIOS = scenarios("a table changed by others between a crash and the restart", CASES, prefix="lake/")
