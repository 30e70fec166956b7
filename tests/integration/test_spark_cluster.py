"""The same work on a standalone Spark cluster, whose machines have neither Sluice nor any Python."""

from __future__ import annotations

import json
import socket
import zipfile
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import header_schema_id_serializer
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from prove.lab.kafka_server import Record
from prove.lab.pipeline_lab import TABLE, by_offset, configure, make_lab, orders, progress
from prove.lab.registry_stand_in import RegistryStandIn, basic
from prove.lab.spark_cluster import LOOPBACK, spark_cluster
from resources.spark import PARALLELISM
from spark_jobs.protocol.commit_summary import CommitSummary
from spark_jobs.schema.iceberg_types import INGESTED_AT, OFFSET
from spark_jobs.spark.shipped import package_zip
from tests.support.confluent_serializers import BY_TOPIC, registering
from tests.support.faulty_module import TRAP, faulty_module
from tests.support.new_lab import summary
from tests.support.upkeep_lab import tidy

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from prove.lab.kafka_server import KafkaBroker
    from prove.lab.pipeline_lab import Lab
    from prove.lab.spark_cluster import SparkCluster

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

RECORDS = 20_500  # more than one task takes
CHUNKS = 30_000  # of a task
TASKS = 6  # files enough for a compaction
BY_SCHEMA = 3_000
REGISTRY = "registry.invalid"  # no name of that domain is anybody's
CREDENTIALS = "me:hunter2-Tr0ub4dor"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    """A master, two workers and a Connect server; the Python that they know is none."""
    folder = tmp_path_factory.mktemp("cluster")
    with spark_cluster(folder, python=folder / "no-python") as started:
        yield started


@pytest.fixture
def shipping(cluster: SparkCluster) -> dict[str, Any]:
    """What ships code and Python; with one secret for all tests, so that what is unpacked once is there."""
    secret = cluster.python.with_name("secret")
    secret.write_text("the tests' own secret, of which sessions are named")
    return {"ship_python": True, "session_secret": f"${{file:{secret}}}"}


def test_a_standalone_cluster_does_the_same(
    kafka: KafkaBroker,
    cluster: SparkCluster,
    shipping: dict[str, Any],
    tmp_path: Path,
    recwarn: pytest.WarningsRecorder,
) -> None:
    """Both workers take part with code and Python that came along; rows are the same, upkeep runs there."""
    assert not cluster.python.exists()
    topic = kafka.new_topic(1, retention_ms=-1)
    kafka.produce(topic, [*orders(0, RECORDS), b"not json"])
    alone = make_lab(tmp_path / "alone", bootstrap=kafka, topic=topic, spark_remote=None)
    alone.drain()
    lab = make_lab(tmp_path / "spread", bootstrap=kafka, topic=topic, spark_remote=cluster.remote)
    configure(lab, "spark", {**shipping, "conf": {PARALLELISM: str(TASKS)}})
    (batch,) = lab.drain().batches
    assert not [warning for warning in recwarn if PARALLELISM in str(warning.message)]
    assert (batch.counts.balance.rows, batch.counts.balance.dead_letters) == (RECORDS, 1)
    left = CommitSummary(summary(lab.table().current_snapshot())).native_left
    assert left == {"wrong_kind": 1}  # which only tasks that have WebAssembly count
    assert all(list(folder.rglob("spark_jobs-*.zip")) for folder in cluster.worker_folders)
    assert _files(lab) == TASKS
    tidy(lab, "compaction")
    assert _files(lab) == 1
    assert _content(lab) == _content(alone)


