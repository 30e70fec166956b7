"""Dagster's own command line as a CI job uses it: no daemon, no UI, an exit code."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from prove.lab.pipeline_lab import configure, make_lab, orders

if TYPE_CHECKING:
    from prove.lab.kafka_server import KafkaBroker


OLD = ("dagster", "asset", "materialize", "-m", "orchestration.definitions", "--select")
NEW = ("dg", "launch", "-m", "orchestration.definitions", "--assets")


def materialize(config: Path, selection: str, by: tuple[str, ...] = OLD) -> subprocess.CompletedProcess[str]:
    """One of Dagster's command lines from a folder that holds none of our code."""
    return subprocess.run(
        [str(Path(sys.executable).with_name(by[0])), *by[1:], selection],
        cwd=config.parent,
        env={
            **os.environ,
            "SLUICE_CONFIG": str(config),
            "SLUICE_HOME": str(config.parent / "home"),
            "PYTHONWARNINGS": "ignore",  # as docs/how-to/run-in-ci.md has it
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )


@pytest.mark.kafka
@pytest.mark.spark
def test_materializing_drains_and_fails_by_exit_code(
    kafka: KafkaBroker, spark_remote: str, tmp_path: Path
) -> None:
    """Either command drains, told in one line; without the topic a key fails by the error's code."""
    topic = kafka.new_topic(partitions=2)
    kafka.produce(topic, orders(0, 500))
    lab = make_lab(tmp_path, bootstrap=kafka, topic=topic, spark_remote=spark_remote)
    configure(lab, "pipelines/orders", {"filter": "id >= 100"})
    drained = materialize(lab.path, "group:tables")
    assert drained.returncode == 0, drained.stderr
    assert "SupersessionWarning" not in drained.stderr
    assert lab.rows().num_rows == 400
    assert "planned 500 offsets of 2 partitions in " in drained.stderr
    assert "read and wrote 500 records" in drained.stderr
    (told,) = [line for line in drained.stderr.splitlines() if "orders: caught-up: " in line]
    assert re.search(
        r"caught-up: 1 batch of 500 records drained in [0-9.]+ m?s \(400 rows, 0 dead letters, ", told
    )
    assert "leaked" not in drained.stderr
    kafka.produce(topic, orders(500, 100))
    launched = materialize(lab.path, "lab/orders", NEW)
    assert launched.returncode == 0, launched.stdout + launched.stderr
    assert lab.rows().num_rows == 500
    kafka.delete_topic(topic)
    failed = materialize(lab.path, "lab/orders")
    assert failed.returncode != 0
    assert "docs/reference/errors.md#no-such-topic" in failed.stderr
