"""Previewing a topic: the table it would become, and nothing written."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from cli.stand.sample_data import WEATHER, read_sample
from prove.lab.kafka_server import KafkaBroker, Record

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Sluice


def configuration(folder: Path, kafka: str, topic: str, settings: str = "") -> str:
    """One pipeline over the topic."""
    file = folder / "sluice.yaml"
    pipeline = f"  one:\n    topic: {topic}\n    table: lake.one\n{settings}"
    file.write_text(f"version: 1\nkafka:\n  bootstrap.servers: {kafka}\npipelines:\n{pipeline}")
    return str(file)


@pytest.mark.kafka
def test_preview_shows_types_partitions_and_dead_letters(
    sluice: Sluice, tmp_path: Path, kafka: KafkaBroker, topic_name: str
) -> None:
    """Each column has its type with evidence; bad records are named by coordinates; no state appears."""
    kafka.create_topic(topic_name)
    values = [{"id": n, "at": f"2026-01-0{n}T00:00:00Z", "price": n / 2} for n in range(1, 5)]
    records = [Record(json.dumps(value).encode()) for value in values]
    kafka.produce(topic_name, [*records, Record(b"not json"), Record(b'{"id": 1.5}'), Record(None)])
    kafka.produce(
        topic_name,
        [Record(b'{"big": 9007199254740993, "at": "2026-01-01T00:00:00Z"}')] * 2
        + [Record(b'{"big": 1.5, "at": "2026-01-01T00:00:00Z"}')],
    )
    config = configuration(
        tmp_path, kafka, topic_name, "    partition_by: [day(at)]\n    columns: {id: long}\n"
    )
    done = sluice("preview", "one", "--config", config)
    assert done.returncode == 0, done.stderr
    assert "10 records read, 6 rows, 3 dead letters, 1 tombstone" in done.stdout
    lines = {line.split()[0]: line for line in done.stdout.splitlines() if line.strip()}
    assert "long" in lines["id"]
    assert "timestamptz" in lines["at"]
    assert "double" in lines["price"]
    assert "day(at): 4 values" in done.stdout
    assert "no column" not in done.stdout
    assert (
        "big: long; of 3 values 1 number with a fraction or exponent (1.5 at 0:9), a dead letter"
        in done.stdout
    )
    assert not list((tmp_path / "home").rglob("*.parquet"))
    assert not (tmp_path / "home" / "lake").exists()
    assert "Settings to consider" not in done.stdout
    done = sluice("preview", "one", "--config", configuration(tmp_path, kafka, topic_name))
    proposed = "Settings to consider before the first batch\n    partition_by: [day("
    assert proposed in done.stdout


@pytest.mark.kafka
def test_preview_and_check_read_by_a_schema(
    sluice: Sluice, tmp_path: Path, kafka: KafkaBroker, topic_name: str
) -> None:
    """Columns are the schema's, and what it does not say is named; without the file both say what to do."""
    kafka.create_topic(topic_name)
    kafka.produce(topic_name, [Record(b"\x08\x07"), Record(b"\x08")])
    value = "    value: {format: protobuf, file: click.proto}\nspark: {remote: 'sc://127.0.0.1:1'}\n"
    config = configuration(tmp_path, kafka, topic_name, value)
    missing = sluice("preview", "one", "--config", config)
    assert (missing.returncode, "click.proto cannot be read" in missing.stderr) == (78, True)
    (tmp_path / "click.proto").write_text('syntax = "proto3"; message Click { int64 id = 1; }')
    seen = sluice("preview", "one", "--config", config)
    assert "2 records read, 1 row, 1 dead letter" in seen.stdout
    (line,) = [line for line in seen.stdout.splitlines() if line.startswith("id ")]
    assert line.split()[1:] == ["long", "from", "the", "schema"]
    assert "1 of 2 values read as protobuf" in sluice("check", "one", "--config", config).stdout


