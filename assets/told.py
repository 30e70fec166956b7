"""Tells a Dagster instance what was done outside its runs, as a run would have shown it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dagster import AssetKey

SETTINGS = "dagster.yaml"


def instance_home(state_folder: str) -> Path | None:
    """Return the folder of the instance to tell: that of `./sluice up`, else ``DAGSTER_HOME``, else None."""
    named = os.environ.get("DAGSTER_HOME")
    folders = [Path(state_folder) / "dagster", *([Path(named)] if named else [])]
    return next((folder for folder in folders if (folder / SETTINGS).is_file()), None)


def tell(home: Path, key: AssetKey, metadata: Mapping[str, Any], *, actor: str, is_news: bool) -> None:
    """Report a materialization by ``actor``; what is no news only of an asset that was never materialized."""
    from dagster import AssetMaterialization, DagsterInstance  # a second, which nobody waits for without one

    with DagsterInstance.from_config(str(home)) as instance:
        if is_news or instance.get_latest_materialization_event(key) is None:
            event = AssetMaterialization(key, metadata={**metadata, "done by": actor})
            instance.report_runless_asset_event(event)
