"""One pipeline by hand: drain, drain again, audit, recover, status, over real servers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from dagster import AssetKey, DagsterInstance

from prove.lab.kafka_server import KafkaBroker, Record
from servers.dagster import prepare_dagster_home

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Sluice

CONFIGURATION = """\
version: 1
kafka:
  bootstrap.servers: {kafka}
spark:
  remote: {spark}
pipelines:
  orders: {{topic: {topic}, table: lake.orders}}
"""


@pytest.mark.kafka
@pytest.mark.spark
def test_a_pipeline_by_hand(
    sluice: Sluice, tmp_path: Path, kafka: KafkaBroker, spark_remote: str, topic_name: str
) -> None:
    """A drain says what it did, to Dagster too, the next why it did nothing; the audit is clean."""
    kafka.create_topic(topic_name)
    values = [json.dumps({"id": n}).encode() for n in range(100)]
    kafka.produce(topic_name, [Record(b"not json")])
    config = tmp_path / "own.yaml"
    config.write_text(CONFIGURATION.format(kafka=kafka, spark=spark_remote, topic=topic_name))
    environment = {"SLUICE_CONFIG": str(config)}

    prepare_dagster_home(tmp_path / "home" / "dagster")
    assert states(sluice("status", "--json", **environment).stdout) == {"orders": ("new", 1)}
    assert sluice("drain", "orders", **environment).returncode == 65
    stopped = sluice("status", **environment)
    assert "the last drain failed (at 2" in stopped.stdout
    assert ": none of the first 1 values of topic" in stopped.stdout
    assert stopped.returncode == 1
    kafka.produce(topic_name, [*(Record(value) for value in values), Record(None)])
    drained = sluice("drain", "orders", **environment)
    assert drained.returncode == 0, drained.stderr
    last = drained.stdout.splitlines()[-1]
    assert last.startswith("caught-up: 1 batch of 102 records drained in ")
    assert last.endswith("s (100 rows, 1 dead letter (1 decode), 1 tombstone); lag 0 records")
    told = drained.stderr.splitlines()
    assert "connecting to Spark" in told
    assert any(line.startswith("planned 102 offsets of 1 partition in 1 task: 0:0-102") for line in told)
    assert any(line.startswith("read and wrote 102 records (") for line in told)
    again = sluice("drain", "orders", **environment)
    assert again.stdout.splitlines()[-1].startswith("nothing to do: lake.orders has everything")
    assert told_rows(tmp_path / "home" / "dagster") == [100]
    assert sluice("recover", **environment).stdout == "orders: nothing to recover\n"

    audited = sluice("audit", "orders", "--json", **environment)
    assert audited.returncode == 0, audited.stderr
    counts = json.loads(audited.stdout.splitlines()[-1])
    assert (counts["records"], counts["rows"], counts["dead_letters"], counts["tombstones"]) == (
        102,
        100,
        1,
        1,
    )
    assert (counts["missing"], counts["duplicates"], counts["differing"], counts["lag"]) == (0, 0, 0, 0)

    seen = sluice("status", "--json", **environment)
    assert seen.returncode == 0
    assert states(seen.stdout) == {"orders": ("caught-up", 0)}
    assert states(sluice("status", "orders", "--json", **environment).stdout) == {"orders": ("caught-up", 0)}
    assert sluice("status", "order", **environment).returncode == 78
    checked = sluice("check", "orders", "--deep", **environment)
    assert checked.returncode == 0, checked.stdout
    assert "PyIceberg and Spark see" in checked.stdout
    assert "all that is tested" in checked.stdout
    # Without a server, too: then it is this command's own Spark that has to know Iceberg.
    config.write_text(config.read_text().replace(f"spark:\n  remote: {spark_remote}\n", ""))
    checked = sluice("check", "orders", **environment)
    assert checked.returncode == 0, checked.stdout
    assert "PyIceberg and Spark see" in checked.stdout


def told_rows(dagster_home: Path) -> list[object]:
    """The rows that Dagster was told of, by materialization of the table."""
    with DagsterInstance.from_config(str(dagster_home)) as instance:
        records = instance.fetch_materializations(AssetKey(["lake", "orders"]), limit=10).records
    told = [record.asset_materialization for record in records]
    return [each.metadata["dagster/row_count"].value for each in told if each is not None]


def states(printed: str) -> dict[str, tuple[str, int]]:
    """State word and lag by pipeline."""
    pipelines = json.loads(printed.splitlines()[-1])["pipelines"]
    return {p["pipeline"]: (p["state"], p["lag"]) for p in pipelines}
