"""Tells hatchling what a wheel of Sluice is: one import package, and the extras of what is not everybody's.

The packages of a clone have names that many projects use. In the wheel they are in ``sluice_lake``, and what
they import of one another is looked for there (ADR 46).
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

PACKAGE = "sluice_lake"
FOLDERS = ("cli", "servers", "orchestration", "assets", "resources", "gateway", "serving", "spark_jobs")
_FROM = re.compile(rf"^( *from )((?:{'|'.join(FOLDERS)})(?:\.\w+)* import )", re.MULTILINE)


class Dependencies(MetadataHookInterface):  # type: ignore[misc]  # hatchling is in no environment
    """Hatchling's hook; it takes the one class of this kind."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the dependencies, of which a clone's environment has all."""
        extras = dependencies(Path(self.root) / "bootstrap")
        metadata["dependencies"] = extras.pop("")
        metadata["optional-dependencies"] = extras


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


def dependencies(locks: Path) -> dict[str, list[str]]:
    """Return the lines of ``requirements.in`` by extra, what is everybody's by ``""``.

    A comment that begins with names in brackets says whose the lines below it are, up to the next comment;
    each ``extra-NAME.in`` is an extra too.
    """
    found: defaultdict[str, list[str]] = defaultdict(list)
    owners = [""]
    for line in (locks / "requirements.in").read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            named = re.match(r"# \[(.+)\]", line)
            owners = named[1].split(", ") if named else [""]
        else:
            for owner in owners:
                found[owner].append(line)
    for file in locks.glob("extra-*.in"):
        lines = file.read_text(encoding="utf-8").splitlines()
        found[file.stem.removeprefix("extra-")] = [line for line in lines if line[0] != "#"]
    return found


def lay_out(clone: Path, package: Path) -> None:
    """Write the product's packages as they are inside the one of a wheel: ``from`` looks for them there."""
    for folder in FOLDERS:
        shutil.copytree(clone / folder, package / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for file in package.rglob("*.py"):
        text = _FROM.sub(rf"\1{PACKAGE}.\2", file.read_text(encoding="utf-8"))
        file.write_text(text, encoding="utf-8")
    (package / "__init__.py").write_text('"""Sluice, from a wheel."""\n', encoding="utf-8")
