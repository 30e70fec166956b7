"""Start-up times: Spark's server, Dagster's code location, commands, and imports by package.

All in new processes with everything on disk read before, as it is from the second start on.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from bench.drains import PROJECT, run_drains
from bench.lab import Lab
from bench.records import generate

TOPIC = "cold-start"
RECORDS = 1_000
ROUNDS = 5
PACKAGES_SHOWN = 10
# The commands find a pipeline that has caught up, so that a drain recovers, looks and has nothing to do.
STARTS = {
    "interpreter alone": ("-c", "pass"),
    "--help": ("-m", "cli", "--help"),
    "status": ("-m", "cli", "status"),
    "checks": ("-m", "cli", "checks", "--all"),
    "drain": ("-m", "cli", "drain", "orders"),
    "Dagster's code location": ("-c", "import orchestration.definitions"),
}
LOOKED_INTO = ("status", "drain", "Dagster's code location")


@dataclass(frozen=True, slots=True)
class Start:
    """Median seconds from a process's start to its end, and CPU time."""

    seconds: float
    cpu_seconds: float


@dataclass(frozen=True, slots=True)
class ColdStartResult:
    """Start-up results; ``packages_ms`` are import times of packages by process, costliest first."""

    starts: dict[str, Start]
    packages_ms: dict[str, dict[str, float]]
    spark_server_seconds: float


def measure_cold_start(
    lab: Lab, rounds: int = ROUNDS, starts: Mapping[str, tuple[str, ...]] = STARTS
) -> ColdStartResult:
    """Start everything repeatedly in turn, after a first time that reads the files."""
    generate(lab.bootstrap_servers, TOPIC, RECORDS)
    began = time.monotonic()
    with lab.spark("spark-cold-start") as spark:
        server_seconds = time.monotonic() - began
        path = lab.configure(TOPIC, TOPIC, spark)
        run_drains(spark, path)
        environment = os.environ | {"SLUICE_CONFIG": str(path), "SLUICE_HOME": str(path.parent / ".sluice")}
        turns = [
            {name: _start(words, environment) for name, words in starts.items()} for _ in range(rounds + 1)
        ]
        packages = {name: _import_ms(starts[name], environment) for name in LOOKED_INTO if name in starts}
    medians = {name: _median([turn[name] for turn in turns[1:]]) for name in starts}
    return ColdStartResult(medians, packages, server_seconds)


def _median(turns: Sequence[Start]) -> Start:
    return Start(median(one.seconds for one in turns), median(one.cpu_seconds for one in turns))


def _start(words: tuple[str, ...], environment: Mapping[str, str]) -> Start:
    began, cpu_before = time.monotonic(), _children_cpu_seconds()
    _run(words, environment)
    return Start(time.monotonic() - began, _children_cpu_seconds() - cpu_before)


def _run(words: tuple[str, ...], environment: Mapping[str, str]) -> str:
    """Run a process to its end; return its standard error."""
    finished = subprocess.run(
        [sys.executable, *words], cwd=PROJECT, env=environment, capture_output=True, text=True, check=False
    )
    if finished.returncode not in {0, 1}:  # 1: a check that fails is an answer too
        raise RuntimeError(f"{' '.join(words)} ended with {finished.returncode}: {finished.stderr}")
    return finished.stderr


def _children_cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _import_ms(words: tuple[str, ...], environment: Mapping[str, str]) -> dict[str, float]:
    """Return import milliseconds by top-level package, without the packages it imports."""
    own: Counter[str] = Counter()
    for line in _run(("-X", "importtime", *words), environment).splitlines():
        label, _, rest = line.partition("import time:")
        parts = [part.strip() for part in rest.split("|")]
        if not label and len(parts) == 3 and parts[0].isdigit():
            own[parts[2].partition(".")[0]] += int(parts[0])
    return {package: us / 1000 for package, us in own.most_common(PACKAGES_SHOWN)}
