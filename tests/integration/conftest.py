"""Fixtures of the integration tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.lake import Lake
from tests.support.recovery_scene import Scene, make_scene

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def scene(sqlite_catalog_properties: dict[str, str], tmp_path: Path) -> Scene:
    """The embedded catalog and folders."""
    return make_scene(Lake("sqlite", sqlite_catalog_properties, "demo"), str(tmp_path / "state"))
