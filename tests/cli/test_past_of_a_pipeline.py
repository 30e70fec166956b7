"""What a pipeline's past looks like on the command line."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest
import yaml

from prove.lab.pipeline_lab import make_lab, orders

if TYPE_CHECKING:
    from pathlib import Path

    from prove.lab.kafka_server import KafkaBroker
    from tests.cli.conftest import Sluice


@pytest.mark.kafka
@pytest.mark.spark
def test_history_and_trace_of_a_drained_pipeline(
    sluice: Sluice, tmp_path: Path, kafka: KafkaBroker, spark_remote: str
) -> None:
    """The history lists the batch with its numbers, a record's trace names that batch's attempt and why."""
    topic = kafka.new_topic()
    kafka.produce(topic, [*orders(0, 10), b"not json", None])
    lab = make_lab(tmp_path, bootstrap=kafka, topic=topic, spark_remote=spark_remote)
    lab.drain()
    environment = {"SLUICE_CONFIG": str(lab.path)}

    past = sluice("history", "orders", "--json", **environment)
    assert past.returncode == 0, past.stderr
    (line,) = json.loads(past.stdout.splitlines()[-1])["history"]
    assert (line["kind"], line["state"], line["ranges"]) == ("drain", "landed", [[0, 0, 12]])
    assert line["balance"] == {"rows": 10, "dead_letters": 1, "tombstones": 1, "gaps": 0}
    assert "0:0-12" in sluice("history", "orders", "--kind", "drain", **environment).stdout

    traced = sluice("trace", "orders", "0:10", "--json", **environment)
    assert traced.returncode == 0, traced.stderr
    (found,) = json.loads(traced.stdout.splitlines()[-1])["traces"]
    assert (found["where"], found["attempt"]) == ("dead letter", line["attempt"])
    told = sluice("trace", "orders", "0:7", **environment).stdout
    assert f"{topic} 0:7, generation 1: row" in told
    assert line["attempt"] in told

    shutil.rmtree(yaml.safe_load(lab.path.read_text())["state"])
    lost = sluice("history", "orders", **environment)
    assert lost.returncode == 0, lost.stderr
    assert "not listed: 1 drain that the table's snapshots name." in lost.stdout


@pytest.mark.parametrize("arguments", [(), ("0:1", "--key", "k"), ("01",), ("0:-1",)])
def test_what_is_no_record_is_refused(sluice: Sluice, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """Neither or both of offset and key, and what is not PARTITION:OFFSET, is a matter of usage."""
    (tmp_path / "own.yaml").write_text("version: 1\npipelines: {orders: {topic: t, table: lake.orders}}\n")
    refused = sluice("trace", "orders", *arguments, SLUICE_CONFIG=str(tmp_path / "own.yaml"))
    assert refused.returncode == 2
    assert "PARTITION:OFFSET" in refused.stderr
