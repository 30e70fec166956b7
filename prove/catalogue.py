"""The catalogue of scenarios, by name."""

from __future__ import annotations

from fnmatch import fnmatchcase

from prove.crash.matrix import crash_cells
from prove.hostile import (
    broker,
    catalog,
    clocks,
    cluster,
    columns,
    debezium,
    followed,
    fresh,
    gateway,
    gateway_away,
    gateway_far,
    gateway_noise,
    kafka,
    lake,
    log,
    machine,
    mirrors,
    new_types,
    properties,
    records,
    restored_database,
    rounds,
    sanitized,
    served,
    storage,
)
from prove.scenario import Scenario
from prove.soak.soak import soaks
from prove.zombie import acts, redrives, runs, tasks

# What `--quick` and the suite run: one of each kind of job, of catalog and of nemesis, where no test of the
# suite's own strikes there. `tests/faults/test_kill_points.py` has drains, recoveries and checkpoints,
# `tests/contract/test_catalog_outcome.py` the answers of catalogs.
QUICK = (
    "sqlite/first-batch/kill-drain.after-table-made",
    "sqlite/replay/kill-replay.after-swap",
    "sqlite/redrive/kill-redrive.after-swap",
    "sqlite/beside-redrive/rollback/dead-letters.before-swap",
    "sqlite/publish/kill-held.after-published",
    "sqlite/held-drain/kill-drain.after-held",
    "sqlite/discard/kill-act.after-swap",
    "sqlite/rollback/kill-rollback.after-swap",
    "sqlite/routed-drain/kill-routes.before-swap",
    "sqlite/routed-replay/kill-routes.after-swap",
    "sqlite/retype/kill-retype.after-swap",
    "sqlite/new-schema/kill-commit.before-swap",
    "sqlite/new-columns/killed-after-commit",
    "sqlite/export-keep/kill-export.after-refused",
    "postgres/drain/ended-at-commit",
    "rest/drain/landed-409",
    "rest/drain/late-504-noticed",
    "sqlite/zombie/two-schemas/columns-there",
    "sqlite/beside/asleep/accept-moved",
    "rest/store/denied/committing",
    "rest/clock/behind/adopted",
    "rest/soak/short",
)
# The suite's soak: a red one is then of the change that was made.
USUAL_SEED = 1


def all_scenarios(seed: int = USUAL_SEED) -> dict[str, Scenario]:
    """Return all scenarios by name, in the report's order; ``seed`` is the soaks'."""
    sleepers = (runs, acts, redrives, tasks)
    topics = (kafka, broker, cluster, records, sanitized)
    tables = (
        lake,
        columns,
        properties,
        log,
        fresh,
        followed,
        served,
        debezium,
        new_types,
        restored_database,
        mirrors,
        gateway,
        gateway_noise,
        gateway_away,
        gateway_far,
    )
    servers = (storage, catalog, machine, rounds, clocks)
    scenarios = (
        *(cell.scenario() for cell in crash_cells()),
        *(scenario for room in (*sleepers, *topics, *tables, *servers) for scenario in room.SCENARIOS),
        *soaks(seed),
    )
    by_name = {scenario.name: scenario for scenario in scenarios}
    assert len(by_name) == len(scenarios), "two scenarios have the same name"
    return by_name


def choose(*, only: str = "*", is_quick: bool = False, seed: int = USUAL_SEED) -> list[Scenario]:
    """Return scenarios whose name matches the shell pattern ``only``; ``is_quick`` selects a short list."""
    return [
        each
        for each in all_scenarios(seed).values()
        if fnmatchcase(each.name, only)
        and (not is_quick or any(fnmatchcase(each.name, pattern) for pattern in QUICK))
    ]
