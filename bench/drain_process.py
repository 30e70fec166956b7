"""A process that drains configurations in turn and measures itself.

``python -m bench.drain_process ASKED_AT SPARK_PID ANSWER BUDGET FILE...`` pickles a
``DrainProcess`` into ANSWER.
"""

from __future__ import annotations

import time

STARTED_AT = time.time()

import pickle  # noqa: E402  (imports are part of what is measured)
import sys  # noqa: E402
from functools import partial  # noqa: E402
from itertools import pairwise  # noqa: E402
from pathlib import Path  # noqa: E402

from bench.drains import DrainProcess, MeasuredDrain  # noqa: E402
from bench.processor_time import TreeClock  # noqa: E402


def measure_drains(
    asked_at: float, started_at: float, spark_pid: int, budget_seconds: float, paths: list[Path]
) -> DrainProcess:
    """Drain these configurations in this process, given the times of its request and its start."""
    from resources.sluice import open_connections  # noqa: PLC0415
    from spark_jobs.config.file import load_config  # noqa: PLC0415
    from spark_jobs.connections.connect import load_fresh  # noqa: PLC0415
    from spark_jobs.drain.drain import drain  # noqa: PLC0415

    imported, connect_seconds, drains = time.time(), 0.0, []
    for path in paths:
        config = load_config(path)
        pipeline = config.pipelines[0]
        opening = time.monotonic()
        with open_connections(
            config, pipeline.name, kind="drain", actor="bench", run_id="bench"
        ) as connections:
            connections.spark()
            laps, ours, theirs = [time.monotonic()], time.process_time(), TreeClock(spark_pid)
            connect_seconds += laps[0] - opening
            on_progress = partial(_lap, laps)
            result = drain(pipeline, connections, budget_seconds=budget_seconds, on_progress=on_progress)
            seconds = time.monotonic() - laps[0]
            cpu_seconds = time.process_time() - ours + theirs.seconds()
            table = load_fresh(connections, pipeline.table)
        snapshot = table.current_snapshot() if table is not None else None
        held = snapshot.summary if snapshot is not None else None
        drains.append(
            MeasuredDrain(
                seconds=seconds,
                cpu_seconds=cpu_seconds,
                rows=result.balance.rows,
                table_rows=int(held["total-records"] or 0) if held else 0,
                batches=result.batches,
                batch_seconds=tuple(end - begin for begin, end in pairwise(laps)),
            )
        )
    return DrainProcess(started_at - asked_at, imported - started_at, connect_seconds, tuple(drains))


def _lap(laps: list[float], _batch: object) -> None:
    laps.append(time.monotonic())


if __name__ == "__main__":
    asked_at, spark_pid, answer, budget, *files = sys.argv[1:]
    paths = [Path(file) for file in files]
    measured = measure_drains(float(asked_at), STARTED_AT, int(spark_pid), float(budget), paths)
    Path(answer).write_bytes(pickle.dumps(measured))
