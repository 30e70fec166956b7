"""Upkeep as the sensor asks for it, as an asset does it and as a person types it."""

from __future__ import annotations

import json
import logging
import time
from typing import TYPE_CHECKING, Any

import pytest
from dagster import AssetKey, DagsterInstance, SensorResult, build_sensor_context, materialize

from assets.upkeep import upkeep_assets
from cli.app import main
from orchestration.build import build_definitions
from orchestration.upkeep_sensor import upkeep_sensor
from resources.sluice import Sluice
from resources.spark import SparkSessions
from spark_jobs.protocol.errors import fault
from spark_jobs.upkeep.upkeep import run_upkeep
from tests.support.upkeep_lab import drain_often, expect_whole, set_upkeep

if TYPE_CHECKING:
    from prove.lab.pipeline_lab import Lab
    from spark_jobs.upkeep.kind import UpkeepKind
    from spark_jobs.upkeep.upkeep import UpkeepResult
    from tests.support.new_lab import NewLab

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

DRAINS = 5
COMPACTION = AssetKey(["upkeep", "compaction_orders"])


def _tick(lab: Lab, instance: DagsterInstance, sluice: Sluice, cursor: str | None = None) -> SensorResult:
    with build_sensor_context(
        instance=instance,
        cursor=cursor,
        resources={"sluice": sluice},
        definitions=build_definitions(lab.config),
    ) as context:
        result = upkeep_sensor(context)
    assert isinstance(result, SensorResult)
    return result


def _asked(result: SensorResult) -> list[AssetKey]:
    return [key for request in result.run_requests or () for key in request.asset_selection or ()]


def test_small_files_are_noticed_and_merged(
    new_lab: NewLab, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The sensor asks once enough files came together; the asset shows what it did; then none is due."""
    lab = new_lab()
    set_upkeep(lab, compact_above=DRAINS)
    drain_often(lab, new_lab, DRAINS - 1)
    sluice = Sluice(lab.config)
    with DagsterInstance.ephemeral() as instance:
        quiet = _tick(lab, instance, sluice)
        assert _asked(quiet) == []
        # Half of the limit more is what makes the sensor read manifests again.
        drain_often(lab, new_lab, DRAINS)
        assert _asked(_tick(lab, instance, sluice, quiet.cursor)) == [COMPACTION]
        result = materialize(
            upkeep_assets(lab.pipeline),
            instance=instance,
            resources={"sluice": sluice, "spark": SparkSessions(lab.config)},
            selection=[COMPACTION],
        )
        (event,) = result.asset_materializations_for_node("upkeep_orders")
        shown = {name: value.value for name, value in event.metadata.items()}
        files = 2 * DRAINS - 1
        assert (shown["data_files_before"], shown["data_files_after"]) == (files, 1)
        assert (shown["dead_letters_data_files_before"], shown["dead_letters_data_files_after"]) == (files, 1)
        assert _asked(_tick(lab, instance, sluice, quiet.cursor)) == []
        a_day_ago = json.dumps({"orders": time.time() - 90_000})
        orphans = AssetKey(["upkeep", "orphans_orders"])
        assert _asked(_tick(lab, instance, sluice, a_day_ago)) == [orphans]
    monkeypatch.setenv("SLUICE_CONFIG", str(lab.path))
    assert main(["upkeep", "orders", "--only", "manifests", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert printed["due"] == {"manifests": "requested with --only"}
    assert [table["after"]["data_files"] for table in printed["tables"]] == [1, 1]
    assert main(["upkeep", "orders", "--dry-run", "--json"]) == 0
    printout = capsys.readouterr().out
    assert "orphans: looked for every time\n" in printout
    assert ": 0 found, 0 to delete\n" in printout
    assert "outcome" in printout
    assert "nothing was changed\n" in printout
    printed = json.loads(printout.splitlines()[-1])
    assert list(printed["due"]) == ["orphans"]
    assert [table["done"]["counts"]["deletable"] for table in printed["tables"]] == [0, 0]
    expect_whole(lab, files)


def test_upkeep_that_fails_does_not_keep_the_rest_of_its_step_from_running(
    new_lab: NewLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each asset of the step is materialized unless its own upkeep failed; the step fails in the end."""
    lab = new_lab()
    drain_often(lab, new_lab, 1)

    def broken(kind: UpkeepKind, *rest: Any) -> UpkeepResult:
        if kind.name in {"compaction", "manifests"}:
            raise fault("table-gone", table=lab.pipeline.table)
        return run_upkeep(kind, *rest)

    monkeypatch.setattr("spark_jobs.upkeep.upkeep.run_upkeep", broken)
    with DagsterInstance.ephemeral() as instance:
        result = materialize(
            upkeep_assets(lab.pipeline),
            instance=instance,
            resources={"sluice": Sluice(lab.config), "spark": SparkSessions(lab.config)},
            raise_on_error=False,
        )
        done = {event.asset_key.path[-1] for event in result.get_asset_materialization_events()}
        errors = [entry.message for entry in instance.all_logs(result.run_id) if entry.level == logging.ERROR]
    assert not result.success
    assert done == {"log_orders", "snapshots_orders", "orphans_orders"}
    for name in ("compaction", "manifests"):
        assert any(f"upkeep/{name}_orders failed" in error for error in errors)
