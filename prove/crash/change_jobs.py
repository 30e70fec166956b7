"""Drains of change events that find the source table altered: its schema comes with the events.

A column of it is new, one is wider, one is of a type that its column cannot be.
"""

from __future__ import annotations

import json
from functools import partial

from prove.crash import promises
from prove.crash.jobs import DRAIN, Job, at
from prove.crash.schema_jobs import find_other_columns
from prove.lab.debezium_events import Column, Source
from prove.lab.pipeline_lab import orders
from prove.workload import Workload

_ID = Column("int64", optional=False)
_EARLIER = Source({"id": _ID, "price": Column("float"), "code": Column("int32")})
_LATER = Source({"id": _ID, "price": Column("double"), "code": Column("string"), "note": Column("string")})

# What an undisturbed run makes of the table, the columns of events aside.
_ALTERED = {
    "id": {"long": "id long"},
    "price": {"float": "price double", "double": "price double"},
    "code": {"int": "code int", "string": "code_2 string"},
    "note": {"string": "note string"},
}


def _drain_and_alter(workload: Workload) -> None:
    workload.contents.orders = partial(_events, [_EARLIER])
    workload.drain_batches()
    workload.contents.orders = partial(_events, [_EARLIER, _LATER])
    workload.produce_batch()


def _events(sources: list[Source], first: int, count: int) -> list[bytes]:
    """Return events of tables in turn: rows, and a truncate every tenth time."""
    made = []
    for number, order in enumerate(map(json.loads, orders(first, count))):
        source = sources[number // 2 % len(sources)]
        code = number if source is _EARLIER else f"c{number}"
        row = {"id": order["id"], "price": order["price"], "code": code}
        row |= {"note": "new"} if source is _LATER else {}
        made.append(source.event("t", None) if number % 10 == 9 else source.event("c", row, lsn=number))
    return made


CHANGES = Job(
    "changes",
    "a drain of change events that meets their table altered",
    {
        **DRAIN.points,
        **at(promises.AGAIN, "columns.before-swap", "columns.after-swap", "drain.after-columns"),
    },
    DRAIN.outcome,
    prepare=_drain_and_alter,
    commits_before=1,
    settings={"layout": "changes"},
    look=partial(find_other_columns, _ALTERED),
)
