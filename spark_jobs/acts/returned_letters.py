"""The dead letters that redrives took out after a snapshot, for a rollback to it to put back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from spark_jobs.acts.past_states import EarlierState
from spark_jobs.commit.moved_letters import rows_at
from spark_jobs.commit.replace import ReplacedOffsets
from spark_jobs.commit.swap import as_it_was
from spark_jobs.lake.coordinates import Coordinates
from spark_jobs.lake.kept_letters import keep_letters, read_letters
from spark_jobs.protocol.kept_letters import KeptLetters
from spark_jobs.protocol.offsets import OffsetRange

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from spark_jobs.storage.create_only import CreateOnlyStore


def letters_to_return(
    table: Table, state: CreateOnlyStore, earlier: EarlierState, below: Mapping[int, int], attempt: str
) -> tuple[KeptLetters, ...]:
    """Keep for the attempt what is to come back, each place once: as the earliest redrive found it.

    Letters from the offsets ``below`` on are not among them, since their records are drained again, nor those
    of a record that has a row at the snapshot. Raises ``CorruptLog`` (``letters-lost``), and as the state's
    store does.
    """
    drained = Coordinates.of(OffsetRange(partition, 0, end) for partition, end in below.items())
    then = as_it_was(table, earlier.snapshot_id)
    returned: list[KeptLetters] = []
    places = Coordinates({})
    for name in earlier.redrives_since:
        letters = read_letters(state, KeptLetters(name, 0))
        letters = letters.filter(pa.array(drained.holds(letters) & ~places.holds(letters)))
        here = Coordinates.of_rows(letters)
        rows = rows_at(then, ReplacedOffsets(earlier.generation, here))
        letters = letters.filter(pa.array(~Coordinates.of_rows(rows).holds(letters)))
        if len(letters):
            returned.append(keep_letters(state, str(table.metadata.table_uuid), attempt, letters))
        places = Coordinates.of((*places.ranges, *here.ranges))
    return tuple(returned)