@pytest.mark.kafka
def test_check_finds_a_partitioning_that_the_table_could_not_be_made_with(
    sluice: Sluice, tmp_path: Path, kafka: KafkaBroker, topic_name: str
) -> None:
    """Before there is a table the first records say which columns it will have."""
    kafka.create_topic(topic_name)
    kafka.produce(topic_name, [Record(b'{"at": "2026-01-01T00:00:00Z"}'), Record(None)])
    nowhere = "spark: {remote: 'sc://127.0.0.1:1'}\n"
    for term, line in (
        ("at", "day(at), from 1 record"),
        ("no_such", "the column no_such, which does not exist; the table has: at,"),
    ):
        config = configuration(tmp_path, kafka, topic_name, f"    partition_by: [day({term})]\n{nowhere}")
        checked = sluice("check", "one", "--config", config)
        assert line in next(each for each in checked.stdout.splitlines() if "one: partitions" in each)


@pytest.mark.kafka
def test_preview_shows_what_a_drain_would_do(
    sluice: Sluice, tmp_path: Path, kafka: KafkaBroker, topic_name: str
) -> None:
    """Values that are made, the rows that changes leave in a mirror, and lines that hold when pasted."""
    kafka.create_topic(topic_name, cleanup_policy="compact")
    values = [(b"a", {"n": 1, "ts": 1_767_268_800_123}), (b"a", {"n": 2}), (b"b", {"n": 3}), (b"b", None)]
    records = [
        Record(None if value is None else json.dumps(value).encode(), key=key) for key, value in values
    ]
    kafka.produce(topic_name, records)
    columns = '    columns: {twice: {type: long, sql: "n * 2"}, ts: {type: timestamptz, from: epoch_ms}}\n'
    flat = sluice("preview", "one", "--config", configuration(tmp_path, kafka, topic_name, columns))
    lines = {line.split()[0]: line.rstrip() for line in flat.stdout.splitlines() if line.strip()}
    assert lines["twice"].endswith("2 (0:0)"), flat.stdout
    assert lines["ts"].endswith("2026-01-01 12:00:00.123000+00:00 (0:0)")
    assert "    layout: mirror\n    cdc: {envelope: upsert}\n" in flat.stdout
    mirror = "    layout: mirror\n    cdc: {envelope: upsert}\nspark: {remote: 'sc://127.0.0.1:1'}\n"
    config = configuration(tmp_path, kafka, topic_name, mirror)
    seen = sluice("preview", "one", "--config", config).stdout
    assert "4 records read, 1 row, 0 dead letters, 0 tombstones, 2 superseded, 1 removes" in seen
    assert "partition_by" not in seen
    assert "      ts: {type: timestamptz, from: epoch_ms}\n" in seen
    assert "          ts: {type: timestamptz, from: epoch_ms}\n" in sluice("check", "--config", config).stdout


@pytest.mark.kafka
def test_preview_of_an_empty_topic_says_so(
    sluice: Sluice, tmp_path: Path, kafka: KafkaBroker, topic_name: str
) -> None:
    """Nothing to read is an answer, not an error."""
    kafka.create_topic(topic_name)
    done = sluice("preview", "one", "--config", configuration(tmp_path, kafka, topic_name))
    assert done.returncode == 0, done.stderr
    assert "the topic has no records to read yet" in done.stdout


@pytest.mark.kafka
def test_preview_of_latest_shows_the_last_records(
    sluice: Sluice, tmp_path: Path, kafka: KafkaBroker, topic_name: str
) -> None:
    """Where nothing is to be drained yet, the newest records show what is coming."""
    kafka.create_topic(topic_name)
    sample = [record.value for _, record in zip(range(50), read_sample(WEATHER), strict=False)]
    kafka.produce(topic_name, [Record(value) for value in sample])
    config = configuration(tmp_path, kafka, topic_name, "    start: latest\n")
    done = sluice("preview", "one", "--records", "20", "--config", config)
    assert "20 records read, 20 rows" in done.stdout, done.stderr
