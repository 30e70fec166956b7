"""A browser over a Dagster that drains a pipeline; both are started once for all tests here."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from prove.lab.server_folder import ServerFolder
from tests.support.browser import Page, open_browser
from tests.support.dagster_scene import Scene, open_scene

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prove.lab.kafka_server import KafkaBroker

# SLUICE_SCREENSHOTS=docs/images ./sluice test tests/browser: takes the README's pictures anew.
SCREENSHOTS = "SLUICE_SCREENSHOTS"


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


@pytest.fixture(scope="session")
def screenshots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where pictures go: nowhere that lasts unless they are asked for."""
    asked = os.environ.get(SCREENSHOTS)
    return Path(asked) if asked else tmp_path_factory.mktemp("screenshots")
