"""Dagster's cost of many pipelines: loading the code location, and running one of them.

Each figure is the CPU time of a new process: no server is asked, and other work on the machine counts little.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

if TYPE_CHECKING:  # a process that is measured imports this file
    from bench.lab import Lab

PROJECT = Path(__file__).resolve().parents[1]
GROWTH_OF_PIPELINES = 10
GOAL_GROWTH = 12.0


@dataclass(frozen=True, slots=True)
class LocationCost:
    """CPU seconds by step of the code server (``load_seconds``) and of a run's process (``run_seconds``)."""

    pipelines: int
    load_seconds: dict[str, float]
    run_seconds: dict[str, float]

    @property
    def definitions_seconds(self) -> float:
        """The part that depends on the number of pipelines, without imports."""
        return sum(seconds for step, seconds in self.load_seconds.items() if step != "imports")


@dataclass(frozen=True, slots=True)
class PipelinesResult:
    """Costs for few pipelines and for ten times as many."""

    few: LocationCost
    many: LocationCost

    @property
    def growth(self) -> float:
        """Cost of definitions with ten times as many pipelines, relative to few."""
        return self.many.definitions_seconds / self.few.definitions_seconds


def measure_pipelines(lab: Lab, pipelines: int) -> PipelinesResult:
    """Load the definitions of a tenth of ``pipelines`` and of all, as the code server and a run do."""
    few, many = (_measure(lab.folder, number) for number in (pipelines // GROWTH_OF_PIPELINES, pipelines))
    return PipelinesResult(few, many)


def _measure(folder: Path, pipelines: int) -> LocationCost:
    home = folder / f"pipelines-{pipelines}"
    home.mkdir()
    path = home / "sluice.yaml"
    named = {f"p{n}": {"topic": f"topic-{n}", "table": f"bench.t{n}"} for n in range(pipelines)}
    path.write_text(yaml.safe_dump({"version": 1, "pipelines": named}))
    environment = os.environ | {"SLUICE_CONFIG": str(path), "SLUICE_HOME": str(home / ".sluice")}
    load, run = (_in_a_new_process(process, environment) for process in ("load", "run"))
    return LocationCost(pipelines, load, run)


def _in_a_new_process(process: str, environment: dict[str, str]) -> dict[str, float]:
    words = [sys.executable, "-m", "bench.pipelines", process]
    finished = subprocess.run(
        words, cwd=PROJECT, env=environment, stdout=subprocess.PIPE, text=True, check=True
    )
    seconds: dict[str, float] = json.loads(finished.stdout.splitlines()[-1])
    return seconds


def _load(step: Callable[[str], None]) -> None:
    """Do the code server's work at its start."""
    from dagster._core.remote_representation.external_data import RepositorySnap  # noqa: PLC0415

    import orchestration.build  # noqa: F401, PLC0415

    step("imports")
    from orchestration.definitions import defs  # noqa: PLC0415  (reads the configuration and builds)

    step("build")
    repository = defs.get_repository_def()
    repository.load_all_definitions()
    step("resolve")
    RepositorySnap.from_def(repository, defer_snapshots=True)
    step("describe to the UI")


def _run(step: Callable[[str], None]) -> None:
    """Do the work of a run's process before its first step."""
    from dagster import AssetKey  # noqa: PLC0415

    import orchestration.build  # noqa: F401, PLC0415

    step("imports")
    from orchestration.definitions import defs  # noqa: PLC0415

    step("build")
    repository = defs.get_repository_def()
    repository.get_maybe_subset_job_def("drain")  # Dagster asks for the whole job first
    repository.get_maybe_subset_job_def("drain", None, {AssetKey(["bench", "t0"])}, set())
    step("its job")


def main() -> None:
    """Measure this process and print it as JSON."""
    seconds: dict[str, float] = {}

    def step(name: str) -> None:
        seconds[name] = time.process_time() - sum(seconds.values())

    {"load": _load, "run": _run}[sys.argv[1]](step)
    print(json.dumps(seconds))


if __name__ == "__main__":
    main()
