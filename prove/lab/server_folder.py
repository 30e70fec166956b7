"""Where a test server lives: its files under one temporary folder, its death tied to the test run's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from servers.process import Launch, ServerProcess


@dataclass(frozen=True, slots=True)
class ServerFolder:
    """One server's place below the test run's folder."""

    root: Path
    name: str

    @property
    def home(self) -> Path:
        return self.root / self.name

    @property
    def run_folder(self) -> Path:
        return self.root / "run"

    @property
    def log_path(self) -> Path:
        return self.root / "logs" / f"{self.name}.log"

    def start(self, command: Sequence[str], environment: Mapping[str, str]) -> ServerProcess:
        """Start a server that does not outlive the test run, not waiting for it."""
        return ServerProcess(
            Launch(
                name=self.name,
                command=command,
                run_folder=self.run_folder,
                log_path=self.log_path,
                working_folder=self.home,
                environment=environment,
                dies_with_parent=True,
            )
        )
