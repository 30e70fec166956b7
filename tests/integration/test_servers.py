"""The servers Sluice and its tests start do real work."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from pyiceberg.catalog import load_catalog

from prove.lab.kafka_server import KafkaBroker, Record, kafka_settings
from resources.spark import WorkSpark
from servers.kafka import start_kafka
from servers.process import ServerFolder, free_ports
from servers.spark_connect import SparkConnectSettings, start_spark_connect
from spark_jobs.config.settings import CatalogSettings, SluiceConfig, SparkSettings
from spark_jobs.protocol.errors import ConfigError, RetryableError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prove.lab.s3 import S3


def _consume(bootstrap_servers: str, topic: str, count: int) -> list[tuple[bytes | None, bytes | None]]:
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": topic})
    consumer.assign([TopicPartition(topic, 0, 0)])
    try:
        return [(message.key(), message.value()) for message in consumer.consume(count, timeout=30)]
    finally:
        consumer.close()


@pytest.mark.kafka
def test_kafka_returns_what_was_produced(kafka: KafkaBroker, topic_name: str) -> None:
    """Records come back in order with keys, tombstones included."""
    kafka.create_topic(topic_name, 1, retention_ms=-1)
    kafka.produce(topic_name, [Record(b"1", key=b"a"), b"2", None])
    assert _consume(kafka, topic_name, 3) == [(b"a", b"1"), (None, b"2"), (None, None)]


@pytest.mark.kafka
@pytest.mark.faults
def test_killed_kafka_comes_back_with_its_records(tmp_path: Path) -> None:
    """A broker killed without warning is the same broker with the same records when started again."""
    settings = kafka_settings(ServerFolder(tmp_path, "kafka-killed"))
    server = start_kafka(settings)
    broker = KafkaBroker(server.bootstrap_servers)
    topic = broker.new_topic()
    broker.produce(topic, [b"kept"])
    cluster = AdminClient({"bootstrap.servers": broker}).list_topics(timeout=10).cluster_id
    server.process.kill()
    server = start_kafka(settings)
    try:
        assert _consume(broker, topic, 1) == [(None, b"kept")]
        assert AdminClient({"bootstrap.servers": broker}).list_topics(timeout=10).cluster_id == cluster
    finally:
        server.process.stop()


@pytest.mark.kafka
def test_a_broker_of_somebody_else_is_not_taken_for_ours(
    kafka: KafkaBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A port that another broker takes after it was found free: ours ends, and its starter says so."""
    settings = kafka_settings(ServerFolder(tmp_path, "kafka-late"))
    taken = replace(settings, port=int(kafka.rpartition(":")[2]))
    monkeypatch.setattr("servers.kafka._refuse_taken_ports", lambda _settings: None)
    with pytest.raises(RetryableError, match="kafka-late ended while starting"):
        start_kafka(taken)


