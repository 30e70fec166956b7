"""Tells hatchling what a wheel of Sluice is: one import package, and the extras of what is not everybody's.

The packages of a clone have names that many projects use. In the wheel they are in ``sluice_lake``, and what
they import of one another is looked for there (ADR 46).
"""

from __future__ import annotations

import ast
import shutil
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

PACKAGE = "sluice_lake"
FOLDERS = ("cli", "servers", "orchestration", "assets", "resources", "gateway", "serving", "spark_jobs")


class Dependencies(MetadataHookInterface):  # type: ignore[misc]  # hatchling is in no environment
    """Hatchling's hook; it takes the one class of this kind."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the dependencies, of which a clone's environment has all."""
        everybody, extras = dependencies(Path(self.root) / "bootstrap")
        metadata["dependencies"], metadata["optional-dependencies"] = everybody, extras


class OnePackage(BuildHookInterface):  # type: ignore[misc]
    """Hatchling's hook for a wheel's files; an editable install has the clone's, and finds its command."""

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
        """Let the layout go again."""
        self._draft.cleanup()


def dependencies(locks: Path) -> tuple[list[str], dict[str, list[str]]]:
    """Return the lines of ``requirements.in`` outside of every extra, and the lines of each extra.

    A comment that begins with names in brackets says whose the lines below it are, up to the next comment;
    each ``extra-NAME.in`` is an extra too.
    """
    everybody: list[str] = []
    extras: dict[str, list[str]] = {}
    owners = [everybody]
    for line in (locks / "requirements.in").read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            names = line.partition("[")[2].partition("]")[0] if line.startswith("# [") else ""
            owners = [extras.setdefault(name, []) for name in names.split(", ") if name] or [everybody]
        else:
            for lines in owners:
                lines.append(line)
    for file in sorted(locks.glob("extra-*.in")):
        lines = file.read_text(encoding="utf-8").splitlines()
        extras[file.stem.removeprefix("extra-")] = [line for line in lines if not line.startswith("#")]
    return everybody, extras


def lay_out(clone: Path, package: Path) -> None:
    """Write the product's packages as they are inside the one of a wheel."""
    for folder in FOLDERS:
        shutil.copytree(clone / folder, package / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for file in package.rglob("*.py"):
        file.write_text(moved(file.read_text(encoding="utf-8")), encoding="utf-8")
    (package / "__init__.py").write_text('"""Sluice, from a wheel."""\n', encoding="utf-8")


def moved(text: str) -> str:
    """Return a module's text as it is inside the package; all it changes is which imports say ``from``."""
    lines = text.splitlines(keepends=True)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and str(node.module).partition(".")[0] in FOLDERS:
            lines[node.lineno - 1] = lines[node.lineno - 1].replace("from ", f"from {PACKAGE}.", 1)
    return "".join(lines)
