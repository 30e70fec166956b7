"""Folds a batch's events: live rows, deleted rows, and repetitions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.table import FileScanTask, Table

from spark_jobs.formats.connect.events import DELETE, NAMELESS, TRUNCATE
from spark_jobs.lake.file_rows import rows_of_file
from spark_jobs.lake.row_filters import is_between
from spark_jobs.mirror.keys import Cut, each_once, fields_of, identities_of
from spark_jobs.protocol.batch import Balance
from spark_jobs.protocol.cdc import Cdc, Position
from spark_jobs.schema.iceberg_types import (
    COMMIT_SEQUENCE,
    OFFSET,
    OPERATION,
    PARTITION,
    ROW_ID,
    SEQUENCE,
    SOURCE,
)
from spark_jobs.storage.errors import storage_error

if TYPE_CHECKING:
    from numpy.typing import NDArray


# Where an event's file and the row in it are: beside the columns that a fold is of.
FILE, ROW = "file", "row"
FOLDED_COLUMNS = (PARTITION, OFFSET, ROW_ID, OPERATION, SEQUENCE, COMMIT_SEQUENCE, SOURCE)
_LEAST = -(1 << 63)


class Fate(IntEnum):
    """The outcome of one event."""

    LIVES = 0  # the newest of its key: its row is the table's
    REMOVES = 1  # the newest of its key: there is no row any more
    SUPERSEDED = 2  # a newer one of its key is in the batch
    TOLD_AGAIN = 3  # before what its partition has told already
    BEFORE_TRUNCATE = 4  # of a row that went when its table was emptied
    TRUNCATES = 5  # all rows below its position go


_TERMS = {
    Fate.LIVES: "rows",
    Fate.REMOVES: "removes",
    Fate.SUPERSEDED: "superseded",
    Fate.TOLD_AGAIN: "told_again",
    Fate.BEFORE_TRUNCATE: "before_truncate",
    Fate.TRUNCATES: "truncates",
}


@dataclass(frozen=True, slots=True)
class Folded:
    """Folded ``events`` in partition order, and their ``fates``.

    ``cdc`` is what the next fold goes on from; rows of the table that ``cut`` takes go with the batch.
    ``ranks`` are in the order of what each partition's events say of where the source stood;
    ``is_where_it_stood`` are events at the very place that was the furthest before the batch. ``unordered``
    is an event of a key that is in several partitions, of a source that says no position: nobody knows which
    is the newest. ``is_foreign`` are events of another source than the table's: nothing of it holds then.
    """

    events: pa.Table
    fates: NDArray[np.int8]
    cdc: Cdc
    ranks: NDArray[np.int64]
    is_where_it_stood: NDArray[np.bool_]
    is_foreign: NDArray[np.bool_]
    cut: Cut | None = None
    unordered: int | None = None

    @property
    def changed_keys(self) -> pa.Array:
        """The keys whose rows are deleted from the table, without repetition."""
        return self.of(Fate.LIVES, Fate.REMOVES).column(ROW_ID).combine_chunks()

    @property
    def dead(self) -> pa.Table:
        """The events whose rows do not live in the table."""
        return self.events.filter(pa.array(self.fates != Fate.LIVES))

    def of(self, *fates: Fate) -> pa.Table:
        """Return the events with one of these fates."""
        return self.events.filter(pa.array(np.isin(self.fates, fates)))

    def balances(self, counted: Mapping[int, Balance]) -> dict[int, Balance]:
        """Return the balance by partition, where ``counted`` has each event as a row."""
        partitions = _numbers(self.events, PARTITION)
        return {
            partition: Balance({**balance, "rows": 0})
            + Balance(
                {_TERMS[Fate(fate)]: n for fate, n in Counter(_at(self.fates, partitions, partition)).items()}
            )
            for partition, balance in counted.items()
        }


def fold(events: pa.Table, cdc: Cdc) -> Folded:
    """Fold a batch's events, given the table's state.

    ``events`` have ``FOLDED_COLUMNS`` and ``FILE``, ``ROW``; of several rows of one partition and offset
    that of the last file counts. Events of one key are in one partition, and offsets are their order; of a
    key that is in several, since the topic was given more, the sequences are.
    """
    events = _in_order(events)
    operations = pc.dictionary_encode(events.column(OPERATION)).combine_chunks()
    names = operations.dictionary.to_pylist()
    is_op = {name: operations.indices.to_numpy() == names.index(name) for name in names}
    nothing = np.zeros(len(events), bool)
    is_truncate = is_op.get(TRUNCATE, nothing)
    told_again, ranks, is_where_it_stood, positions = _repeated(events, cdc)
    source, is_foreign = _source(events, cdc)
    cut = _cut(events.filter(pa.array(is_truncate & ~told_again)), cdc)
    below = _further(cut, cdc)
    is_before = nothing if below is None else below.takes(*_places(events)) & ~is_truncate
    fates = np.full(len(events), Fate.SUPERSEDED, np.int8)
    newest, unordered = _newest(events, ~(told_again | is_before | is_truncate), cdc)
    fates[newest] = np.where(is_op.get(DELETE, nothing)[newest], Fate.REMOVES, Fate.LIVES)
    fates[is_before] = Fate.BEFORE_TRUNCATE
    fates[is_truncate] = Fate.TRUNCATES
    fates[told_again] = Fate.TOLD_AGAIN
    key = cdc.key if cdc.key is not None else _key_of(events, is_truncate)
    folded = replace(cdc, key=key, positions=positions, source=source)
    if below is not None:
        folded = replace(folded, truncated_below=below.sequence, truncated_in=below.identity)
    return Folded(events, fates, folded, ranks, is_where_it_stood, is_foreign, cut, unordered)


def _source(events: pa.Table, cdc: Cdc) -> tuple[str | None, NDArray[np.bool_]]:
    """Return the table's source, by default the batch's first, and the events of other sources."""
    if SOURCE not in events.column_names:  # a table of an earlier version
        return cdc.source, np.zeros(len(events), bool)
    sources = pc.dictionary_encode(events.column(SOURCE)).combine_chunks()
    which = sources.indices.fill_null(-1).to_numpy()
    names = sources.dictionary.to_pylist()
    source = cdc.source
    if source is None:
        # A mirror that an earlier version filled is of none that is nameless.
        can_be = [each for each, name in enumerate(names) if cdc.key is None or name != NAMELESS]
        firsts = which[np.isin(which, can_be)]
        source = names[firsts[0]] if len(firsts) else None
    own = names.index(source) if source in names else len(names)
    return source, (which >= 0) & (which != own)


def _cut(truncates: pa.Table, cdc: Cdc) -> Cut | None:
    """Return the furthest truncate."""
    partitions, offsets, sequences = _places(truncates)
    identities = identities_of(partitions, offsets, cdc.restarts)
    places = zip(identities.tolist(), sequences.tolist(), strict=True)
    return max((Cut(*place, cdc.restarts) for place in places), key=_place_of, default=None)


def _further(cut: Cut | None, cdc: Cdc) -> Cut | None:
    """Return the later of this cut and that of earlier batches."""
    if cdc.truncated_below is None:
        return cut
    before = Cut(cdc.truncated_in, cdc.truncated_below, cdc.restarts)
    return before if cut is None else max(before, cut, key=_place_of)


def _place_of(cut: Cut) -> tuple[int, int]:
    return cut.identity, cut.sequence


def _places(events: pa.Table) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    return _numbers(events, PARTITION), _numbers(events, OFFSET), _numbers(events, SEQUENCE)


def _in_order(events: pa.Table) -> pa.Table:
    """Return the events by partition and offset, those with equal coordinates by file."""
    places = [_numbers(events, name) for name in (FILE, OFFSET, PARTITION)]
    order = np.lexsort(places)
    return events if (np.diff(order) > 0).all() else events.take(pa.array(order))


def _repeated(
    events: pa.Table, cdc: Cdc
) -> tuple[NDArray[np.bool_], NDArray[np.int64], NDArray[np.bool_], dict[int, Position]]:
    """Return repeated events, below their partition's earlier position, with their ranks.

    Only what is of the same identity of the source is compared. Where a half of the position is not told
    nothing is said of the event. With "below or equal" events of one place would be lost: a key that changes
    is two.
    """
    told_again, is_where_it_stood = np.zeros(len(events), bool), np.zeros(len(events), bool)
    every, positions = np.zeros(len(events), np.int64), dict(cdc.positions)
    commits, sequences = _numbers(events, COMMIT_SEQUENCE), _numbers(events, SEQUENCE)
    for partition, identity, at in compared(events, cdc):
        before, known = positions.get(partition), (_LEAST, _LEAST)
        if before is not None and before.identity == identity:
            known = before.commit, before.sequence
        ranks = _ranks(np.append(known[0], commits[at]), np.append(known[1], sequences[at]))
        furthest = np.maximum.accumulate(ranks)
        told_again[at], every[at] = ranks[1:] < furthest[:-1], ranks[1:]
        is_where_it_stood[at] = ranks[1:] == ranks[0]
        best = int(np.argmax(ranks))
        place = known if best == 0 else (int(commits[at[best - 1]]), int(sequences[at[best - 1]]))
        positions[partition] = Position(*place, identity)
    return told_again, every, is_where_it_stood, positions


def compared(events: pa.Table, cdc: Cdc) -> Iterator[tuple[int, int, NDArray[np.int64]]]:
    """Yield events with a source position, by partition and source identity, in order."""
    has_place = events.column(COMMIT_SEQUENCE).is_valid().to_numpy()
    partitions = _numbers(events, PARTITION)
    identities = identities_of(partitions, _numbers(events, OFFSET), cdc.restarts)
    for partition, identity in product(each_once(partitions).tolist(), range(len(cdc.restarts) + 1)):
        at = np.flatnonzero((partitions == partition) & (identities == identity) & has_place)
        if len(at):
            yield partition, identity, at


def _ranks(major: NDArray[np.int64], minor: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return ranks in the order of the pairs, with equal ranks for equal pairs."""
    order = np.lexsort([minor, major])
    is_new = (np.diff(major[order]) != 0) | (np.diff(minor[order]) != 0)
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.append(0, np.cumsum(is_new))
    return ranks


