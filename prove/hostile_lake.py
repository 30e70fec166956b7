"""Hostile lakes: another engine does something to the table between a crash and the restart.

The other engine is PyIceberg as anybody may use it.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from pyiceberg.expressions import AlwaysTrue
from pyiceberg.table.update import SetSnapshotRefUpdate
from pyiceberg.types import StringType

from prove.hostile import Case, Told, drained, interrupted, other_engine, put_right, refused
from prove.stage import BATCH, REST, SQLITE
from spark_jobs.core.progress import PROPERTY_LAST_COMMITS, PROPERTY_OFFSETS
from spark_jobs.rollback import rollback

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyiceberg.io import FileIO
    from pyiceberg.table import Table

    from prove.scenario import Scenario
    from prove.stage import Play

GROUP = "a table changed by others between a crash and the restart"
ADOPTED = "the dead run's files are committed, nothing is read again"
NAMED = "a named error and no commit; put back, the dead run's files are committed"
NAMED_THEN_BACK = "a named error and no commit; rolled back to what we committed, all is there"
READ_AGAIN = "the range is read and committed again"
QUICK = frozenset({"rolled-back", "offsets-set-forward", "log-garbage"})


def hostile_lakes() -> Iterator[Scenario]:
    """Every case, in the report's order."""
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
    _change(play, change)
    ended = refused(play, "table-rewritten")
    _roll_back(play, ours)
    return put_right(ended, play)


def _change(play: Play, change: Callable[[Table], object]) -> None:
    with other_engine(play) as catalog:
        change(catalog.load_table(play.lab.pipeline.table))


def _row_again(table: Table) -> None:
    table.append(table.scan(row_filter="_kafka_offset = 3").to_arrow())


def _evolved(play: Play) -> Told:
    interrupted(play)
    _change(play, lambda table: table.update_schema().add_column("note", StringType()).commit())
    return put_right("a column was added", play)


def _expired(play: Play) -> Told:
    for _ in range(3):
        drained(play)
    interrupted(play)
    _change(play, _expire)
    return put_right("all snapshots but the last had expired", play)


def _expire(table: Table) -> None:
    now = table.metadata.current_snapshot_id
    older = [each.snapshot_id for each in table.metadata.snapshots if each.snapshot_id != now]
    table.maintenance.expire_snapshots().by_ids(older).commit()


def _by_hand(property_name: str, value: Callable[[str], str], play: Play) -> Told:
    """A property is set by hand, and set back when the drain has refused it."""
    interrupted(play)
    ours = play.lab.table().metadata.properties[property_name]
    _change(play, partial(_set, property_name, value(ours)))
    ended = refused(play, "damaged-progress")
    _change(play, partial(_set, property_name, ours))
    return put_right(ended, play)


def _set(name: str, value: str, table: Table) -> None:
    with table.transaction() as transaction:
        transaction.set_properties({name: value})


def _moved(by: int, offsets: str) -> str:
    """The properties' next offsets with partition 0's moved."""
    document = json.loads(offsets)
    for generations in document.values():
        for partitions in generations.values():
            partitions["0"] += by
    return json.dumps(document)


def _log_damaged(damage: Callable[[FileIO, str], object], play: Play) -> Told:
    interrupted(play)
    table = play.lab.table()
    table_uuid = str(table.metadata.table_uuid)
    with play.lab.connections() as connections:
        (dead,) = connections.txlog.unfinished(table_uuid, now_us=connections.now_us())
        root = connections.txlog.root
    damage(table.io, f"{root}/{table_uuid}/{dead.uuid}/4-ParquetWritten.json")
    return put_right("its files are no longer known", play)


def _truncate(storage: FileIO, location: str) -> None:
    with storage.new_input(location).open() as stream:
        left = stream.read()[:20]
    _overwrite(left, storage, location)


def _overwrite(content: bytes, storage: FileIO, location: str) -> None:
    with storage.new_output(location).create(overwrite=True) as stream:
        stream.write(content)


_rewritten_case = partial(Case, promise=NAMED_THEN_BACK, may_read_again=(BATCH,))
_hand_case = partial(Case, promise=NAMED)
_log_case = partial(Case, promise=READ_AGAIN, may_read_again=(BATCH,))
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
    Case("evolved", "a column added", ADOPTED, _evolved),
    Case("expired", "all snapshots expired but the last", ADOPTED, _expired),
    _hand_case(
        "offsets-garbage",
        "`sluice.offsets` set to garbage by hand",
        happen=partial(_by_hand, PROPERTY_OFFSETS, lambda _ours: "{garbage"),
    ),
    _hand_case(
        "offsets-set-back",
        "`sluice.offsets` set back by hand",
        happen=partial(_by_hand, PROPERTY_OFFSETS, partial(_moved, -10)),
    ),
    _hand_case(
        "offsets-set-forward",
        "`sluice.offsets` set forward by hand",
        happen=partial(_by_hand, PROPERTY_OFFSETS, partial(_moved, 5)),
    ),
    _hand_case(
        "last-commits-garbage",
        "`sluice.last-commits` set to garbage by hand",
        happen=partial(_by_hand, PROPERTY_LAST_COMMITS, lambda _ours: "null"),
    ),
    _log_case("log-truncated", "the log's last object cut short", happen=partial(_log_damaged, _truncate)),
    _log_case(
        "log-garbage",
        "the log's last object filled with garbage",
        happen=partial(_log_damaged, partial(_overwrite, b"\x00\xff garbage")),
    ),
    _log_case(
        "log-object-gone",
        "the log's last object gone",
        happen=partial(_log_damaged, lambda storage, location: storage.delete(location)),
    ),
)
