"""What a drain without a commit is to Dagster: nothing that wakes anybody, and no gap in a run."""

from __future__ import annotations

from contextlib import nullcontext
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

from assets.tables import table_asset
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.drain import drain as drains
from spark_jobs.drain.drain import DrainResult

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
