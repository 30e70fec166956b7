"""Fixtures of the integration tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from prove.lab.new_lab import NewLab
from tests.support.lake import Lake
from tests.support.recovery_scene import Scene, make_scene

if TYPE_CHECKING:
    from pathlib import Path

    from prove.lab.kafka_server import KafkaBroker


@pytest.fixture
def scene(sqlite_catalog_properties: dict[str, str], tmp_path: Path) -> Scene:
    """The embedded catalog and folders."""
    return make_scene(Lake("sqlite", sqlite_catalog_properties, "demo"), str(tmp_path / "state"))


@pytest.fixture
def new_lab(kafka: KafkaBroker, spark_remote: str, tmp_path: Path) -> NewLab:
    """Makes the test's pipelines, each over a topic of its own."""
    return NewLab(kafka, spark_remote, tmp_path)