def _newest(events: pa.Table, counts: NDArray[np.bool_], cdc: Cdc) -> tuple[NDArray[np.int64], int | None]:
    """Return the last counted event of each key, and one whose order is unknown."""
    at = np.flatnonzero(counts)
    keys = pc.dictionary_encode(events.column(ROW_ID).take(pa.array(at))).combine_chunks()
    of_key, partitions = keys.indices.to_numpy(), _numbers(events, PARTITION)[at]
    newest, last_partition = (np.zeros(len(keys.dictionary), np.int64) for _ in range(2))
    newest[of_key], last_partition[of_key] = at, partitions  # of equal indices the last one stays
    is_elsewhere = last_partition[of_key] != partitions
    if not is_elsewhere.any():
        return newest, None
    moved = np.isin(of_key, of_key[is_elsewhere])
    identities = identities_of(partitions, _numbers(events, OFFSET)[at], cdc.restarts)
    places = [identities, _numbers(events, SEQUENCE)[at]]
    order = np.lexsort([at, *(np.where(moved, each, 0) for each in reversed(places))])
    newest[of_key[order]] = at[order]
    has_no_place = events.column(COMMIT_SEQUENCE).null_count == len(events)
    return newest, int(at[moved][0]) if has_no_place else None


def _key_of(events: pa.Table, is_truncate: NDArray[np.bool_]) -> tuple[str, ...] | None:
    keyed = np.flatnonzero(~is_truncate)
    return fields_of(events.column(ROW_ID)[int(keyed[0])].as_py()) if len(keyed) else None


