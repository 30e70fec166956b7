"""The check `hot`: what Dagster says of the `serve` that runs, of one that does not, and of another's."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest
from dagster import AssetCheckSeverity, DagsterInstance, Definitions

from assets.checks import hot_check
from assets.pipeline_asset import CHECKS
from orchestration.jobs import judging_job
from resources.sluice import Sluice
from servers.asking import lake_id
from servers.process import free_ports
from serving.service import QueryService
from spark_jobs.config.listener import Address, ServeSettings
from spark_jobs.config.sections import HotSettings
from spark_jobs.config.settings import CatalogSettings, PipelineConfig, SluiceConfig
from spark_jobs.hot.tail_status import State, TailStatus
from spark_jobs.hot.watermark import Watermark
from spark_jobs.protocol.errors import SourceChanged
from tests.support.asked import Drained, answering

if TYPE_CHECKING:
    from pathlib import Path

    from dagster import AssetCheckEvaluation

    from spark_jobs.connections.connect import Connections

PIPELINE = PipelineConfig(
    name="orders", topic="orders", table="lake.orders", hot=HotSettings.model_validate({})
)
REASON = SourceChanged("another topic", code="topic-recreated", hint="Accept it.")
SEEN = {"watermark": Watermark(1, 0, {0: 7}), "hot_rows": 3, "size_bytes": 99, "age_ms": 1500}


@pytest.fixture(scope="module")
def instance() -> DagsterInstance:
    """One in memory, for all."""
    return DagsterInstance.ephemeral()


def _evaluated(instance: DagsterInstance, config: SluiceConfig) -> AssetCheckEvaluation:
    check = hot_check(PIPELINE)
    assert check is not None
    definitions = Definitions(
        asset_checks=[check], jobs=[judging_job(CHECKS, [check])], resources={"sluice": Sluice(config)}
    )
    run = definitions.resolve_job_def(CHECKS).execute_in_process(instance=instance)
    (evaluation,) = run.get_asset_check_evaluations()
    return evaluation


def _config(folder: Path, port: int) -> SluiceConfig:
    return SluiceConfig(
        home=str(folder),
        state=str(folder),
        catalog=CatalogSettings(properties={}),
        serve=ServeSettings(listen=Address("127.0.0.1", port)),
    )


def test_it_passes_while_serve_is_live_and_says_why_it_is_not(
    instance: DagsterInstance, tmp_path: Path
) -> None:
    """Not fresh is a warning, no answer that could be trusted a failure with what mends it."""
    tails = Drained({"orders": PIPELINE}, cast("Connections", None))
    service = QueryService([PIPELINE], tails.connections, tails, ServeSettings())
    config = _config(tmp_path, free_ports(1)[0])
    away = _evaluated(instance, config)
    assert (away.passed, away.severity) == (False, AssetCheckSeverity.WARN)
    assert away.metadata["fix"].value == "./sluice up, or ./sluice serve orders"
    with answering(service, lake_id(config)) as client:
        config = _config(tmp_path, client.base_url.port or 0)
        for state, severity in (
            (State.LIVE, None),
            (State.CATCHING_UP, AssetCheckSeverity.WARN),
            (State.FULL, AssetCheckSeverity.WARN),
            (State.STARTING, AssetCheckSeverity.WARN),
        ):
            tails.states["orders"] = TailStatus("orders", state, **SEEN)
            found = _evaluated(instance, config)
            assert found.passed or found.severity is severity
            assert found.passed == (severity is None)
        told = {name: value.value for name, value in found.metadata.items()}
        assert (told["rows"], told["age_seconds"], told["watermark"]) == (3, 1.5, "1.0/0:7")
        for state in (State.BLOCKED, State.FAILED):
            tails.states["orders"] = TailStatus("orders", state, reason=REASON)
            found = _evaluated(instance, config)
            assert (found.passed, found.severity) == (False, AssetCheckSeverity.ERROR)
            assert found.description == f"{state}: another topic [topic-recreated]"
            assert found.metadata["fix"].value == "Accept it."
    with answering(service, lake_id(config), tokens=["of-another-configuration-1234"]) as client:
        refused = _evaluated(instance, _config(tmp_path, client.base_url.port or 0))
    assert (refused.passed, refused.severity) == (False, AssetCheckSeverity.ERROR)
    assert "`serve`" in str(refused.description)