def test_tasks_have_no_way_to_the_registry(
    kafka: KafkaBroker,
    cluster: SparkCluster,
    shipping: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Only the driver knows its address and who asks; rows of three versions equal what was produced."""

    def found(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            try:
                word = socket.gethostbyname("registry.invalid")
            except OSError:
                word = "nobody"
            yield pa.RecordBatch.from_pydict({"word": [word] * batch.num_rows})

    topic = kafka.new_topic(1, retention_ms=-1)
    lab = make_lab(
        tmp_path,
        bootstrap=kafka,
        topic=topic,
        spark_remote=cluster.remote,
        value={"format": "avro", "registry": "main"},
        key={"format": "avro", "registry": "main", "as": "of"},
    )
    address_of = socket.getaddrinfo
    monkeypatch.setattr(
        socket,
        "getaddrinfo",
        lambda host, *more, **named: address_of(
            host.replace(REGISTRY, LOOPBACK) if isinstance(host, str) else host, *more, **named
        ),
    )
    monkeypatch.setenv("SLUICE_TEST_REGISTRY", CREDENTIALS)
    with RegistryStandIn(wanted=basic(*CREDENTIALS.split(":"))) as registry:
        records, wanted = _in_three_versions(registry.url, topic, BY_SCHEMA)
        kafka.produce(topic, records)
        access = {
            "url": registry.url.replace(LOOPBACK, REGISTRY),
            "auth": {"basic": "${SLUICE_TEST_REGISTRY}"},
        }
        configure(lab, "", {"registries": {"main": access}})
        configure(lab, "spark", {**shipping, "conf": {PARALLELISM: str(TASKS)}})
        lab.drain()
        assert registry.asked
    names = ("of", "id", "note", "total")
    rows = by_offset(lab)
    assert [{name: rows[0, at][name] for name in names} for at in range(len(rows))] == wanted
    assert len(progress(lab).schemas) == 4
    with lab.connections() as connections:
        told = connections.spark().range(0, 4, 1, 4).mapInArrow(found, "word string").collect()
    assert {row.word for row in told} == {"nobody"}
    files = [file for file in cluster.worker_folders[0].parents[1].rglob("*") if file.is_file()]
    assert files
    assert not [file for file in files if CREDENTIALS.split(":")[1].encode() in file.read_bytes()]


def _in_three_versions(url: str, topic: str, count: int) -> tuple[list[Record], list[dict[str, Any]]]:
    """Return records by Confluent's serializers, ids in headers, and the rows that they are."""
    registering_client = registering(url, CREDENTIALS)
    conf = {**BY_TOPIC, "schema.id.serializer": header_schema_id_serializer}
    nothing = {"note": None, "total": None}
    fields: list[dict[str, Any]] = [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"]},
        {"name": "total", "type": "double"},
    ]
    write = [
        AvroSerializer(registering_client, _record("Order", fields[:more]), conf=conf) for more in (1, 2, 3)
    ]
    write_key = AvroSerializer(registering_client, _record("Key", fields[:1]), conf=conf)
    records, rows = [], []
    for number in range(count):
        order = {"id": number, "note": None if number % 2 else f"no {number}", "total": number / 4}
        known = dict(list(order.items())[: number % 3 + 1])
        headers: list[tuple[str, bytes]] = []
        value = write[number % 3](known, SerializationContext(topic, MessageField.VALUE, headers))
        key = write_key({"id": number % 7}, SerializationContext(topic, MessageField.KEY, headers))
        records.append(Record(value, key=key, headers=tuple(headers)))
        rows.append({"of": {"id": number % 7}, **nothing, **known})
    return records, rows


def _record(name: str, fields: list[dict[str, Any]]) -> str:
    return json.dumps({"type": "record", "name": name, "fields": fields})


def test_other_code_never_meets_workers_of_the_old(
    cluster: SparkCluster, shipping: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After an upgrade tasks run the new code, although workers that imported the old one are still there."""

    def words(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import spark_jobs

        word = getattr(spark_jobs, "WORD", "old")
        for batch in batches:
            yield pa.RecordBatch.from_pydict({"word": [word] * batch.num_rows})

    lab = make_lab(tmp_path, bootstrap="127.0.0.1:1", topic="none", spark_remote=cluster.remote)
    configure(lab, "spark", shipping)
    for word in ("old", "new"):
        if word == "new":
            monkeypatch.setattr("resources.spark.package_zip", _other_code)
        monkeypatch.setattr("resources.spark._sessions", {})
        with lab.connections() as connections:
            rows = connections.spark().range(0, 4, 1, 4).mapInArrow(words, "word string").collect()
        assert {row.word for row in rows} == {word}


def test_a_task_whose_module_fails_decodes_in_python(
    kafka: KafkaBroker,
    cluster: SparkCluster,
    shipping: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All records arrive, and the batch's summary counts the values of the call that failed, once."""
    monkeypatch.setattr("resources.spark.package_zip", _other_code)
    monkeypatch.setattr("resources.spark._sessions", {})
    topic = kafka.new_topic(1, retention_ms=-1)
    kafka.produce(topic, [*orders(0, CHUNKS), b"not json"])
    lab = make_lab(tmp_path, bootstrap=kafka, topic=topic, spark_remote=cluster.remote)
    configure(lab, "spark", shipping)
    (batch,) = lab.drain().batches
    assert (batch.counts.balance.rows, batch.counts.balance.dead_letters) == (CHUNKS, 1)
    left = CommitSummary(summary(lab.table().current_snapshot())).native_left
    assert left.keys() == {"fault"}
    assert 0 < left["fault"] < CHUNKS


def _other_code(folder: Path) -> Path:
    """The code that is shipped, with a word more, and a module for JSON that fails."""
    package = package_zip(folder)
    changed = package.with_stem(f"{package.stem}-new")
    with zipfile.ZipFile(package) as old, zipfile.ZipFile(changed, "w") as new:
        for entry in old.infolist():  # with its time: two tests ship the same bytes
            more = b'WORD = "new"\n' if entry.filename == "spark_jobs/__init__.py" else b""
            is_module = entry.filename == "spark_jobs/formats/json/json.wasm"
            new.writestr(entry, faulty_module(TRAP) if is_module else old.read(entry) + more)
    return changed


def _files(lab: Lab) -> int:
    return len(list(lab.table(TABLE).scan().plan_files()))


def _content(lab: Lab) -> pa.Table:
    """Every column but the time of ingestion, in the order of the topic."""
    return lab.rows().drop_columns([INGESTED_AT]).sort_by(OFFSET)
