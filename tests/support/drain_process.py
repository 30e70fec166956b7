"""One drain as a process of its own, with a fail point: ``python -m tests.support.drain_process …``.

Prints its result as one JSON object, or ``{"error": code}`` for a named error.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path

from resources.connections import open_connections
from spark_jobs.core.errors import SluiceError
from spark_jobs.drain import drain
from spark_jobs.io.config_file import load_config
from tests.support.signal_at import SignalAt


def main() -> None:
    """Drain one pipeline until caught up."""
    parser = argparse.ArgumentParser()
    parser.add_argument("config", type=Path)
    parser.add_argument("pipeline")
    parser.add_argument("--fail-at", default="")
    parser.add_argument("--signal", type=int, default=9)
    arguments = parser.parse_args()
    config = load_config(arguments.config)
    pipeline = next(p for p in config.pipelines if p.name == arguments.pipeline)
    try:
        with open_connections(config, pipeline.name, kind="drain", actor="test", run_id="test") as plain:
            connections = replace(plain, fail_points=SignalAt(arguments.fail_at, arguments.signal))
            result = drain(pipeline, connections, budget_seconds=60, on_progress=lambda _batch: None)
    except SluiceError as error:
        print(json.dumps({"error": error.code}))  # noqa: T201  (the parent reads it)
        return
    print(  # noqa: T201  (the parent reads it)
        json.dumps(
            {
                "batches": len(result.batches),
                "rows": result.balance.rows,
                "adopted": len(result.recovery.adopted),
                "lag": result.lag_records,
            }
        )
    )


if __name__ == "__main__":
    main()
