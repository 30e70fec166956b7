"""One parsed configuration file: its content, scalars still as text, and the line of every key. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from spark_jobs.config.problems import ConfigProblem, Finding

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Document:
    """``content`` holds str, None, lists and maps; ``lines`` goes from key path to line number, from 1."""

    file: str
    content: dict[str, Any]
    lines: dict[Path, int] = field(default_factory=dict)

    def line_of(self, path: Path) -> int | None:
        """Line of the key, or of the nearest key around it that is in the file."""
        for length in range(len(path), 0, -1):
            if path[:length] in self.lines:
                return self.lines[path[:length]]
        return None

    def locate(self, finding: Finding) -> ConfigProblem:
        """Return the finding with its file, line and dotted key."""
        return ConfigProblem(
            self.file, self.line_of(finding.path), ".".join(finding.path), finding.message, finding.hint
        )
