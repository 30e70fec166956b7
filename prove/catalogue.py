"""Every scenario there is, by name."""

from __future__ import annotations

from fnmatch import fnmatchcase

from prove.crash.matrix import crash_matrix
from prove.hostile.broker import hostile_brokers
from prove.hostile.catalog import hostile_catalogs
from prove.hostile.clocks import clocks
from prove.hostile.cluster import hostile_clusters
from prove.hostile.columns import hostile_columns
from prove.hostile.disk import hostile_disks
from prove.hostile.kafka import hostile_topics
from prove.hostile.lake import hostile_lakes
from prove.hostile.log import hostile_logs
from prove.hostile.machine import machines
from prove.hostile.properties import hostile_properties
from prove.hostile.records import hostile_records
from prove.hostile.store import hostile_stores
from prove.scenario import Scenario
from prove.soak.soak import soaks
from prove.zombie.runs import zombies
from prove.zombie.tasks import zombie_tasks

# The suite's soak: a red one is then of the change that was made.
USUAL_SEED = 1


def all_scenarios(seed: int = USUAL_SEED) -> dict[str, Scenario]:
    """By name, in the report's order; ``seed`` is the soaks'."""
    scenarios = (
        *crash_matrix(),
        *zombies(),
        *zombie_tasks(),
        *hostile_topics(),
        *hostile_brokers(),
        *hostile_clusters(),
        *hostile_records(),
        *hostile_lakes(),
        *hostile_columns(),
        *hostile_properties(),
        *hostile_logs(),
        *hostile_stores(),
        *hostile_disks(),
        *hostile_catalogs(),
        *machines(),
        *clocks(),
        *soaks(seed),
    )
    by_name = {scenario.name: scenario for scenario in scenarios}
    assert len(by_name) == len(scenarios), "two scenarios have the same name"
    return by_name


def choose(*, only: str = "*", is_quick: bool = False, seed: int = USUAL_SEED) -> list[Scenario]:
    """Those whose name matches the shell pattern ``only``; with ``is_quick`` the short selection of them."""
    return [
        each
        for each in all_scenarios(seed).values()
        if fnmatchcase(each.name, only) and (each.is_quick or not is_quick)
    ]
