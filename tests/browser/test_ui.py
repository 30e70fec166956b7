"""Dagster's own pages as a person sees and uses them, in a real browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.browser import Page
    from tests.support.dagster_scene import Scene

# The first test also waits for Kafka, Spark, Dagster and the first drains.
pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(1800)]

IN_ORDER = ("topics", "tables", "upkeep")
GROUPS = (*IN_ORDER, "replay")


def test_the_graph_shows_the_flow(scene: Scene, page: Page, screenshots: Path) -> None:
    """Topics, tables and what is done to them stand in this order, and tables are green."""
    page.open(f"{scene.url}/asset-groups?expanded={','.join(f'global@global:{group}' for group in GROUPS)}")
    page.wait_for("Materialized", "Kafka", "Iceberg", *GROUPS)
    across = [page.place(group, within="foreignObject *")["x"] for group in IN_ORDER]
    assert across == sorted(across)
    page.screenshot(screenshots / "asset-graph.png")