def _at(fates: NDArray[np.int8], partitions: NDArray[np.int64], partition: int) -> list[int]:
    return [int(fate) for fate in fates[partitions == partition]]


def _numbers(events: pa.Table, column: str) -> NDArray[np.int64]:
    values = events.column(column).cast(pa.int64())
    numbers: NDArray[np.int64] = (values.fill_null(_LEAST) if values.null_count else values).to_numpy()
    return numbers


# Whether what lies below a partition's furthest place was told before, or is of a log that began anew.
#
# A connector that was killed tells its last changes again, each at the place that it had. The log of a
# backup, or of a server that had not got as far, has other changes there. Times prove nothing: clocks differ.


def first_new(folded: Folded, had: Callable[[pa.Table], NDArray[np.bool_]]) -> int | None:
    """Return the first event that looks repeated and is unknown to the table, or None.

    ``had`` says which events were told in earlier batches. A log has one history: what stands below an event
    that was told before, and comes before it, was told before as well, though its rows may be gone.
    """
    again = folded.fates == Fate.TOLD_AGAIN
    if not again.any():
        return None
    twins = _first_alike(folded.events)
    known = folded.is_where_it_stood | (again & ~again[twins])
    candidates = np.flatnonzero(again & ~known)
    known[candidates] = had(folded.events.take(pa.array(candidates)))
    new = np.zeros(len(again), bool)
    for _, _, at in compared(folded.events, folded.cdc):
        reached = np.where(known[at], folded.ranks[at], -1)[::-1]
        new[at] = again[at] & (folded.ranks[at] > np.maximum.accumulate(reached)[::-1])
    return int(np.flatnonzero(new)[0]) if new.any() else None


