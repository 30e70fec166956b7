"""Setting main back to an earlier snapshot, by a commit like every other: a new snapshot with its progress.

Main never becomes an old snapshot again: whoever compares with that one's id would take the table for
unchanged. The new, empty snapshot has the old one for its parent, and so exactly its rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from pyiceberg.table import Table
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.update import AssertRefSnapshotId

from spark_jobs.commit.swap import stage_append
from spark_jobs.protocol.progress import Progress

if TYPE_CHECKING:
    from pyiceberg.table.update import TableRequirement

    from spark_jobs.commit.swap import Swap


def stage_rewind(table: Table, snapshot_id: int, progress: Progress, summary: Mapping[str, str]) -> Swap:
    """Stage an empty snapshot on top of ``snapshot_id``, compared with what main is now.

    The snapshot must be in the table's metadata.
    """
    main = table.metadata.refs[MAIN_BRANCH]
    earlier = table.metadata.model_copy(
        update={
            "refs": {
                **table.metadata.refs,
                MAIN_BRANCH: main.model_copy(update={"snapshot_id": snapshot_id}),
            },
            "current_snapshot_id": snapshot_id,
        }
    )
    as_it_was = Table(table.name(), earlier, table.metadata_location, table.io, table.catalog)
    swap = stage_append(as_it_was, (), progress, summary)
    return replace(swap, requirements=tuple(_with_main(r, main.snapshot_id) for r in swap.requirements))


def _with_main(requirement: TableRequirement, snapshot_id: int) -> TableRequirement:
    if not isinstance(requirement, AssertRefSnapshotId):
        return requirement
    return requirement.model_copy(update={"snapshot_id": snapshot_id})
