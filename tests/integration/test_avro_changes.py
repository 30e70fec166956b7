"""Events of Debezium in Avro, from a registry and a broker to tables: as those in JSON with schemas."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from cli.stand.recorded_changes import PARTITIONS, recording
from prove.lab.change_fold import folded
from prove.lab.connect_avro import AvroConverter, registering
from prove.lab.debezium_events import Column, Source
from prove.lab.debezium_moments import COLUMNS
from prove.lab.kafka_server import Record
from prove.lab.pipeline_lab import configure
from spark_jobs.protocol.errors import ConfigError
from spark_jobs.replay.rebuild import rebuild
from tests.support.new_lab import NewLab

if TYPE_CHECKING:
    from pathlib import Path

    from prove.lab.kafka_server import KafkaBroker
    from prove.lab.pipeline_lab import Lab

pytestmark = pytest.mark.kafka

AVRO = {"format": "avro", "registry": "main"}
_OF_ONE_TOPIC = ["_kafka_key", "_kafka_topic", "_kafka_timestamp", "_ingested_at"]


@pytest.fixture
def new_lab(kafka: KafkaBroker, tmp_path: Path) -> NewLab:
    """Pipelines whose tasks run in the process that drains."""
    return NewLab(kafka, "", tmp_path, is_here=True)


def in_avro(new_lab: NewLab, registry: str, layout: str) -> Lab:
    """Return a pipeline over events in Avro."""
    lab = new_lab(partitions=PARTITIONS, layout=layout, value=AVRO, key=AVRO)
    configure(lab, "", {"registries": {"main": {"url": registry}}})
    return lab


def told(ends: dict[str, int], since: dict[str, int]) -> list[Record]:
    """Return what was recorded between two moments, tombstones too."""
    return [
        Record(_bytes(value), _bytes(key), partition, headers=[(name, text.encode()) for name, text in more])
        for partition, offset, key, value, more in recording()["records"]["shop.customers"]
        if since.get(str(partition), 0) <= offset < ends[str(partition)]
    ]


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def rows(lab: Lab) -> list[dict[str, Any]]:
    """Return a table's rows without what is of one topic alone."""
    every = lab.rows().drop_columns(_OF_ONE_TOPIC).to_pylist()
    return sorted(every, key=lambda row: (row["_kafka_partition"], row["_kafka_offset"]))


def shown(item: Any) -> Any:
    """Return a value as the recording has the database's: decimals and times as text."""
    return str(item) if isinstance(item, Decimal | datetime) else item


@pytest.mark.parametrize("layout", ["changes", "mirror"])
def test_tables_are_those_of_json_and_of_the_database(new_lab: NewLab, registry: str, layout: str) -> None:
    """At each moment the database's rows, in the end JSON's, and audits find both right."""
    of_json, of_avro = new_lab(partitions=PARTITIONS, layout=layout), in_avro(new_lab, registry, layout)
    converter = AvroConverter(registering(registry))
    since: dict[str, int] = {}
    for moment in recording()["moments"][0 if layout == "mirror" else -2 :]:
        records = told(moment["ends"]["shop"], since)
        since = moment["ends"]["shop"]
        new_lab.produce(of_json, records)
        new_lab.produce(of_avro, [converter.record(of_avro.pipeline.topic, each) for each in records])
        of_avro.drain()
        live = rows(of_avro) if layout == "mirror" else folded(rows(of_avro), COLUMNS).values()
        assert sorted([shown(row[name]) for name in COLUMNS] for row in live) == moment["rows"], moment[
            "name"
        ]
    of_json.drain()
    assert rows(of_avro) == rows(of_json)
    for lab in (of_json, of_avro):
        assert lab.audit().is_clean


def test_a_rebuild_takes_the_type_of_the_newest_schema(new_lab: NewLab, registry: str) -> None:
    """By the records' ids; what was told by an earlier one is converted, and audits know that."""
    lab, converter = in_avro(new_lab, registry, "mirror"), AvroConverter(registering(registry))

    def tell(number: int, qty: int | str, lsn: int) -> None:
        kind = "string" if isinstance(qty, str) else "int32"
        source = Source({"id": Column("int32", optional=False), "qty": Column(kind)})
        event = source.event("c", {"id": number, "qty": qty}, lsn=lsn)
        new_lab.produce(lab, [converter.record(lab.pipeline.topic, Record(event, key=source.key(number)))])

    tell(1, 7, 10)
    tell(2, 8, 20)
    lab.drain()
    tell(2, "many", 30)
    with pytest.raises(ConfigError, match="the source has qty as string"):
        lab.drain()
    with lab.connections() as connections:
        rebuild(lab.pipeline, connections, reason="test")
    assert {row["id"]: row["qty"] for row in rows(lab)} == {1: "7", 2: "many"}
    assert lab.audit().is_clean
