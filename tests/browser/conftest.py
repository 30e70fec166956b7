"""A browser over a Dagster that drains a pipeline, and what a person did there: each once for all tests."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from dagster import DagsterRunStatus

from assets.pipeline_asset import GROUP_UPKEEP, again_key
from prove.lab.browser import Page, open_browser
from servers.process import ServerFolder
from spark_jobs.replay.ranges import window_key
from tests.support.dagster_scene import TOKEN, Scene, open_scene

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dagster._core.execution.backfill import PartitionBackfill

    from prove.lab.kafka_server import KafkaBroker

# SLUICE_SCREENSHOTS=docs/images ./sluice test tests/browser: takes the README's pictures anew.
SCREENSHOTS = "SLUICE_SCREENSHOTS"
DIALOG_HEIGHT = 860

WINDOWS = (window_key(0), window_key(500_000))


@pytest.fixture(scope="module")
def page(servers_folder: Path) -> Iterator[Page]:
    """The browser's tab."""
    with open_browser(ServerFolder(servers_folder, "browser")) as opened:
        yield opened


@pytest.fixture(scope="module")
def scene(kafka: KafkaBroker, spark_remote: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """Dagster with everything drained."""
    with open_scene(tmp_path_factory.mktemp("scene"), kafka, spark_remote) as opened:
        opened.wait_until_drained()
        yield opened


@pytest.fixture(scope="module", autouse=True)
def signed_in(scene: Scene, page: Page) -> None:
    """The browser gave the UI's token as a password, once: what it shows after that came past the guard."""
    page.open(scene.url.replace("://", f"://anybody:{TOKEN}@"))
    page.wait_for("Overview")


@pytest.fixture(scope="session")
def screenshots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where pictures go: nowhere that lasts unless they are asked for."""
    asked = os.environ.get(SCREENSHOTS)
    return Path(asked) if asked else tmp_path_factory.mktemp("screenshots")


@pytest.fixture(scope="module")
def tended(scene: Scene, page: Page) -> None:
    """A person asked for all upkeep of the table."""
    page.open(f"{scene.url}/locations/sluice/asset-groups/{GROUP_UPKEEP}/lineage")
    page.click("Materialize all")
    status = scene.wait_for_run(
        lambda run: any(key.path[0] == GROUP_UPKEEP for key in run.asset_selection or ())
    )
    assert status is DagsterRunStatus.SUCCESS, scene.failures()


@pytest.fixture(scope="module")
def judged(scene: Scene, page: Page) -> None:
    """A person asked for all checks of the table."""
    page.open(f"{scene.table_url}?view=checks")
    page.click("Execute all")
    status = scene.wait_for_run(lambda run: bool(run.asset_check_selection))
    assert status is DagsterRunStatus.SUCCESS, scene.failures()


@pytest.fixture(scope="module")
def replayed(scene: Scene, page: Page, screenshots: Path) -> PartitionBackfill:
    """A person chose two windows of offsets and launched their backfill, which has ended."""
    scene.wait_for_windows(len(WINDOWS))
    _list_windows(
        page, f"{scene.url}/assets/{again_key('replay', scene.lab.pipeline).to_user_string()}?view=partitions"
    )
    for window, chosen in zip(WINDOWS, ("1 partition\n", "2 partitions\n"), strict=True):
        page.click(window, within="label *")
        page.wait_for(chosen)
    page.screenshot(screenshots / "backfill.png", height=DIALOG_HEIGHT)
    page.click("Partition selection")  # closes the list, which covers the button
    page.click("Launch backfill")
    return scene.wait_for_backfill()


def _list_windows(page: Page, url: str) -> None:
    """Open their list; on a slow machine the page makes its dialog anew under a click, which is lost then."""
    for _ in range(3):
        page.open(url)
        page.click("Materialize…")
        page.click("Select a partition or create one")
        if page.shows(WINDOWS[0], within="label *", seconds=20):
            return
