"""Redrives as assets: the launchpad says which dead letters."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from dagster import AssetKey, DagsterInstance, materialize

from assets.replays import redrive_asset
from prove.lab.pipeline_lab import by_offset, configure, orders
from resources.sluice import Sluice
from resources.spark import SparkSessions
from tests.support.new_lab import DEAD_LETTERS

if TYPE_CHECKING:
    from tests.support.new_lab import NewLab

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

HALF = {"half": {"type": "long", "sql": "CASE WHEN id % 5 = 0 THEN CAST('x' AS BIGINT) ELSE id END"}}
MENDED = {"half": {"type": "long", "sql": "id"}}


def test_the_asset_sends_what_the_launchpad_asks_for(new_lab: NewLab) -> None:
    """As many as it says, of those phases and ranges; a malformed range fails by name."""
    lab = new_lab(orders(0, 30), columns=HALF)
    lab.drain()
    configure(lab, "pipelines/orders", {"columns": MENDED})
    asset = redrive_asset(lab.pipeline)
    resources = {"sluice": Sluice(lab.config), "spark": SparkSessions(lab.config)}
    asked = {"offsets": ["0:4-30"], "phases": ["transform"], "limit": 3, "reason": "a test"}
    with DagsterInstance.ephemeral() as instance:
        done, refused = (
            materialize(
                [asset],
                instance=instance,
                resources=resources,
                run_config={"ops": {asset.node_def.name: {"config": config}}},
                raise_on_error=False,
            )
            for config in (asked, {"offsets": ["4-30"]})
        )
        event = instance.get_latest_materialization_event(AssetKey(["replay", "redrive_orders"]))
    assert (done.success, refused.success) == (True, False)
    assert sorted(offset for _, offset in by_offset(lab, DEAD_LETTERS)) == [0, 20, 25]
    assert event is not None
    assert event.asset_materialization is not None
    metadata = event.asset_materialization.metadata
    assert (metadata["rows"].value, metadata["failed_again"].value) == (3, 0)
