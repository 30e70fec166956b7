"""One process that drains configurations one after another, as a run would: what the parts measure.

``python -m bench.drain_process SPARK_PID FILE...`` prints one JSON object on its last line.
"""

from __future__ import annotations

import time

STARTED_AT = time.time()

import json  # noqa: E402  (imports are part of what is measured)
import subprocess  # noqa: E402
import sys  # noqa: E402
from dataclasses import asdict, dataclass, field  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import TYPE_CHECKING, Any  # noqa: E402

from bench.processor_time import tree_cpu_seconds  # noqa: E402

if TYPE_CHECKING:
    from servers.spark_connect import SparkConnectServer

PROJECT = Path(__file__).resolve().parents[1]
_TIMEOUT_SECONDS = 1800.0


@dataclass(frozen=True, slots=True)
class MeasuredBatch:
    """One commit; ``seconds`` from the commit before it (of the first: from the drain's begin) to its own."""

    seconds: float
    rows: int
    durations_ms: dict[str, int]
    cpu_us: dict[str, int]
    peak_task_rss_bytes: int
    data_files: int
    file_bytes: int


@dataclass(frozen=True, slots=True)
class MeasuredDrain:
    """One call of ``drain``; ``table_rows`` is what the table holds afterwards, by its own summary.

    ``cpu_seconds`` is of this process, the Spark server and its workers; None where the system does not tell.
    """

    seconds: float
    cpu_seconds: float | None
    rows: int
    table_rows: int
    lag_records: int
    batches: tuple[MeasuredBatch, ...]

    @property
    def cpu_us(self) -> dict[str, int]:
        """CPU time of all tasks by step."""
        steps = sorted({step for batch in self.batches for step in batch.cpu_us})
        return {step: sum(batch.cpu_us.get(step, 0) for batch in self.batches) for step in steps}

    @property
    def durations_ms(self) -> dict[str, int]:
        """Wall time of all batches by step."""
        steps = sorted({step for batch in self.batches for step in batch.durations_ms})
        return {step: sum(batch.durations_ms.get(step, 0) for batch in self.batches) for step in steps}

    @property
    def data_files(self) -> int:
        """How many were written."""
        return sum(batch.data_files for batch in self.batches)

    @property
    def file_bytes(self) -> int:
        """Size of all data files."""
        return sum(batch.file_bytes for batch in self.batches)


@dataclass(frozen=True, slots=True)
class DrainProcess:
    """A process's drains; the seconds before the first of them, from the decision to start the process."""

    start_seconds: float
    import_seconds: float
    connect_seconds: float
    drains: tuple[MeasuredDrain, ...]


@dataclass(slots=True)
class _Laps:
    """When each batch was committed."""

    last: float
    batches: list[MeasuredBatch] = field(default_factory=list)

    def lap(self, batch: Any) -> None:
        now = time.monotonic()
        self.batches.append(
            MeasuredBatch(
                seconds=now - self.last,
                rows=batch.balance.rows,
                durations_ms=dict(batch.durations_ms),
                cpu_us=dict(batch.cpu_us),
                peak_task_rss_bytes=batch.peak_task_rss_bytes,
                data_files=batch.data_files,
                file_bytes=batch.file_bytes,
            )
        )
        self.last = now


def run_drains(spark: SparkConnectServer, *configs: Path) -> DrainProcess:
    """Drain these in a new process, in this order, each until caught up, all on one Spark server."""
    decided_at = time.time()
    finished = subprocess.run(
        [sys.executable, "-m", "bench.drain_process", str(spark.process.pid), *map(str, configs)],
        cwd=PROJECT,
        stdout=subprocess.PIPE,
        text=True,
        timeout=_TIMEOUT_SECONDS,
        check=False,
    )
    if finished.returncode:
        raise RuntimeError(f"a drain ended with exit code {finished.returncode}")
    return read_answer(finished.stdout.splitlines()[-1], decided_at)


def read_answer(answer_json: str, decided_at: float) -> DrainProcess:
    """Return what a process that was asked for at ``decided_at`` answered about its drains."""
    answer = json.loads(answer_json)
    started_at = answer.pop("started_at")
    drains = tuple(
        MeasuredDrain(**{**one, "batches": tuple(MeasuredBatch(**batch) for batch in one["batches"])})
        for one in answer.pop("drains")
    )
    return DrainProcess(start_seconds=started_at - decided_at, drains=drains, **answer)


def answer_drains(started_at: float, spark_pid: int, paths: list[Path]) -> str:
    """Drain these configurations in this process; all about it as JSON."""
    from resources.connections import open_connections  # noqa: PLC0415
    from spark_jobs.config.file import load_config  # noqa: PLC0415
    from spark_jobs.drain.drain import drain  # noqa: PLC0415
    from spark_jobs.lake.catalog import close_catalog  # noqa: PLC0415
    from spark_jobs.lake.tables import load_table  # noqa: PLC0415

    imported, connect_seconds, drains = time.time(), 0.0, []
    for path in paths:
        config = load_config(path)
        pipeline = config.pipelines[0]
        opening = time.monotonic()
        with open_connections(
            config, pipeline.name, kind="drain", actor="bench", run_id="bench"
        ) as connections:
            connections.spark()
            began = time.monotonic()
            connect_seconds += began - opening
            laps, cpu_before = _Laps(began), _cpu_seconds(spark_pid)
            result = drain(pipeline, connections, budget_seconds=_TIMEOUT_SECONDS, on_progress=laps.lap)
            seconds, cpu_after = time.monotonic() - began, _cpu_seconds(spark_pid)
            catalog = connections.open_catalog()
            table = load_table(catalog, pipeline.table)
            close_catalog(catalog)
        snapshot = table.current_snapshot() if table is not None else None
        rows = int(snapshot.summary["total-records"] or 0) if snapshot and snapshot.summary else 0
        drains.append(
            MeasuredDrain(
                seconds=seconds,
                cpu_seconds=None if cpu_before is None or cpu_after is None else cpu_after - cpu_before,
                rows=result.balance.rows,
                table_rows=rows,
                lag_records=result.lag_records,
                batches=tuple(laps.batches),
            )
        )
    return json.dumps(
        {
            "started_at": started_at,
            "import_seconds": imported - started_at,
            "connect_seconds": connect_seconds,
            "drains": [asdict(one) for one in drains],
        }
    )


def _cpu_seconds(spark_pid: int) -> float | None:
    spark = tree_cpu_seconds(spark_pid)
    return None if spark is None else spark + time.process_time()


if __name__ == "__main__":
    print(answer_drains(STARTED_AT, int(sys.argv[1]), [Path(path) for path in sys.argv[2:]]))
