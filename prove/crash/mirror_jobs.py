"""Drains and rebuilds of a mirror with faults: it equals its source, with each key once."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from pyiceberg.types import StringType

from prove.crash import promises
from prove.crash.jobs import DRAINED, Job, at
from prove.lab.debezium_events import Column, Source
from prove.lab.drain_process import Repairs
from prove.lab.generated_changes import RandomSource, SourceEvent
from prove.lab.kafka_server import Record
from prove.workload import BATCH, PARTITIONS, Workload

_SEED = 11
_MOST_BEFORE_THE_LAST = 16
_SETTINGS = {"layout": "mirror", "mirror": {"bad_changes": "dead_letters"}}


def drain_and_change(workload: Workload, seed: int = _SEED) -> None:
    """Commit batches of a table's changes to its mirror, and produce more changes."""
    workload.contents.source = RandomSource(seed)
    _tell(workload, lambda told: told.record(PARTITIONS))
    workload.drain_batches(2)
    workload.produce_batch()


def drain_and_retype(workload: Workload) -> None:
    """Commit batches to the mirror, and produce changes with a column of another type."""
    workload.contents.source = RandomSource(_SEED)
    _tell(workload, partial(_with_schema, "int32"))
    workload.drain_batches(2)
    _tell(workload, partial(_with_schema, "string"))
    workload.produce_batch()


def _tell(workload: Workload, record: Callable[[SourceEvent], Record]) -> None:
    source = workload.contents.source
    assert source is not None

    def told(_first: int, count: int) -> list[Record]:
        """Return whole transactions and tombstones, up to this number of records."""
        records: list[Record] = []
        while len(records) < _MOST_BEFORE_THE_LAST:
            records += [record(each) for each in source.changes(1)]
        assert len(records) <= count
        workload.contents.tombstones += count - len(records)
        return records + [Record(None, key=b'{"id":0}')] * (count - len(records))

    workload.contents.orders = told


def _with_schema(score: str, told: SourceEvent) -> Record:
    """Return an event with its schema, in which the score has this type."""
    source = Source({"id": Column("int32", optional=False), "score": Column(score), "note": Column("string")})
    row: dict[str, object] = {"id": told.key}
    if told.operation in "cur":
        row |= {"score": told.score if score == "int32" else str(told.score), "note": told.note}
    value = source.event(
        told.operation,
        row if told.operation in "cur" else None,
        lsn=told.sequence,
        before=row if told.operation == "d" else None,
        sequence=json.dumps([str(told.commit), str(told.sequence)]),
        ts_ms=told.time_ms,
        txId=told.commit,
    )
    return replace(told.record(PARTITIONS), value=value)


def find_other_rows(workload: Workload) -> Iterator[str]:
    """Yield differences of the mirror from its source, and duplicate keys."""
    source = workload.contents.source
    assert source is not None
    rows = workload.lab.rows().to_pylist()
    found = {row["id"]: (int(row["score"]), row["note"]) for row in rows}
    if len(found) != len(rows):
        yield f"{len(rows)} rows of {len(found)} keys"
    for key in sorted({*found, *source.rows}):
        if found.get(key) != source.rows.get(key):
            yield f"key {key} is {found.get(key)}, and {source.rows.get(key)} at the source"


def find_other_rows_or_type(workload: Workload) -> Iterator[str]:
    """Yield the same, and a column whose type differs from its source's."""
    kind = workload.lab.table().schema().find_type("score")
    if not isinstance(kind, StringType):
        yield f"the score is {kind}"
    yield from find_other_rows(workload)


MIRROR = Job(
    "mirror",
    "a drain into a mirror",
    {**DRAINED, **at(promises.AGAIN, "drain.after-fold")},
    promises.SETTLED,
    prepare=drain_and_change,
    settings=_SETTINGS,
    look=find_other_rows,
)
_READ = 3 * BATCH
_AGAIN = promises.promise(
    "the mirror is as it was; run again, it is made anew",
    Repairs(swept=1, committed=1),
    read=_READ,
)
_TWICE = promises.promise(
    "the mirror is made anew, and once more",
    Repairs(found_landed=1, committed=1),
    read=_READ,
)
_OVER = promises.promise("it was over; once more is the same", Repairs(committed=1), read=_READ)
REBUILD = Job(
    "rebuild",
    "a mirror that is made anew",
    {
        **at(
            _AGAIN,
            "rebuild.after-offset-commit",
            "rebuild.after-buffer-snapshot",
            "rebuild.after-flush-start",
            "rebuild.after-tasks",
            "drain.after-fold",
            "rebuild.after-parquet-written",
            "rebuild.before-swap",
        ),
        **at(
            _TWICE,
            "rebuild.after-swap",
            "rebuild.after-commit",
            "rebuild.after-iceberg-snapshot-created",
            "dead-letters.before-swap",
            "dead-letters.after-swap",
            "rebuild.after-dead-letters",
        ),
        **at(_OVER, "rebuild.after-flush-complete"),
    },
    promises.Outcomes("it is made anew, or as it was and then made anew", _OVER, _TWICE, _AGAIN),
    prepare=drain_and_change,
    work="rebuild",
    again=("rebuild",),
    swap="rebuild",
    settings=_SETTINGS,
    look=find_other_rows,
)
MIRROR_JOBS = (MIRROR, REBUILD)
_STRUCK_ONCE_MORE = (
    "rebuild.after-tasks",
    "rebuild.after-parquet-written",
    "rebuild.before-swap",
    "rebuild.after-swap",
    "rebuild.after-iceberg-snapshot-created",
)
RETYPING_REBUILD = replace(
    REBUILD,
    name="retyping-rebuild",
    title="a mirror that is made anew with another type",
    points={point: REBUILD.points[point] for point in _STRUCK_ONCE_MORE},
    prepare=drain_and_retype,
    look=find_other_rows_or_type,
)


def _restart(workload: Workload) -> None:
    """Restore the database from a backup, and produce its events."""
    drain_and_change(workload)
    source = workload.contents.source
    assert source is not None
    source.restored(RandomSource(_SEED))
    workload.produce_batch()


def _find_keys_twice(workload: Workload) -> Iterator[str]:
    """Yield keys with two rows; only a rebuild finds the source's row."""
    keys = workload.lab.rows()["id"].to_pylist()
    if len(set(keys)) != len(keys):
        yield f"{len(keys)} rows of {len(set(keys))} keys"


_FOLLOWED_AGAIN = promises.promise(
    "it changed nothing; accepted again, the mirror goes on", Repairs(committed=2), read=2 * BATCH
)
_FOLLOWED = promises.promise("it is accepted, the mirror goes on", Repairs(committed=1), read=2 * BATCH)
ACCEPT_RESTART = Job(
    "accept-restart",
    "the acceptance of a mirror's source that began anew",
    {
        **at(_FOLLOWED_AGAIN, "act.after-offset-commit", "act.before-swap"),
        **at(_FOLLOWED, "act.after-swap", "act.after-iceberg-snapshot-created"),
    },
    prepare=_restart,
    work="accept",
    again=("accept", "drain"),
    settings=_SETTINGS,
    look=_find_keys_twice,
)