@pytest.mark.spark
def test_a_spark_server_of_somebody_else_is_not_taken_for_ours(
    spark_remote: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with a broker; a run would send its secrets to it."""
    folder = ServerFolder(tmp_path, "spark-late")
    port = urlsplit(spark_remote).port or 0
    settings = SparkConnectSettings(folder, home=folder.home, port=port, cores=1)
    monkeypatch.setattr("servers.spark_connect.is_listening", lambda _port: False)
    with pytest.raises(RetryableError, match="spark-late ended while starting"):
        start_spark_connect(settings)


PLANTED = "hunter2-Tr0ub4dor"
WITH_SECRETS = {
    "spark.executorEnv.PGPASS": PLANTED,
    "spark.sql.catalog.db.uri": f"jdbc:postgresql://me:{PLANTED}@db/lake",
    "spark.sql.catalog.db.credential": f"id:{PLANTED}",
    "spark.driver.extraJavaOptions": f"-Dstore.pass={PLANTED}",
    "spark.test.spelled": "a\\b=c: d\n-----END-----\nspark.test.injected yes",
    "spark.driver.memory": "640m",
}
SHOWN_BY_PS = """
import sys
from pathlib import Path
for process in Path("/proc").glob("[0-9]*"):
    try:
        if sys.argv[1].encode() in (process / "environ").read_bytes():
            print((process / "cmdline").read_bytes().replace(bytes(1), b" ").decode())
    except OSError:
        pass
"""


def _command_lines(of: str) -> str:
    """What every user of the machine is shown of the processes that have this text in their environment."""
    looked = subprocess.run(
        [sys.executable, "-c", SHOWN_BY_PS, of], capture_output=True, text=True, check=True
    )
    assert "java" in looked.stdout
    return looked.stdout


@pytest.mark.spark
def test_no_setting_is_on_a_command_line_and_secrets_are_hidden_where_spark_shows_settings(
    tmp_path: Path,
) -> None:
    """Secrets under any key reach Spark in files of ours; Spark hides them, and serves who has its token."""
    from pyspark.sql import SparkSession

    folder = ServerFolder(tmp_path, "spark-secrets")
    settings = SparkConnectSettings(
        folder, home=folder.home, port=free_ports(1)[0], cores=1, conf=WITH_SECRETS
    )
    server = start_spark_connect(settings)
    try:
        lines = _command_lines(str(folder.home))
        stranger = SluiceConfig(
            home=str(tmp_path),
            state=str(tmp_path),
            catalog=CatalogSettings(properties={}),
            spark=SparkSettings(remote=f"sc://127.0.0.1:{settings.port}"),
        )
        with pytest.raises(ConfigError, match="rejected the token or requires one"):
            WorkSpark(stranger, "drain").session()
        session = SparkSession.builder.remote(server.remote).create()
        spelled = session.conf.get("spark.test.spelled")
        shown = {row.key: row.value for row in session.sql("SET").collect()}
        session.stop()
    finally:
        server.process.stop()
    assert PLANTED not in lines
    assert settings.token not in lines + str(shown)
    assert "-Xmx640m" in lines
    assert "spark.test.injected" not in shown
    assert all(f"{key}=" not in lines for key in WITH_SECRETS)
    assert spelled == WITH_SECRETS["spark.test.spelled"]
    assert PLANTED not in str({key: value for key, value in shown.items() if "redacted" not in value})
    files = [each for each in (folder.home / "conf").iterdir() if PLANTED in each.read_text()]
    assert [each.stat().st_mode & 0o077 for each in files] == [0, 0]


LOCAL_SESSION = """
import sys
from resources.spark import WorkSpark
from spark_jobs.config.settings import CatalogSettings, SluiceConfig, SparkSettings
from tests.integration.test_servers import PLANTED, WITH_SECRETS, _command_lines

home = sys.argv[1]
catalog = CatalogSettings(properties={"type": "rest", "uri": "http://127.0.0.1:1", "credential": PLANTED})
spark = SparkSettings(master="local[1]", conf=WITH_SECRETS)
config = SluiceConfig(home=home, state=home, catalog=catalog, spark=spark)
session = WorkSpark(config, "drain").session()
java = session.sparkContext._jvm.java.lang.System
assert java.getProperty("store.pass") == PLANTED
assert session.conf.get("spark.test.spelled") == WITH_SECRETS["spark.test.spelled"]
assert session.range(3).count() == 3
print(_command_lines(home))
session.sparkContext._jvm.java.lang.System.err.println("a word of Spark's")
"""


@pytest.mark.spark
def test_a_session_in_this_process_puts_no_setting_on_a_command_line(tmp_path: Path) -> None:
    """PySpark by itself would give all of them, the catalog's credential among them, to spark-submit.

    What its JVM prints is in a file, not on the terminal.
    """
    shown = subprocess.run(
        [sys.executable, "-c", LOCAL_SESSION, str(tmp_path)],
        env={**os.environ, "STARTED_BY": str(tmp_path)},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert shown.returncode == 0, shown.stderr
    assert "java" in shown.stdout
    assert PLANTED not in shown.stdout
    assert not shown.stderr
    assert "a word of Spark's" in (tmp_path / "logs" / "spark-local.log").read_text()


@pytest.mark.spark
def test_spark_connect_runs_our_python(spark_remote: str) -> None:
    """A Python function over Arrow runs in the embedded server's workers, in this project's environment."""
    from pyspark.sql import SparkSession

    def rooms(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from spark_jobs.protocol.offsets import OffsetRange

        for batch in batches:
            lengths = [len(OffsetRange(0, 0, value)) for value in batch.column(0).to_pylist()]
            yield pa.RecordBatch.from_pydict({"length": pa.array(lengths, pa.int64())})

    session = SparkSession.builder.remote(spark_remote).create()
    try:
        rows = session.range(5, numPartitions=2).mapInArrow(rooms, "length long").collect()
    finally:
        session.stop()
    assert sorted(row.length for row in rows) == [0, 1, 2, 3, 4]


@pytest.mark.spark
def test_workers_are_forked_with_the_tasks_imports_done(spark_remote: str) -> None:
    """A new worker need not import Arrow, Iceberg and Kafka, and keeps memory that it has used for Arrow."""
    from pyspark.sql import SparkSession

    def is_ready(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import sys

        daemon = sys.modules["__main__"].__spec__
        for _ in batches:
            found = f"{daemon.name if daemon else ''} {'spark_jobs.drain.split_task' in sys.modules}"
            found += (
                f" {[entry for entry in sys.path if 'spark' in entry and entry.endswith(('.zip', '.jar'))]}"
            )
            found += f" {pa.default_memory_pool().backend_name}"
            yield pa.RecordBatch.from_pydict({"found": [found]})

    session = SparkSession.builder.remote(spark_remote).create()
    try:
        rows = session.range(1, numPartitions=1).mapInArrow(is_ready, "found string").collect()
    finally:
        session.stop()
    assert [row.found for row in rows] == ["spark_jobs.worker_daemon True [] system"]


def _appended_and_read(properties: dict[str, str], namespace: str) -> int:
    catalog = load_catalog("sluice", **properties)
    catalog.create_namespace(namespace)
    rows = pa.table({"id": pa.array(range(10), pa.int64())})
    table = catalog.create_table((namespace, "numbers"), schema=rows.schema)
    table.append(rows)
    return int(catalog.load_table((namespace, "numbers")).scan().to_arrow().num_rows)


def test_sqlite_catalog_keeps_rows(sqlite_catalog_properties: dict[str, str], namespace: str) -> None:
    """The embedded catalog over a local folder takes an append."""
    assert _appended_and_read(sqlite_catalog_properties, namespace) == 10


@pytest.mark.spark
def test_spark_reads_the_embedded_catalog(
    spark_remote: str, sqlite_catalog_properties: dict[str, str], namespace: str
) -> None:
    """The server's own Iceberg and SQLite jars see what PyIceberg wrote to the embedded catalog."""
    from pyspark.sql import SparkSession

    _appended_and_read(sqlite_catalog_properties, namespace)
    session = SparkSession.builder.remote(spark_remote).create()
    catalog = "spark.sql.catalog.sluice"
    session.conf.set(catalog, "org.apache.iceberg.spark.SparkCatalog")
    session.conf.set(f"{catalog}.catalog-impl", "org.apache.iceberg.jdbc.JdbcCatalog")
    session.conf.set(f"{catalog}.uri", sqlite_catalog_properties["uri"].replace("sqlite:///", "jdbc:sqlite:"))
    session.conf.set(f"{catalog}.warehouse", sqlite_catalog_properties["warehouse"])
    session.conf.set(f"{catalog}.jdbc.schema-version", "V1")
    try:
        assert session.table(f"sluice.{namespace}.numbers").count() == 10
    finally:
        session.stop()


@pytest.mark.rest
def test_reference_catalog_keeps_rows(rest_catalog_properties: dict[str, str], namespace: str) -> None:
    """Iceberg's reference REST catalog over S3 takes an append."""
    assert _appended_and_read(rest_catalog_properties, namespace) == 10


@pytest.mark.nessie
def test_nessie_keeps_rows(nessie_catalog_properties: dict[str, str], namespace: str) -> None:
    """Nessie over S3 takes an append."""
    assert _appended_and_read(nessie_catalog_properties, namespace) == 10


def test_s3_gives_every_test_a_bucket(s3: S3) -> None:
    """The bucket exists and is empty."""
    from pyarrow import fs

    store = fs.S3FileSystem(
        access_key=s3.access_key,
        secret_key=s3.secret_key,
        endpoint_override=s3.endpoint,
        region="us-east-1",
    )
    assert store.get_file_info(fs.FileSelector(s3.bucket)) == []
