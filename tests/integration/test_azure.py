"""A whole pipeline with tables, dead letters and log on Azure's storage, by its emulator."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from prove.lab.kafka_server import unique_name
from prove.lab.pipeline_lab import configure, orders
from prove.lab.streams import stream
from spark_jobs.export.export import export
from spark_jobs.protocol.errors import ConfigError
from spark_jobs.query.query import query
from spark_jobs.upkeep.figures import MIN_FILES_TO_MERGE
from tests.support.new_lab import DEAD_LETTERS
from tests.support.upkeep_lab import BROKEN, drain_often, expect_whole, tidy

if TYPE_CHECKING:
    from prove.lab.azurite import Azure
    from prove.lab.pipeline_lab import Lab
    from tests.support.new_lab import NewLab

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

FOUR_DAYS_US = 4 * 86_400 * 1_000_000


def on_azure(lab: Lab, azure: Azure) -> Lab:
    """Put the lab's tables and log into the container."""
    configure(lab, "catalog", {"warehouse": azure.location("lake"), **azure.shared()})
    configure(lab, "", {"state": azure.location("log")})
    return lab


def test_a_pipeline_on_azure_is_drained_checked_and_asked(new_lab: NewLab, azure: Azure) -> None:
    """By Spark's tasks and without, with a SAS token; audited record by record, then read by DuckDB."""
    lab = on_azure(new_lab([*orders(0, 40), BROKEN]), azure)
    lab.drain()
    new_lab.produce(lab, orders(40, 10))
    replace(lab, is_here=True).drain()
    found = lab.audit()
    assert found.is_clean, found
    assert (found.rows, found.dead_letters, found.lag) == (50, 1, 0)
    assert lab.table(DEAD_LETTERS).location().startswith(azure.location("lake"))
    with (
        lab.connections() as connections,
        query(lab.pipeline, connections, "SELECT count(*) AS n, sum(id) AS ids FROM orders") as answer,
    ):
        assert [row for part in answer.batches for row in part.to_pylist()] == [
            {"n": 50, "ids": sum(range(50))}
        ]


def test_an_archive_on_azure_is_exported(new_lab: NewLab, azure: Azure) -> None:
    """Record by record as it came."""
    lab = on_azure(new_lab([b"1", None, b"3"], layout="archive", value={"format": "raw"}), azure)
    replace(lab, is_here=True).drain()
    target = unique_name("exported")
    with lab.connections() as connections:
        export(lab.pipeline, connections, target)
    assert stream(lab, target, 0) == stream(lab, lab.pipeline.topic, 0)


def test_upkeep_on_azure_names_what_spark_lacks(new_lab: NewLab, azure: Azure) -> None:
    """Iceberg's bundle for Azure is not among the locked jars; nothing is tried without it."""
    lab = on_azure(new_lab(), azure)
    drain_often(lab, new_lab, MIN_FILES_TO_MERGE)
    with pytest.raises(ConfigError, match="datalake") as raised:
        tidy(lab, "compaction")
    assert raised.value.code == "spark-without-iceberg"
    assert "iceberg-azure-bundle" in raised.value.hint
    expect_whole(lab, MIN_FILES_TO_MERGE)


def test_strays_on_azure_go(new_lab: NewLab, azure: Azure) -> None:
    """Those that are old; all else stays. No Spark is asked."""
    lab = on_azure(new_lab(), azure)
    drain_often(lab, new_lab, 2)
    location = f"{lab.table().location()}/data/x.parquet"
    with lab.table().io.new_output(location).create() as stray:
        stray.write(b"stray")
    done = tidy(lab, "orphans", changes={"now_us": lambda: time.time_ns() // 1000 + FOUR_DAYS_US})
    assert [table.done.counts["deleted"] for table in done.tables] == [1, 0]
    assert not lab.table().io.new_input(location).exists()
    expect_whole(lab, 2)
