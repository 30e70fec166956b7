"""Another engine's compaction: Iceberg's procedure in a process without Sluice's upkeep."""

from __future__ import annotations

from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from prove.lab.forked import fork
from prove.lab.pipeline_lab import PIPELINE, Lab
from resources.sluice import open_connections
from spark_jobs.config.file import load_config
from spark_jobs.spark.procedures import call_procedure, table_argument

FINISH_SECONDS = 120.0


def compact_by_hand(lab: Lab) -> None:
    """Rewrite the table's and its dead letters' rows into fewer files."""
    catalog = lab.table().catalog.name
    process, _ = fork(_rewrite, lab.path, catalog, lab.tables)
    process.join(FINISH_SECONDS)
    assert process.exitcode == 0, "the files did not become fewer"


def _rewrite(_sender: Connection, path: Path, catalog: str, tables: tuple[str, ...]) -> None:
    config = load_config(path)
    with open_connections(config, PIPELINE, kind="upkeep", actor="other", run_id="other") as connections:
        for table in tables:
            arguments: dict[str, Any] = {
                "table": table_argument(catalog, table),
                "options": {"rewrite-all": "true"},
            }
            (done,) = call_procedure(
                connections.spark(), catalog, "rewrite_data_files", arguments, tag="another-engine"
            )
            assert done["rewritten_data_files_count"] > done["added_data_files_count"] > 0, done
