"""A redrive of dead letters and a replay of as many rows, both on one warm Spark server.

A gate that refuses some of the currencies makes the letters: they lie scattered, and each is a row once the
gate is gone.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import yaml

from bench.lab import PIPELINE, Lab
from bench.records import fill_partition
from prove.lab.kafka_server import KafkaBroker
from resources.sluice import open_connections
from spark_jobs.config.file import load_config
from spark_jobs.drain.drain import drain
from spark_jobs.protocol.offsets import OffsetRange
from spark_jobs.replay.redrive import redrive
from spark_jobs.replay.redrive_plan import Selection
from spark_jobs.replay.replay import replay

if TYPE_CHECKING:
    from pathlib import Path

    from spark_jobs.config.settings import PipelineConfig
    from spark_jobs.connections.connect import Connections

TOPIC = "redrives"
REFUSED_SHARE = 0.4  # two of five currencies
WARM_UP = 100
BUDGET_SECONDS = 600.0
GOAL = 0.5
_SET = {"column": "currency", "value_set": ["EUR", "USD", "GBP"]}
_GATE: dict[str, Any] = {
    "name": "known",
    "when": "gate",
    "on_failure": "dead_letters",
    "expectations": [{"expect_column_values_to_be_in_set": _SET}],
}


@dataclass(frozen=True, slots=True)
class RedrivesResult:
    """Numbers of redriven dead letters and replayed rows, and wall seconds."""

    letters: int
    redrive_seconds: float
    rows: int
    replay_seconds: float

    @property
    def ratio(self) -> float:
        """Rows per second of the redrive relative to the replay's."""
        return (self.letters / self.redrive_seconds) / (self.rows / self.replay_seconds)


def measure_redrives(lab: Lab, letters: int) -> RedrivesResult:
    """Drain until there are about this many dead letters, remove the gate, and time both."""
    records = round(letters / REFUSED_SHARE)
    KafkaBroker(lab.bootstrap_servers).create_topic(TOPIC)
    fill_partition(lab.bootstrap_servers, TOPIC, 0, 0, records)
    with lab.spark("spark-redrives") as spark:
        path = lab.configure(TOPIC, TOPIC, spark, quality=[_GATE])
        with _opened(path) as (pipeline, connections):
            drain(pipeline, connections, budget_seconds=BUDGET_SECONDS, on_progress=lambda _batch: None)
        document = yaml.safe_load(path.read_text())
        del document["pipelines"][PIPELINE]["quality"]
        path.write_text(yaml.safe_dump(document))
        with _opened(path) as (pipeline, connections):
            _redrive(pipeline, connections, WARM_UP)
            _replay(pipeline, connections, WARM_UP)
            sent, redrive_seconds = _redrive(pipeline, connections, None)
            done, replay_seconds = _replay(pipeline, connections, letters)
    KafkaBroker(lab.bootstrap_servers).delete_topic(TOPIC)
    return RedrivesResult(sent, redrive_seconds, done, replay_seconds)


@contextmanager
def _opened(path: Path) -> Iterator[tuple[PipelineConfig, Connections]]:
    config = load_config(path)
    with open_connections(config, PIPELINE, kind="replay", actor="bench", run_id="bench") as connections:
        yield config.pipelines[0], connections


def _redrive(pipeline: PipelineConfig, connections: Connections, limit: int | None) -> tuple[int, float]:
    began = time.monotonic()
    done = redrive(pipeline, connections, Selection(limit=limit), reason="bench")
    return done.balance.rows, time.monotonic() - began


def _replay(pipeline: PipelineConfig, connections: Connections, rows: int) -> tuple[int, float]:
    began = time.monotonic()
    done = replay(pipeline, connections, (OffsetRange(0, 0, rows),), reason="bench")
    return done.balance.rows, time.monotonic() - began
