"""Jobs of a pipeline with routed tables, and changes to those between crash and restart."""

from __future__ import annotations

from typing import Any

from pyiceberg.types import StringType

from prove.crash import promises
from prove.crash.jobs import DRAINED, REPLAYING, ROLLING_BACK, TICK_AND_REPLAY, Job, at, drain_twice
from prove.crash.nemeses import KillAndChange
from prove.crash.promises import REPLAYED
from prove.lab.pipeline_lab import configure
from prove.workload import Workload

_ONES, _TWOS, _THREES = (f"routed.{name}_{{topic}}" for name in ("ones", "twos", "threes"))
_SETTINGS: dict[str, Any] = {"route": {"by": "id % 4", "tables": {"1": _ONES, "2": _TWOS}}}
_PAYING = ("routes.before-swap", "routes.after-swap")

ROUTED_DRAIN = Job(
    "routed-drain",
    "a drain into several tables",
    {**DRAINED, **at(promises.FOUND, *_PAYING)},
    promises.SETTLED,
    settings=_SETTINGS,
)
ROUTES = Job(
    "routed-rows",
    "the commit of routed rows",
    {},
    promises.DEAD_LETTERS_SETTLED,
    swap="routes",
    target="routes",
    settings=_SETTINGS,
)
ROUTED_REPLAY = Job(
    "routed-replay",
    "a replay in several tables",
    {**REPLAYING, **at(promises.REPLAYED_TWICE, *_PAYING)},
    promises.REPLAY_SETTLED,
    prepare=drain_twice,
    work=f"replay {REPLAYED}",
    again=TICK_AND_REPLAY,
    swap="replay",
    settings=_SETTINGS,
)
REPLAY_ROUTES = Job(
    "routed-replay-rows",
    "the commit of routed rows of a replay",
    {},
    promises.REPLAY_LANDED,
    prepare=drain_twice,
    work=f"replay {REPLAYED}",
    again=TICK_AND_REPLAY,
    swap="routes",
    target="routes",
    settings=_SETTINGS,
)
ROUTED_ROLLBACK = Job(
    "routed-rollback",
    "a rollback of several tables",
    {**ROLLING_BACK, **at(promises.ROLLBACK_OVER, *_PAYING)},
    promises.ROLLBACK_SETTLED,
    prepare=drain_twice,
    work="rollback",
    swap="rollback",
    settings=_SETTINGS,
)
# Its first batch: what a dropped table had of earlier ones is gone with it.
ROUTED_FIRST = Job(
    "routed-first-batch",
    "a first batch of several tables",
    {},
    prepare=Workload.produce_batch,
    settings=_SETTINGS,
)
ROUTED_JOBS = (ROUTED_DRAIN, ROUTES, ROUTED_REPLAY, REPLAY_ROUTES, ROUTED_ROLLBACK)


def _route(workload: Workload, **tables: str) -> None:
    route = {"by": "id % 4", "tables": {value[1:]: table for value, table in tables.items()}}
    configure(workload.lab, f"pipelines/{workload.lab.pipeline.name}", {"route": route})


def route_added(workload: Workload) -> None:
    """List a third table."""
    _route(workload, _1=_ONES, _2=_TWOS, _3=_THREES)


def route_changed(workload: Workload) -> None:
    """Swap the tables of two values."""
    _route(workload, _1=_TWOS, _2=_ONES)


def route_removed(workload: Workload) -> None:
    """Remove the route."""
    configure(workload.lab, f"pipelines/{workload.lab.pipeline.name}", {"route": None})


def table_dropped(workload: Workload) -> None:
    """Drop one of the tables by another engine."""
    with workload.lab.connections() as connections:
        connections.open_catalog().drop_table(workload.lab.pipeline.routed_tables[0])


def table_renamed(workload: Workload) -> None:
    """Rename one of the tables by another engine."""
    name = workload.lab.pipeline.routed_tables[0]
    with workload.lab.connections() as connections:
        connections.open_catalog().rename_table(name, f"{name}_old")


def table_evolved(workload: Workload) -> None:
    """Add a first column to one of the tables by another engine."""
    table = workload.lab.table(workload.lab.pipeline.routed_tables[0])
    with table.update_schema() as update:
        update.add_column("note", StringType())
        update.move_first("note")


ROUTED_CHANGES = tuple(
    (job, KillAndChange(point, change, promise, is_of_rows=change.__name__.startswith("route_")))
    for job, changes in (
        (ROUTED_DRAIN, (route_added, route_changed, route_removed, table_evolved)),
        (ROUTED_FIRST, (table_dropped, table_renamed)),
    )
    for change in changes
    for point, promise in (
        ("drain.after-parquet-written", promises.ADOPTED),
        ("drain.after-commit", promises.FOUND),
    )
)
