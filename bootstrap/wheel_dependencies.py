"""Tells hatchling what a wheel of Sluice needs: the lines that a clone's environment is solved from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class Dependencies(MetadataHookInterface):  # type: ignore[misc]  # hatchling is in no environment
    """Hatchling's hook; it takes the one class of this kind."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the dependencies."""
        lines = (Path(self.root) / "bootstrap" / "requirements.in").read_text(encoding="utf-8").splitlines()
        metadata["dependencies"] = [line for line in lines if line and not line.startswith("#")]
