"""Many small commits with upkeep between them: the last must cost as much as the first.

Everything of a batch is real but where its tasks run: here, in this process. Spark's scheduling would be
most of the time and none of what is measured.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from bench.lab import Lab
from bench.records import generate
from prove.lab.tasks_here import tasks_here
from resources.sluice import open_connections
from spark_jobs.config.file import load_config
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.connections.connect import Connections, load_fresh
from spark_jobs.drain.batch_run import BatchResult
from spark_jobs.drain.drain import drain
from spark_jobs.upkeep.read_figures import table_figures
from spark_jobs.upkeep.upkeep import run_upkeep, upkeep_due

TOPIC = "many"
RECORDS = 20
GOAL_RATIO = 1.5
COMPARED = 100  # commits at either end; of a short measurement a quarter
LOOK_EVERY = 20  # commits

_TIMEOUT_SECONDS = 4 * 3600.0


@dataclass(frozen=True, slots=True)
class Look:
    """The table's metadata after this many commits, before the upkeep that follows."""

    commits: int
    data_files: int
    snapshots: int
    manifests: int


@dataclass(frozen=True, slots=True)
class ManyCommitsResult:
    """``commit_ms`` are the commits alone, manifests included; ``upkeep_runs`` counts runs by kind."""

    records_per_commit: int
    rows: int
    expected_rows: int
    seconds: float
    commit_ms: tuple[int, ...]
    looks: tuple[Look, ...]
    upkeep_runs: dict[str, int]
    upkeep_seconds: float

    @property
    def first_p50_ms(self) -> float:
        """Median of the first commits."""
        return median(self.commit_ms[: self._compared])

    @property
    def last_p50_ms(self) -> float:
        """Median of the last ones."""
        return median(self.commit_ms[-self._compared :])

    @property
    def ratio(self) -> float:
        """Cost of the last relative to the first."""
        return self.last_p50_ms / self.first_p50_ms

    @property
    def most(self) -> Look:
        """The largest value of each count."""
        return Look(
            commits=len(self.commit_ms),
            data_files=max(look.data_files for look in self.looks),
            snapshots=max(look.snapshots for look in self.looks),
            manifests=max(look.manifests for look in self.looks),
        )

    @property
    def _compared(self) -> int:
        return min(COMPARED, len(self.commit_ms) // 4)


@dataclass(slots=True)
class _Between:
    """Replaces the upkeep sensor: checks at intervals and runs due upkeep before the next commit."""

    pipeline: PipelineConfig
    connections: Connections
    commit_ms: list[int] = field(default_factory=list)
    looks: list[Look] = field(default_factory=list)
    runs: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0

    def after(self, batch: BatchResult) -> None:
        self.commit_ms.append(batch.durations_ms["commit"])
        if len(self.commit_ms) % LOOK_EVERY:
            return
        began = time.monotonic()
        table = load_fresh(self.connections, self.pipeline.table)
        if table is not None:
            seen = table_figures(table)
            self.looks.append(Look(len(self.commit_ms), seen.data_files, seen.snapshots, seen.manifests))
        for due in upkeep_due(self.pipeline, self.connections, {"orphans": 0.0}):
            run_upkeep(due.kind, self.pipeline, self.connections)
            self.runs[due.kind.name] += 1
        self.seconds += time.monotonic() - began


def measure_many_commits(lab: Lab, commits: int, **settings: Any) -> ManyCommitsResult:
    """Drain a backlog in ``commits`` batches with upkeep between them; ``settings`` are the pipeline's."""
    generate(lab.bootstrap_servers, TOPIC, commits * RECORDS)
    with lab.spark("spark-many") as spark:
        config = load_config(lab.configure("many", TOPIC, spark, max_batch_records=RECORDS, **settings))
        (pipeline,) = config.pipelines
        with open_connections(config, pipeline.name, kind="upkeep", actor="bench", run_id="bench") as real:
            between, began = _Between(pipeline, real), time.monotonic()
            result = drain(
                pipeline, tasks_here(real), budget_seconds=_TIMEOUT_SECONDS, on_progress=between.after
            )
    return ManyCommitsResult(
        records_per_commit=RECORDS,
        rows=result.balance.rows,
        expected_rows=commits * RECORDS,
        seconds=time.monotonic() - began,
        commit_ms=tuple(between.commit_ms),
        looks=tuple(between.looks),
        upkeep_runs=dict(between.runs),
        upkeep_seconds=between.seconds,
    )
