"""Dagster's own pages as a person sees and uses them, in a real browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from dagster._core.execution.backfill import BulkActionStatus

from spark_jobs.checks.registry import BY_NAME
from spark_jobs.upkeep.registry import KINDS
from tests.browser.conftest import WINDOWS
from tests.support.dagster_scene import ORDERS_RECORDS

if TYPE_CHECKING:
    from pathlib import Path

    from dagster._core.execution.backfill import PartitionBackfill

    from prove.lab.browser import Page
    from tests.support.dagster_scene import Scene

# The first test also waits for Kafka, Spark, Dagster and the first drains.
pytestmark = [
    pytest.mark.kafka,
    pytest.mark.spark,
    pytest.mark.timeout(1800),
    pytest.mark.xdist_group("browser"),
]

EVERY = {name for name, check in BY_NAME.items() if not check.only_with}
IN_ORDER = ("topics", "tables", "upkeep")
GROUPS = (*IN_ORDER, "replay")


def test_who_has_no_token_sees_nothing(scene: Scene, page: Page) -> None:
    """By its other name the browser knows none for it."""
    with pytest.raises(AssertionError, match="ERR_INVALID_AUTH_CREDENTIALS"):
        page.open(scene.url.replace("127.0.0.1", "localhost"))


@pytest.mark.usefixtures("tended", "judged", "replayed")
def test_the_graph_shows_the_flow(scene: Scene, page: Page, screenshots: Path) -> None:
    """Topics, tables and what is done to them stand in this order; what was done and judged is green."""
    page.open(f"{scene.url}/asset-groups?expanded={','.join(f'global@global:{group}' for group in GROUPS)}")
    page.wait_for("Kafka", "Iceberg", *GROUPS, *(kind.name for kind in KINDS), "log", "2 partitions")
    # None counts as passed while the schedule's own run is under way.
    page.wait_for(f"{len(EVERY)} / {len(EVERY)} Passed", seconds=300)
    assert page.text.count("Never materialized") == 1  # no dead letter was to be sent again
    across = [page.place(group, within="foreignObject *")["x"] for group in IN_ORDER]
    assert across == sorted(across)
    page.screenshot(screenshots / "asset-graph.png")


@pytest.mark.usefixtures("judged")
def test_a_table_shows_itself(scene: Scene, page: Page, screenshots: Path) -> None:
    """Its state, what it is, its owner and its columns at a glance; the figures of its drains as plots."""
    page.open(scene.table_url)
    page.wait_for(
        "Iceberg", "sales@example.com", "Kafka offset; unique", f"{ORDERS_RECORDS:,}", "lag_records"
    )
    page.screenshot(screenshots / "table-asset.png", height=1140)
    page.click("Plots")
    page.wait_until("document.querySelectorAll('canvas').length > 1")


@pytest.mark.usefixtures("judged")
def test_checks_tell_what_they_found(scene: Scene, page: Page, screenshots: Path) -> None:
    """All pass on a healthy table; one's page has the fact, the numbers, plots and the way to the runbook."""
    page.open(f"{scene.table_url}?view=checks&checkDetail=complete")
    page.wait_for("0 missing, 0 duplicated", BY_NAME["complete"].runbook, "audited_offsets", *EVERY)
    page.wait_for("Succeeded", times=len(EVERY))
    page.screenshot(screenshots / "checks.png", height=1180)


def test_two_windows_are_backfilled(scene: Scene, page: Page, replayed: PartitionBackfill) -> None:
    """Windows chosen in the UI are drained again: both succeed, all rows are new, none lost or doubled."""
    assert replayed.status is BulkActionStatus.COMPLETED_SUCCESS, scene.failures()
    page.open(f"{scene.url}/runs/b/{replayed.backfill_id}")
    page.wait_for(*WINDOWS, "100% completed")
    rows = scene.lab.rows(scene.lab.pipeline.table)
    assert rows.num_rows == ORDERS_RECORDS
    ingested = set(rows["_ingested_at"].to_pylist())
    assert min(ingested).timestamp() > replayed.backfill_timestamp
    assert scene.lab.audit().is_clean