def had_by(table: Table, events: pa.Table) -> NDArray[np.bool_]:
    """Return the events in the table's files, whatever their rows' state. Raises as storage does."""
    if not len(events):
        return np.zeros(0, bool)
    found: set[tuple[str, int]] = set()
    sequences = pc.unique(events.column(SEQUENCE))
    first, last = pc.min_max(sequences).as_py().values()
    between = is_between(SEQUENCE, first, last + 1)
    schema = table.schema().select(ROW_ID, SEQUENCE)
    try:
        for task in table.scan(between).plan_files():
            for rows in rows_of_file(table.io, FileScanTask(task.file), schema, between):
                candidates = rows.filter(
                    pc.is_in(rows.column(SEQUENCE), events.column(SEQUENCE).combine_chunks())
                )
                found.update(_positions_of(candidates))
    except OSError as error:
        raise storage_error(error, "looking for earlier events", table=".".join(table.name())) from error
    return np.array([place in found for place in _positions_of(events)])


def _positions_of(rows: pa.Table) -> list[tuple[str, int]]:
    return [*zip(rows.column(ROW_ID).to_pylist(), rows.column(SEQUENCE).to_pylist(), strict=True)]


def _first_alike(events: pa.Table) -> NDArray[np.int64]:
    """Return, by event, the first with its partition, key and sequence, which may be itself."""
    keys = pc.dictionary_encode(events.column(ROW_ID)).combine_chunks().indices.to_numpy()
    columns = [events.column(SEQUENCE).to_numpy(), keys, events.column(PARTITION).to_numpy()]
    order = np.lexsort(columns)  # which leaves equal ones in their order
    is_first = np.append(True, np.any([np.diff(column[order]) != 0 for column in columns], axis=0))
    firsts = np.empty(len(order), np.int64)
    firsts[order] = order[is_first][np.cumsum(is_first) - 1]
    return firsts
