"""Hatchling build hook that packs a wheel of Sluice as one import package.

The clone's packages have common names. In the wheel they are inside ``sluice_lake``, and their imports of
each other are rewritten for it (ADR 46).
"""

from __future__ import annotations

import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PACKAGE = "sluice_lake"
FOLDERS = ("cli", "servers", "orchestration", "assets", "resources", "gateway", "serving", "spark_jobs")
_FROM = re.compile(rf"^( *from )((?:{'|'.join(FOLDERS)})(?:\.\w+)* import )", re.MULTILINE)


class OnePackage(BuildHookInterface):  # type: ignore[misc]  # hatchling is in no environment
    """Build hook; an editable install uses the clone's packages and its command."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Lay out the package beside the clone."""
        self._draft = tempfile.TemporaryDirectory()
        package = Path(self._draft.name)
        if version == "editable":
            (package / "cli").mkdir()
            (package / "cli" / "__main__.py").write_text("from cli.__main__ import run\n", encoding="utf-8")
        else:
            lay_out(Path(self.root), package)
        field = "force_include_editable" if version == "editable" else "force_include"
        build_data[field] = {self._draft.name: PACKAGE}

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        """Remove the layout."""
        self._draft.cleanup()


def lay_out(clone: Path, package: Path) -> None:
    """Write the product's packages below the wheel's package, with rewritten imports."""
    for folder in FOLDERS:
        shutil.copytree(clone / folder, package / folder, ignore=shutil.ignore_patterns("__pycache__"))
    # Pages and pictures that Dagster's UI and `sluice docs` show.
    pages = shutil.ignore_patterns("__pycache__", "*.py", "*.js")
    shutil.copytree(clone / "docs", package / "docs", ignore=pages)
    for file in package.rglob("*.py"):
        text = _FROM.sub(rf"\1{PACKAGE}.\2", file.read_text(encoding="utf-8"))
        file.write_text(text, encoding="utf-8")
    (package / "__init__.py").write_text('"""Sluice, from a wheel."""\n', encoding="utf-8")
