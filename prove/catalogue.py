"""Every scenario there is, by name."""

from __future__ import annotations

from fnmatch import fnmatchcase

from prove.crash.matrix import crash_cells
from prove.hostile import (
    broker,
    catalog,
    clocks,
    cluster,
    columns,
    kafka,
    lake,
    log,
    machine,
    properties,
    records,
    storage,
)
from prove.scenario import Scenario
from prove.soak.soak import soaks
from prove.zombie import acts, runs, tasks

# What `--quick` and the suite run: each job where it differs from the others, and what once broke something;
# not what the suite's own tests show.
QUICK = (
    "sqlite/first-batch/kill-drain.after-table-made",
    "sqlite/first-batch/kill-split.after-chunk",
    "sqlite/first-batch/kill-commit.after-swap",
    "sqlite/first-batch/kill-dead-letters.after-swap",
    "sqlite/replay/kill-replay.after-tasks",
    "sqlite/replay/kill-replay.after-swap",
    "sqlite/publish/kill-held.after-published",
    "sqlite/publish/kill-recover.after-adoption",
    "sqlite/held-drain/kill-drain.after-held",
    "sqlite/rejecting-drain/kill-drain.after-gate",
    "sqlite/discard/kill-act.after-swap",
    "sqlite/discard/kill-recover.before-delete",
    "sqlite/rollback/kill-rollback.after-swap",
    "sqlite/retype/kill-change.after-swap",
    "sqlite/retype/kill-retype.after-swap",
    "sqlite/rollback/kill-dead-letters.before-swap",
    "sqlite/new-schema/kill-commit.before-swap",
    "sqlite/new-columns/killed-after-commit",
    "sqlite/export-keep/kill-export.after-refused",
    "sqlite/drain/locked-at-commit",
    "sqlite/drain/disk-full",
    "sqlite/first-batch/killed-after-commit",
    "sqlite/recovery/kill-recover.after-adoption",
    "sqlite/recovery-of-half/kill-recover.before-delete",
    "sqlite/recovery-of-landed/kill-dead-letters.after-swap",
    "sqlite/checkpoint/kill-checkpoint.after-entered",
    "postgres/first-batch/kill-commit.after-swap",
    "postgres/drain/ended-at-commit",
    "rest/drain/refused-409",
    "rest/drain/cut-after",
    "rest/drain/landed-409",
    "rest/drain/late-504-noticed",
    "rest/first-batch/landed-twice",
    "rest/dead-letters/cut-after",
    "rest/recovery/half-answer",
    "rest/checkpoint/landed-504",
    "sqlite/zombie/two-schemas/columns-there",
    "sqlite/beside/asleep/accept-moved",
    "rest/zombie/rolled-back",
    "sqlite/properties/owed-forgotten",
    "sqlite/log/files-garbage",
    "rest/store/denied/committing",
    "rest/clock/behind/adopted",
    "rest/soak/short",
)
# The suite's soak: a red one is then of the change that was made.
USUAL_SEED = 1


def all_scenarios(seed: int = USUAL_SEED) -> dict[str, Scenario]:
    """By name, in the report's order; ``seed`` is the soaks'."""
    sleepers = (runs, acts, tasks)
    topics = (kafka, broker, cluster, records)
    tables = (lake, columns, properties, log)
    servers = (storage, catalog, machine, clocks)
    scenarios = (
        *(cell.scenario() for cell in crash_cells()),
        *(scenario for room in (*sleepers, *topics, *tables, *servers) for scenario in room.SCENARIOS),
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
        if fnmatchcase(each.name, only)
        and (not is_quick or any(fnmatchcase(each.name, pattern) for pattern in QUICK))
    ]
