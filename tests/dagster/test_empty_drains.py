"""What a drain without a commit is to Dagster: nothing that wakes anybody, and no gap in a run."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from dagster import (
    AssetKey,
    AutomationCondition,
    DagsterInstance,
    Definitions,
    asset,
    evaluate_automation_conditions,
    materialize,
)

from assets.pipeline_asset import TAG_MAX_RUNTIME
from assets.replays import rebuild_asset
from assets.tables import table_asset
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.drain import drain as drains
from spark_jobs.drain.drain import DrainResult
from spark_jobs.replay import rebuild as rebuilds

if TYPE_CHECKING:
    from collections.abc import Mapping

KEY = AssetKey(["lake", "a"])
PIPELINE = PipelineConfig(name="a", topic="a", table="lake.a")


class NoServers:
    """The resource ``sluice`` of a drain that asks nobody."""

    def connections(self, *_args: object, **_of_run: object) -> nullcontext[None]:
        return nullcontext()


@asset(deps=[KEY], automation_condition=AutomationCondition.eager())
def child() -> None:
    """What a team hangs on a table."""


@pytest.mark.filterwarnings("ignore::dagster_shared.utils.warnings.BetaWarning")
def test_an_empty_drain_wakes_nobody_and_skips_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first drain materializes, one that moved too; a further one is observed, and what waits runs on."""
    table = table_asset(PIPELINE)
    resources = {"sluice": NoServers(), "spark": object()}
    definitions = Definitions([table, child], resources=resources)
    with DagsterInstance.ephemeral() as instance:

        def drain(offsets: Mapping[int, int], *, with_child: bool = False) -> tuple[int, int, int]:
            result = DrainResult("a", "lake.a", "caught-up", None, next_offsets=dict(offsets))
            monkeypatch.setattr(drains, "drain", lambda *_args, **_asked: result)
            run = materialize(
                [table, child],
                instance=instance,
                selection=[KEY, child.key] if with_child else [KEY],
                resources=resources,
            )
            events = (
                run.asset_materializations_for_node("drain_a"),
                run.asset_observations_for_node("drain_a"),
            )
            return len(events[0]), len(events[1]), len(run.asset_materializations_for_node("child"))

        def woken() -> int:
            nonlocal cursor
            seen = evaluate_automation_conditions(definitions, instance, cursor=cursor)
            cursor = seen.cursor
            return seen.total_requested

        cursor = None
        assert drain({0: 5}, with_child=True) == (1, 0, 1)
        woken()
        assert drain({0: 5}) == (0, 1, 0)
        assert woken() == 0
        assert drain({0: 5}, with_child=True) == (0, 1, 1)
        assert woken() == 0
        assert drain({0: 6}) == (1, 0, 0)
        assert woken() == 1


@pytest.mark.filterwarnings("ignore::dagster_shared.utils.warnings.BetaWarning")
def test_rows_that_were_made_again_wake_as_a_drain_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """The table is told of, and how far it is stays told: the next empty drain is no news; no end is set."""
    table, mirror = table_asset(PIPELINE), rebuild_asset(PIPELINE)
    resources = {"sluice": NoServers(), "spark": object()}
    definitions = Definitions([table, mirror, child], resources=resources)
    drained = DrainResult("a", "lake.a", "caught-up", None, next_offsets={0: 5})
    monkeypatch.setattr(drains, "drain", lambda *_args, **_asked: drained)
    batch = SimpleNamespace(counts=SimpleNamespace(bytes_read=1), durations_ms={}, snapshot_id=1)
    made = SimpleNamespace(balance={"rows": 1}, ranges=(), batches=(batch,))
    monkeypatch.setattr(rebuilds, "begins_at", lambda *_of: None)
    monkeypatch.setattr(rebuilds, "rebuild", lambda *_of, **_asked: made)
    cursor = None
    with DagsterInstance.ephemeral() as instance:
        woken = []
        for asked in (table, mirror, table):
            run = materialize([asked], instance=instance, resources=resources)
            seen = evaluate_automation_conditions(definitions, instance, cursor=cursor)
            cursor = seen.cursor
            woken.append(seen.total_requested)
            ends = instance.get_run_by_id(run.run_id).tags.get(TAG_MAX_RUNTIME)  # type: ignore[union-attr]
            assert ends == ("0" if asked is mirror else None)
    assert woken[1:] == [1, 0]
