"""Rebuilds as assets: a mirror made anew as the launchpad says."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from dagster import AssetKey, DagsterInstance, materialize

from assets.replays import rebuild_asset
from prove.lab.generated_changes import RandomSource
from tests.support.new_lab import NewLab

if TYPE_CHECKING:
    from pathlib import Path

    from prove.lab.kafka_server import KafkaBroker


@pytest.mark.kafka
def test_the_launchpad_makes_a_mirror_anew(kafka: KafkaBroker, tmp_path: Path) -> None:
    """With `force` also where the topic's beginning is gone, else refused by name, as a malformed time is."""
    source = RandomSource(4)
    lab = NewLab(kafka, "", tmp_path, is_here=True)(
        [told.record(1) for told in source.changes(12)], layout="mirror"
    )
    lab.drain()
    kafka.delete_records(lab.pipeline.topic, {0: 1})
    asset = rebuild_asset(lab.pipeline)
    sluice = SimpleNamespace(connections=lambda *_of, **_run: lab.connections())
    with DagsterInstance.ephemeral() as instance:

        def launch(**config: object) -> str:
            run = materialize(
                [asset],
                instance=instance,
                resources={"sluice": sluice, "spark": object()},
                run_config={"ops": {"rebuild_orders": {"config": config}}},
                raise_on_error=False,
            )
            return "" if run.success else str(run.get_step_failure_events()[0].event_specific_data)

        assert "rebuild-would-lose" in launch()
        assert "time-malformed" in launch(from_time="yesterday")
        assert launch(force=True, reason="a test") == ""
        assert launch(from_time="2020-01-01T00:00:00Z") == ""
        event = instance.get_latest_materialization_event(AssetKey(["replay", "rebuild_orders"]))
    assert event is not None
    assert event.asset_materialization is not None
    metadata = event.asset_materialization.metadata
    end = lab.drain().next_offsets[0]
    assert (metadata["offsets"].value, metadata["ranges"].value) == (end - 1, f"0:1-{end}")
