"""A mirror that is folded batch by batch is what its source is, whatever is told again, moved or left out."""

from __future__ import annotations

import json
import os
import random
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from cli.stand.recorded_changes import recording
from prove.lab.generated_changes import UNAVAILABLE, RandomSource, SourceEvent
from spark_jobs.audit.plain_fold import OLD_KEY
from spark_jobs.audit.plain_fold import fold as plain_fold
from spark_jobs.mirror.fold import FILE, ROW, Fate, first_new, fold
from spark_jobs.mirror.keys import identity_of
from spark_jobs.mirror.unavailable import NotToldYetError, Telling, source_of
from spark_jobs.protocol.batch import Balance
from spark_jobs.protocol.cdc import Cdc, Position
from spark_jobs.schema.iceberg_types import COMMIT_SEQUENCE, OFFSET, OPERATION, PARTITION, ROW_ID, SEQUENCE

if TYPE_CHECKING:
    from numpy.typing import NDArray

RECORDED_PARTITIONS = 3
# A long run asks for more: SLUICE_FOLD_SEEDS=10000.
SEEDS = int(os.environ.get("SLUICE_FOLD_SEEDS", "150"))


@pytest.mark.parametrize("first", range(0, SEEDS, 50))
def test_a_mirror_is_its_source(first: int) -> None:
    """Keys, deletes, changed keys, truncates, events told again, values left out, any cut into batches."""
    for seed in range(first, min(first + 50, SEEDS)):
        _play(seed)


def _play(seed: int) -> None:
    chance = random.Random(seed)
    source, partitions = RandomSource(seed), chance.choice([1, 1, 2, 3])
    log: dict[int, list[SourceEvent]] = {partition: [] for partition in range(partitions)}
    mirror = Mirror()
    taken = dict.fromkeys(log, 0)
    for _ in range(chance.randrange(1, 4)):
        for told in source.changes(chance.randrange(1, 30)):
            log[told.partition(partitions)].append(told)
        while any(taken[each] < len(log[each]) for each in log):
            ends = {p: chance.randint(taken[p], len(log[p])) for p in log}
            taken = mirror.take(log, taken, ends)
        found = {key: (told.score, note) for key, (told, note) in mirror.rows.items()}
        assert found == source.rows, f"seed {seed}"


def test_a_recorded_debezium_has_the_rows_of_its_database() -> None:
    """At each moment of the recording, drained from one to the next; each rule of the fold is needed."""
    log, places = recorded_log()
    mirror, taken = Mirror(), dict.fromkeys(log, 0)
    for moment in recording()["moments"]:
        until = moment["ends"]["bare"]
        ends = {p: bisect_left(places[p], until[str(p)]) for p in log}
        while taken != ends:
            taken = mirror.take(log, taken, ends)
        found = {key: (told.score, note) for key, (told, note) in mirror.rows.items()}
        assert found == {row[0]: (row[3], row[2]) for row in moment["rows"]}, moment["name"]


def recorded_log() -> tuple[dict[int, list[SourceEvent]], dict[int, list[int]]]:
    """Return by partition the recorded events of the table without schemas, and their offsets."""
    log: dict[int, list[SourceEvent]] = {partition: [] for partition in range(RECORDED_PARTITIONS)}
    places: dict[int, list[int]] = {partition: [] for partition in log}
    for partition, offset, key, value, headers in recording()["records"]["bare.customers"]:
        if value is not None:
            log[partition].append(_told(key, json.loads(value), dict(headers)))
            places[partition].append(offset)
    return log, places


def _told(key: str | None, event: dict[str, Any], headers: dict[str, str]) -> SourceEvent:
    """Return a recorded event of the table without schemas."""
    source, row = event["source"], event["after"] or {}
    commit, sequence = json.loads(source["sequence"])
    old_key = headers.get("__debezium.oldkey")
    return SourceEvent(
        event["op"],
        None if key is None else json.loads(key)["id"],
        int(sequence),
        None if commit is None else int(commit),
        source["ts_ms"],
        row.get("score"),
        row.get("note"),
        None if old_key is None else json.loads(old_key)["id"],
    )


@pytest.mark.parametrize("seed", range(20))
def test_after_an_accepted_restart_positions_count_anew(seed: int) -> None:
    """A database goes back to a backup: as the audit's fold has it, and made anew of its snapshot."""
    chance = random.Random(seed)
    source, partitions = RandomSource(seed), chance.choice([1, 2, 3])
    log: dict[int, list[SourceEvent]] = {partition: [] for partition in range(partitions)}

    def tell(events: Iterable[SourceEvent]) -> None:
        for told in events:
            log[told.partition(partitions)].append(told)

    tell(source.changes(10))
    backup = source.backup()
    tell(source.changes(20))
    mirror, firsts, taken = Mirror(), {p: len(log[p]) for p in log}, dict.fromkeys(log, 0)
    while taken != (ends := {p: chance.randint(taken[p], firsts[p]) for p in log}):
        taken = mirror.take(log, taken, ends)
    source.restored(backup)
    mirror.cdc = mirror.cdc.with_restart(firsts)
    tell(source.snapshot())
    tell(source.changes(20))
    while any(taken[p] < len(log[p]) for p in log):
        taken = mirror.take(log, taken, {p: chance.randint(taken[p], len(log[p])) for p in log})
    plain, _ = plain_fold(_plainly(log), None, [firsts])
    found = {key: (told.score, note) for key, (told, note) in mirror.rows.items()}
    assert found == {int(key): (row["score"], row["note"]) for key, row in plain.items()}
    again = Mirror()
    again.cdc = mirror.cdc.at_starts(firsts)
    assert again.cdc.restarts == ()
    again.take(log, firsts, {p: len(log[p]) for p in log})
    assert {key: (told.score, note) for key, (told, note) in again.rows.items()} == source.rows


