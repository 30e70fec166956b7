"""The command ``checks`` over a real pipeline."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from prove.lab.kafka_server import KafkaBroker, Record
from tests.support.new_lab import NewLab, as_json

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Sluice


@pytest.mark.kafka
@pytest.mark.spark
def test_the_command_prints_each_check_and_what_mends_it(
    kafka: KafkaBroker, spark_remote: str, tmp_path: Path, sluice: Sluice
) -> None:
    """Exit code 0 while no error-severity check fails, 1 when one does, with the command to type."""
    lab = NewLab(kafka, spark_remote, tmp_path)([*as_json(*({"id": n} for n in range(9))), Record(b"broken")])
    lab.drain()
    environment = {"SLUICE_CONFIG": str(lab.path)}
    printed = sluice("checks", "orders", **environment)
    assert printed.returncode == 0, printed.stdout + printed.stderr
    assert "orders dead_letters: ./sluice query orders" in printed.stdout
    assert "docs/runbook.md#check-dead_letters" in printed.stdout
    kafka.delete_topic(lab.pipeline.topic)
    failed = sluice("checks", "--all", "--json", **environment)
    assert failed.returncode == 1
    (pipeline,) = json.loads(failed.stdout.splitlines()[-1])["pipelines"]
    checks = {check["name"]: check for check in pipeline["checks"]}
    assert not checks["stall"]["passed"]
    assert "does not exist" in checks["stall"]["fact"]
    assert sluice("checks", **environment).returncode == 78
