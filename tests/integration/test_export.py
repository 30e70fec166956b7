"""`export`: the stream of an archive in another topic, record by record as it came, through kills too."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer

from prove.lab.forked import fork
from prove.lab.kafka_server import Record, unique_name
from prove.lab.pipeline_lab import Lab, progress
from prove.lab.signal_at import SignalAt
from spark_jobs.export import archived
from spark_jobs.export.export import Exported, export
from spark_jobs.kafka.reader import open_reader
from spark_jobs.protocol.errors import ConfigError
from spark_jobs.protocol.offsets import OffsetRange

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from pathlib import Path

    from prove.lab.kafka_server import KafkaBroker
    from tests.support.new_lab import NewLab

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


def stream(lab: Lab, topic: str, partition: int) -> list[tuple[Any, ...]]:
    """Return a partition's records in order, without their offsets."""
    with lab.connections() as connections:
        end = connections.admin.source_state(topic).end[partition]
        with open_reader(connections.kafka, topic) as reader:
            return [
                record
                for chunk in reader.read(OffsetRange(partition, 0, end))
                for record in zip(chunk.keys, chunk.values, chunk.headers, chunk.timestamps_ms, strict=True)
            ]


def exported(lab: Lab, target: str, **settings: Any) -> Exported:
    """Export all there is."""
    with lab.connections() as connections:
        return export(lab.pipeline, connections, target, **settings)


def _export_until(sender: Connection, path: Path, target: str, place: SignalAt) -> None:
    with sender, Lab(path).connections(fail_points=place) as connections:
        export(Lab(path).pipeline, connections, target)


def leave_gaps(kafka: KafkaBroker, topic: str) -> None:
    """Write a transaction that is committed and one that is aborted: markers and records nobody reads."""
    producer = Producer({"bootstrap.servers": kafka, "transactional.id": unique_name("tx")})
    producer.init_transactions(30)
    for finish in (producer.abort_transaction, producer.commit_transaction):
        producer.begin_transaction()
        for number in range(3):
            producer.produce(topic, b"%d" % number, partition=0, timestamp=5)
        producer.flush(10)
        finish(10)


def test_a_stream_comes_back_as_it_was(
    new_lab: NewLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when killed in the middle; run again it brings what is lacking, and then nothing."""
    monkeypatch.setattr(archived, "MAX_WINDOW_OFFSETS", 2_500)
    doubled = [("a", b"1"), ("a", None), ("", b"")]
    first = [
        Record(b"v", key=b"k", headers=doubled, timestamp_ms=1_700_000_000_123, partition=0),
        Record(None, key=b"\xff", timestamp_ms=1, partition=0),
        Record(b"", key=b"", timestamp_ms=1_600_000_000_000, partition=0),
        *(Record(b"%d" % n, key=b"x", timestamp_ms=1_000 + n, partition=1) for n in range(6_000)),
    ]
    lab = new_lab(first, partitions=2, layout="archive", value={"format": "raw"})
    topic = lab.pipeline.topic
    leave_gaps(new_lab.kafka, topic)
    lab.drain()
    new_lab.produce(lab, [Record(b"last", timestamp_ms=9, partition=0)])
    lab.drain()
    target = unique_name("exported")
    assert exported(lab, target, dry_run=True).produced == {0: 7, 1: 6_000}
    once = str(tmp_path / "killed")
    place = SignalAt("export.after-window", signal.SIGKILL, once)
    process, _ = fork(_export_until, lab.path, target, place)
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    again = exported(lab, target)
    assert {p: again.there[p] + again.produced[p] for p in (0, 1)} == {0: 7, 1: 6_000}
    for partition in (0, 1):
        assert stream(lab, target, partition) == stream(lab, topic, partition)
    assert exported(lab, target).produced == {0: 0, 1: 0}
    part = unique_name("exported")
    exported(lab, part, ranges=[OffsetRange(1, 10, 5_990)])
    assert stream(lab, part, 1) == stream(lab, topic, 1)[10:5_990]

    new_lab.kafka.produce(target, [Record(b"another", partition=1)])
    with pytest.raises(ConfigError, match="6,001 records in partition 1, the archive 6,000"):
        exported(lab, target)
    with pytest.raises(ConfigError, match="is drained by the pipeline orders"):
        exported(lab, topic, drained_by={topic: "orders"}.get)


def test_a_topic_with_other_records_is_left_alone(new_lab: NewLab) -> None:
    """So is one that would change what it is given, and an archive that has what no producer can write."""
    lab = new_lab([b"1", b"2"], layout="archive", value={"format": "raw"})
    lab.drain()
    other = new_lab.kafka.new_topic()
    new_lab.kafka.produce(other, [b"1"])
    with pytest.raises(ConfigError, match="another record at 0:0 than the archive at 0"):
        exported(lab, other)
    assert len(stream(lab, other, 0)) == 1
    with pytest.raises(ConfigError, match=r"0:0-9 was not drained whole"):
        exported(lab, unique_name("exported"), ranges=[OffsetRange(0, 0, 9)])
    assert progress(lab).next_offsets == {0: 2}
    flat = new_lab([b"{}"])
    flat.drain()
    with pytest.raises(ConfigError, match="only an archive"):
        exported(flat, unique_name("exported"))