def _plainly(log: dict[int, list[SourceEvent]]) -> Iterator[dict[str, Any]]:
    for partition, events in log.items():
        for offset, told in enumerate(events):
            yield {
                PARTITION: partition,
                OFFSET: offset,
                OPERATION: told.operation,
                ROW_ID: str(told.key),
                SEQUENCE: told.sequence,
                COMMIT_SEQUENCE: told.commit,
                "score": told.score,
                "note": told.note,
                **({} if told.old_key is None else {OLD_KEY: str(told.old_key)}),
            }


class Mirror:
    """Rows by key, as a commit makes them of a fold; all events stay for lookups, as in kept snapshots."""

    def __init__(self) -> None:
        self.rows: dict[int, tuple[SourceEvent, str | None]] = {}
        self._history: list[tuple[int, SourceEvent, str | None]] = []
        self._told: set[tuple[str, int]] = set()
        self._newest: dict[int, tuple[int, int, int]] = {}
        self._identity: dict[SourceEvent, int] = {}
        self.cdc = Cdc()

    def _had(self, events: pa.Table) -> NDArray[np.bool_]:
        """Return which of these the batches before told, as a table's files do."""
        places = zip(events[ROW_ID].to_pylist(), events[SEQUENCE].to_pylist(), strict=True)
        return np.array([place in self._told for place in places])

    def take(
        self, log: dict[int, list[SourceEvent]], starts: dict[int, int], ends: dict[int, int]
    ) -> dict[int, int]:
        """Fold one batch, up to where all is told; return its ends. Its balance has each event once."""
        batch = [(p, at, log[p][at]) for p in log for at in range(starts[p], ends[p])]
        folded = fold(as_events(batch), self.cdc)
        self._identity |= {told: identity_of(p, at, self.cdc.restarts) for p, at, told in batch}
        counted = {p: Balance(rows=ends[p] - starts[p]) for p in log}
        balances = folded.balances(counted)
        assert {p: each.offsets for p, each in balances.items()} == {p: ends[p] - starts[p] for p in log}
        assert first_new(folded, self._had) is None
        tellings: defaultdict[str, list[Telling]] = defaultdict(list)
        known = [*self._history, *((p, told, told.note) for p, _, told in batch if told.operation in "cur")]
        for index, (p, told, note) in enumerate(known):
            telling = _telling(index, p, replace_note(told, note), self._identity[told])
            tellings[str(told.key)].append(telling)
        rows, whole, newest = dict(self.rows), [], dict(self._newest)
        if (cut := folded.cut) is not None:
            place = cut.identity, cut.sequence
            rows = {k: v for k, v in rows.items() if (self._identity[v[0]], v[0].sequence) >= place}
        by_place = {(p, at): told for p, at, told in batch}
        positions = dict.fromkeys(log, Position(-1, -1)) | folded.cdc.positions
        for fate, event in zip(folded.fates, folded.events.to_pylist(), strict=True):
            p, at = event[PARTITION], event[OFFSET]
            told = by_place[p, at]
            if fate in {Fate.LIVES, Fate.REMOVES}:
                assert told.key is not None
                # Also between two moments a key never goes back in time.
                stood = (self._identity[told], told.commit or 0, told.sequence)
                assert stood >= newest.get(told.key, stood)
                newest[told.key] = stood
                rows.pop(told.key, None)
            if fate == Fate.LIVES:
                try:
                    telling = _telling(-1, p, told, self._identity[told])
                    found = source_of(telling, "note", tellings, positions)
                except NotToldYetError:
                    return self.take(log, starts, {**ends, p: at})
                assert found is not None, (told, batch)
                note = told.note if found.index < 0 else known[found.index][2]
                assert told.key is not None
                rows[told.key] = (told, note)
                whole.append((p, told, note))
        self._told |= {(_row_id(told.key), told.sequence) for _, _, told in batch}
        self.rows, self._history, self.cdc, self._newest = rows, [*known, *whole], folded.cdc, newest
        return ends


def replace_note(told: SourceEvent, note: str | None) -> SourceEvent:
    """Return the same with another long value."""
    return SourceEvent(
        told.operation, told.key, told.sequence, told.commit, told.time_ms, told.score, note, told.old_key
    )


def _telling(index: int, partition: int, told: SourceEvent, identity: int) -> Telling:
    old = None if told.old_key is None else str(told.old_key)
    lacks = frozenset({"note"} if told.note == UNAVAILABLE else ())
    return Telling(
        index,
        str(told.key),
        partition,
        told.commit,
        told.sequence,
        old,
        lacks,
        told.operation == "d",
        identity,
    )


def _row_id(key: int | None) -> str:
    return "" if key is None else f'{{"id":{key}}}'


def as_events(batch: list[tuple[int, int, SourceEvent]]) -> pa.Table:
    """Return the events as their files have them, in any order."""
    chance = random.Random(len(batch))
    batch = chance.sample(batch, len(batch))
    told = [each for _, _, each in batch]
    return pa.table(
        {
            PARTITION: pa.array([p for p, _, _ in batch], pa.int32()),
            OFFSET: pa.array([at for _, at, _ in batch], pa.int64()),
            ROW_ID: pa.array([_row_id(each.key) for each in told], pa.string()),
            OPERATION: pa.array([each.operation for each in told], pa.string()),
            SEQUENCE: pa.array([each.sequence for each in told], pa.int64()),
            COMMIT_SEQUENCE: pa.array([each.commit for each in told], pa.int64()),
            FILE: pa.array([0] * len(batch), pa.int32()),
            ROW: pa.array(range(len(batch)), pa.int64()),
        }
    )
