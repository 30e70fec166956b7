"""Upkeep of a lab's tables as Dagster and the command line do it, and many small commits to tidy up."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from prove.lab.pipeline_lab import PIPELINE, configure, orders
from resources.sluice import open_connections
from spark_jobs.upkeep.registry import BY_NAME
from spark_jobs.upkeep.upkeep import run_upkeep

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prove.lab.pipeline_lab import Lab
    from spark_jobs.connections.connect import Connections
    from spark_jobs.upkeep.upkeep import UpkeepResult
    from tests.support.new_lab import NewLab

BROKEN = b"not json"


@contextmanager
def upkeep_connections(lab: Lab, **changes: Any) -> Iterator[Connections]:
    """Connections whose Spark session knows the catalog, with ``changes`` (a clock, fail points)."""
    with open_connections(lab.config, PIPELINE, kind="upkeep", actor="test", run_id="test") as plain:
        yield replace(plain, **changes)


def tidy(lab: Lab, kind: str, *, changes: Any = None, **options: Any) -> UpkeepResult:
    """Run one kind of upkeep of the lab's pipeline."""
    with upkeep_connections(lab, **(changes or {})) as connections:
        return run_upkeep(BY_NAME[kind], lab.pipeline, connections, **options)


def set_upkeep(lab: Lab, **settings: Any) -> None:
    """Change the pipeline's ``upkeep`` section."""
    configure(lab, f"pipelines/{PIPELINE}", {"upkeep": settings})


def drain_often(lab: Lab, new_lab: NewLab, times: int, *, records: int = 10) -> None:
    """So many drains, each of some orders and one record that becomes a dead letter; not on Spark."""
    here = replace(lab, is_here=True)
    for n in range(times):
        new_lab.produce(lab, [*orders(n * records, records), BROKEN])
        here.drain()


def expect_whole(lab: Lab, times: int, *, records: int = 10) -> None:
    """Every record of ``times`` productions of ``drain_often`` exactly once, and readable."""
    found = lab.audit()
    assert found.is_clean, found
    assert (found.rows, found.dead_letters, found.lag) == (records * times, times, 0), found
    assert lab.rows().num_rows == records * times
