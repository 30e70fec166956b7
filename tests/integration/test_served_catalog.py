"""Other engines read, through the served catalog, a table that drains are filling."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from threading import Event, Thread

import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyspark.sql import SparkSession

from prove.lab.pipeline_lab import TABLE, orders
from tests.support.listening_command import listening
from tests.support.new_lab import NewLab

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

PAGE = (Path(__file__).parents[2] / "docs/how-to/read-tables.md").read_text(encoding="utf-8")
PRINTED = "http://127.0.0.1:8183"
BATCH, BATCHES = 100, 6
WRITES = [
    f"INSERT INTO served.{TABLE} SELECT * FROM served.{TABLE}",  # noqa: S608  (refused)
    f"DROP TABLE served.{TABLE}",
    f"ALTER TABLE served.{TABLE} SET TBLPROPERTIES ('a' = 'b')",
    f"CREATE TABLE served.{TABLE}_2 (id int) USING iceberg",
    "CREATE NAMESPACE served.new",
]


def as_printed(spark: SparkSession, uri: str) -> None:
    """Configure the session's catalog as the page's line for Spark does."""
    settings = re.findall(r"--conf (spark\.sql\.catalog\.lake\S*)=(\S+)", PAGE)
    assert dict(settings)["spark.sql.catalog.lake.uri"] == PRINTED
    for key, value in settings:
        spark.conf.set(key.replace("catalog.lake", "catalog.served"), value.replace(PRINTED, uri))
    spark.conf.set("spark.sql.catalog.served.cache-enabled", "false")


def test_pyiceberg_and_spark_read_while_drains_run(new_lab: NewLab, spark_remote: str) -> None:
    """Whole commits, never fewer rows than before, all of them at the end; and no write of theirs."""
    lab = new_lab(orders(0, BATCH), max_batch_records=BATCH)
    lab.drain()
    seen: list[int] = []
    done = Event()
    with listening("catalog", lab) as uri:

        def read() -> None:
            while not done.wait(0.1):
                seen.append(RestCatalog("any", uri=uri).load_table(TABLE).scan().to_arrow().num_rows)

        reader = Thread(target=read)
        reader.start()
        spark = SparkSession.builder.remote(spark_remote).create()
        try:
            as_printed(spark, uri)
            new_lab.produce(lab, orders(BATCH, BATCH * (BATCHES - 1)))
            draining = Thread(target=lab.drain)
            draining.start()
            by_spark: list[int] = []
            while draining.is_alive() or not by_spark or by_spark[-1] < BATCH * BATCHES:
                by_spark.append(spark.table(f"served.{TABLE}").count())
            draining.join()
            done.set()
            reader.join()
            for each in (seen, by_spark):
                assert each == sorted(each)
                assert all(count and count % BATCH == 0 for count in each)
            before = lab.table().metadata_location
            for write in WRITES:
                with pytest.raises(Exception, match="does not support endpoint"):
                    spark.sql(write).collect()
        finally:
            done.set()
            spark.stop()
        table = RestCatalog("any", uri=uri).load_table(TABLE)
        assert table.metadata == lab.table().metadata
        assert lab.table().metadata_location == before
        assert str(BATCH * BATCHES) in printed_python(uri)
    assert table.scan().count() == lab.rows().num_rows == BATCH * BATCHES


def printed_python(uri: str) -> str:
    """Return what the page's lines for PyIceberg and DuckDB print, for this table."""
    (code,) = re.findall(r"```python\n(# PyIceberg.*?)```", PAGE, re.DOTALL)
    code = code.replace(PRINTED, uri).replace("sales.orders", TABLE)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout
