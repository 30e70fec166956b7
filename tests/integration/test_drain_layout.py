"""Files, partitions and properties of drained tables; engines and their page agree about them."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow.parquet as pq
import pytest
from pyiceberg.expressions import And, EqualTo, GreaterThanOrEqual, LessThan

from prove.lab.kafka_server import Record, unique_name
from prove.lab.pipeline_lab import TABLE, by_offset, configure
from spark_jobs.config.iceberg_terms import CODEC, CODECS, LEVEL
from spark_jobs.config.secrets import resolve
from spark_jobs.lake.catalog_names import spark_catalog_conf
from spark_jobs.protocol.errors import ConfigError
from tests.support.new_lab import DEAD_LETTERS, as_json, serve_from, summary
from tests.support.upkeep_lab import set_upkeep, tidy

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile

    from prove.lab.pipeline_lab import Lab
    from prove.lab.s3 import S3
    from tests.support.new_lab import NewLab

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

DOCUMENT = Path(__file__).parents[2] / "docs" / "reference" / "tables.md"
AT = "2026-01-01T12:34:56.789Z"
REWRITE_ALL = (
    "CALL {catalog}.system.rewrite_data_files(table => 'lab.orders', options => map('rewrite-all', 'true'))"
)


def _days(count: int) -> list[Record]:
    return as_json(*({"id": n, "at": f"2026-01-0{1 + n % 3}T10:00:00Z"} for n in range(count)))


def _spark(lab: Lab, query: str) -> list[dict[str, Any]]:
    """What Spark SQL answers, ``{catalog}`` being the pipeline's."""
    catalog = lab.config.catalog
    with lab.connections() as connections:
        session = connections.spark()
    for key, value in spark_catalog_conf(catalog.name, resolve(catalog.properties)).items():
        session.conf.set(key, value)
    rows = session.sql(query.format(catalog=catalog.name)).collect()
    return [row.asDict(recursive=True) for row in rows]


def _compression(file: DataFile) -> str:
    group = pq.ParquetFile(file.file_path.removeprefix("file://")).metadata.row_group(0)
    return str(group.column(0).compression)


def _name(kind: str) -> str:
    return unique_name(kind).replace("-", "_")


def _documented(heading: str) -> list[str]:
    section = DOCUMENT.read_text(encoding="utf-8").partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE)


def test_files_are_partitioned_and_scans_skip_what_they_do_not_need(new_lab: NewLab) -> None:
    """Each file holds one day and one bucket, says so, and holds what it says."""
    lab = new_lab(
        _days(90),
        partition_by=["day(at)", "bucket(2, id)"],
        table_properties={"write.parquet.compression-codec": "gzip", "comment": "of the shop"},
    )
    lab.drain()
    table = lab.table()
    files = [task.file for task in table.scan().plan_files()]
    assert len(files) == 6
    assert {str(field) for field in table.spec().fields} == {
        "1000: at_day: day(2)",
        "1001: id_bucket: bucket[2](1)",
    }
    for file in files:
        rows = pq.read_table(file.file_path.removeprefix("file://"), columns=["at"])
        assert len({at.date() for at in rows.column("at").to_pylist()}) == 1
        assert rows.num_rows == file.record_count
    one_day = And(
        GreaterThanOrEqual("at", "2026-01-02T00:00:00+00:00"), LessThan("at", "2026-01-03T00:00:00+00:00")
    )
    scan = table.scan(row_filter=And(one_day, EqualTo("id", 4)))
    assert len(list(scan.plan_files())) == 1
    assert scan.to_arrow().column("id").to_pylist() == [4]
    assert _compression(files[0]) == "GZIP"
    assert table.properties["comment"] == "of the shop"
    assert lab.audit().is_clean


def test_partitioning_by_what_is_not_there_makes_no_table(new_lab: NewLab) -> None:
    """One clear line with the columns there are; after it is put right the same topic is drained."""
    lab = new_lab(_days(3), partition_by=["day(when)"])
    with pytest.raises(
        ConfigError, match="the column when, which does not exist; the table has: id, at"
    ) as caught:
        lab.drain()
    assert caught.value.code == "partition-column"
    configure(lab, "pipelines/orders", {"partition_by": ["day(at)"]})
    assert lab.drain().balance.rows == 3


def test_tables_are_laid_out_as_documented(new_lab: NewLab) -> None:
    """Columns, properties and summary keys are those of the page; format, codec and place are too."""
    lab = new_lab([*as_json({"id": 1}), Record(b"broken")])
    lab.drain()
    table, letters = lab.table(), lab.table(DEAD_LETTERS)
    columns = [field.name for field in table.schema().fields]
    assert [name for name in columns if name.startswith("_")] == _documented("Columns")
    documented_letters = _documented("Dead letters")
    columns = [field.name for field in letters.schema().fields]
    assert documented_letters[: len(columns)] == columns
    ours = {key for key in table.properties if key.startswith("sluice.")}
    # Of an archive, of a mirror, and of those that route or are routed to.
    others = {"sluice.layout", "sluice.cdc", "sluice.routes", "sluice.owed-routes", "sluice.routed-from"}
    assert ours == set(_documented("Table properties")) - others
    assert {key for key in letters.properties if key.startswith("sluice.")} == ours
    # Of acts, of routes and of a redrive.
    others = {"sluice.reason", "sluice.routed-tables", "sluice.unlisted-values", "sluice.letters"}
    documented = set(_documented("Snapshot summary")) - others
    for each in (table, letters):
        assert set(summary(each.current_snapshot())) >= documented - {"sluice.batch-id", "sluice.kind"}
        assert each.metadata.format_version == 2
        (file,) = [task.file for task in each.scan().plan_files()]
        assert _compression(file) == "ZSTD"
        assert re.fullmatch(r".*/orders(_dead_letters)?-[0-9a-f]{8}", each.location())
    assert set(summary(table.current_snapshot())) == documented
    assert set(summary(table.metadata.snapshots[0])) == {
        "sluice.generation",
        "sluice.next-offsets",
        "sluice.properties-digest",
    }
    with lab.connections() as connections:
        catalog = connections.open_catalog()
        catalog.drop_table(TABLE)
        catalog.drop_table(DEAD_LETTERS)
    lab.drain()
    assert lab.table().location() != table.location()


def test_duckdb_and_spark_read_the_same_rows(new_lab: NewLab) -> None:
    """Times, numbers, nested values, keys and headers, of the same types in both."""
    value = {"id": 7, "at": AT, "price": 0.1, "ok": True, "in": {"deep": [1, 2]}, "tags": ["a", None]}
    headers = [("h", b"\x00\xff"), ("h", None)]
    lab = new_lab(
        [Record(as_json(value)[0].value, key=b"k", headers=headers, timestamp_ms=1_767_225_600_001)]
    )
    configure(lab, "catalog", {"name": _name("lab")})
    lab.drain()
    with duckdb.connect() as connection:
        connection.register("orders", lab.rows())
        by_duckdb = connection.sql("SELECT * FROM orders")
        kinds = dict(zip(by_duckdb.columns, map(str, by_duckdb.types), strict=True))
        assert connection.sql('SELECT epoch_ms("at") FROM orders').fetchall() == [(1_767_270_896_789,)]
    assert kinds["at"] == kinds["_kafka_timestamp"] == kinds["_ingested_at"] == "TIMESTAMP WITH TIME ZONE"
    assert (kinds["id"], kinds["price"], kinds["ok"]) == ("BIGINT", "DOUBLE", "BOOLEAN")
    assert kinds["in"] == "STRUCT(deep BIGINT[])"
    assert kinds["_kafka_headers"] == 'STRUCT("key" VARCHAR, "value" BLOB)[]'
    (row,) = _spark(
        lab,
        "SELECT *, unix_millis(at) AS ms, unix_millis(_kafka_timestamp) AS kafka_ms"
        " FROM {catalog}.lab.orders",
    )
    (mine,) = by_offset(lab).values()
    same = ("id", "price", "ok", "in", "tags", "_kafka_key", "_kafka_offset", "_kafka_topic")
    assert {name: row[name] for name in same} == {name: mine[name] for name in same}
    assert (row["ms"], row["kafka_ms"]) == (1_767_270_896_789, 1_767_225_600_001)
    assert [(h["key"], h["value"] and bytes(h["value"])) for h in row["_kafka_headers"]] == headers
    (kept,) = _spark(
        lab,
        "SELECT typeof(at) AS at, typeof(_kafka_headers) AS headers, typeof(`in`) AS inner"
        " FROM {catalog}.lab.orders",
    )
    assert kept == {
        "at": "timestamp",
        "headers": "array<struct<key:string,value:binary>>",
        "inner": "struct<deep:array<bigint>>",
    }


def test_every_codec_is_written_read_and_compacted(new_lab: NewLab) -> None:
    """By drains, PyIceberg, DuckDB and Spark; on a table that keeps zstd's level, as old ones do."""
    lab = new_lab(partitions=1, max_batch_records=2)
    here = replace(lab, is_here=True)
    configure(lab, "catalog", {"name": _name("lab")})
    set_upkeep(lab, compact_above=5)
    for n, codec in enumerate(CODECS, 1):
        if n > 1:
            with lab.table().transaction() as transaction:
                transaction.set_properties({CODEC: codec})
        new_lab.produce(lab, as_json(*({"id": 10 * n + m} for m in range(10))))
        here.drain()
        drained = [task.file for task in lab.table().scan().plan_files()]
        assert codec.upper() in {_compression(file) for file in drained}
        assert lab.rows().num_rows == 10 * n
        _spark(lab, "REFRESH TABLE {catalog}.lab.orders")
        ids = sum(range(10, 10 * n + 10))
        assert _spark(lab, "SELECT sum(id) AS ids FROM {catalog}.lab.orders") == [{"ids": ids}]
        assert tidy(lab, "compaction").tables[0].after.data_files == 1
        (file,) = (task.file for task in lab.table().scan().plan_files())
        by_duckdb = duckdb.read_parquet(file.file_path.removeprefix("file://"))
        assert by_duckdb.aggregate("sum(id)").fetchall() == [(ids,)]
        assert sum(lab.rows()["id"].to_pylist()) == ids
    assert lab.table().properties[LEVEL] == "1"
    assert lab.audit().is_clean


def test_a_table_that_spark_compacts_is_drained_on(new_lab: NewLab) -> None:
    """Progress survives in the properties, and valid-through never goes back."""
    lab = new_lab(_days(20), max_batch_records=10)
    configure(lab, "catalog", {"name": _name("lab")})
    first = lab.drain()
    assert first.valid_through_ms is not None
    (compacted,) = _spark(lab, REWRITE_ALL)
    assert compacted["rewritten_data_files_count"] == 2
    late = [Record(b'{"id": 99}', timestamp_ms=1_767_225_600_000)]
    new_lab.produce(lab, late * 11)
    second = lab.drain()
    assert [batch.counts.balance.rows for batch in second.batches] == [10, 1]
    assert all((b.valid_through_ms or 0) >= first.valid_through_ms for b in second.batches)
    found = lab.audit()
    assert (found.is_clean, found.rows) == (True, 31), found


@pytest.mark.rest
def test_a_rest_catalog_over_s3_is_drained_the_same_way(
    new_lab: NewLab, rest_catalog_properties: dict[str, str], s3: S3
) -> None:
    """Partitioned, with a field that comes later, a dead letter, and the log in a bucket of its own."""
    lab = new_lab(_days(30), partition_by=["day(at)"])
    serve_from(lab, rest_catalog_properties, s3)
    lab.drain()
    new_lab.produce(lab, [*as_json({"id": 30, "note": "new"}), Record(b"broken"), Record(None)])
    result = lab.drain()
    assert (result.balance.rows, result.balance.dead_letters, result.balance.tombstones) == (1, 1, 1)
    assert by_offset(lab)[0, 30]["note"] == "new"
    assert by_offset(lab, lab.tables[1])[0, 31]["value"] == b"broken"
    assert lab.audit().is_clean
    assert sorted(lab.rows().column("id").to_pylist()) == list(range(31))
    assert all(task.file.file_path.startswith("s3://") for task in lab.table().scan().plan_files())
    assert not list((lab.path.parent / "home").rglob("*.json"))
