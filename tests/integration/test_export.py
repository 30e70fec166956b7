"""`export`: the stream of an archive in another topic, record by record as it came, through kills too."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer

from prove.lab.forked import fork
from prove.lab.kafka_server import Record, unique_name
from prove.lab.pipeline_lab import Lab, progress
from prove.lab.signal_at import SignalAt
from prove.lab.streams import stream as placed
from spark_jobs.export import plan
from spark_jobs.export.export import Exported, export
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
    return [*placed(lab, topic, partition).values()]


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
    monkeypatch.setattr(plan, "MAX_WINDOW_OFFSETS", 2_500)
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
    with pytest.raises(ConfigError, match="6,001 records in partition 1, but the archive has only 6,000"):
        exported(lab, target)
    with pytest.raises(ConfigError, match="is drained by the pipeline orders"):
        exported(lab, topic, drained_by={topic: "orders"}.get)


def test_a_topic_with_other_records_is_left_alone(new_lab: NewLab) -> None:
    """So is one that would change what it is given, and an archive that has what no producer can write."""
    lab = new_lab([b"1", b"2"], layout="archive", value={"format": "raw"})
    lab.drain()
    fleeting = new_lab.kafka.new_topic(retention_ms=1_000_000)
    with pytest.raises(ConfigError, match=r"would remove records: retention.ms is 1000000"):
        exported(lab, fleeting)
    other = new_lab.kafka.new_topic(retention_ms=-1)
    new_lab.kafka.produce(other, [b"1"])
    with pytest.raises(ConfigError, match="a different record at 0:0 than the archive at offset 0"):
        exported(lab, other)
    assert len(stream(lab, other, 0)) == 1
    with pytest.raises(ConfigError, match=r"the range 0:0-9 has not been drained completely"):
        exported(lab, unique_name("exported"), ranges=[OffsetRange(0, 0, 9)])
    assert progress(lab).next_offsets == {0: 2}
    flat = new_lab([b"{}"])
    flat.drain()
    with pytest.raises(ConfigError, match="only an archive"):
        exported(flat, unique_name("exported"))


def test_offsets_are_kept_where_that_is_asked_for(new_lab: NewLab) -> None:
    """Those without a record too: at the beginning, of markers and of aborted records, and at the end."""
    lab = new_lab([b"1", b"2", b"3"], layout="archive", value={"format": "raw"})
    topic = lab.pipeline.topic
    new_lab.kafka.delete_records(topic, {0: 1})
    leave_gaps(new_lab.kafka, topic)
    lab.drain()
    new_lab.produce(lab, [Record(b"last", timestamp_ms=9)])
    lab.drain()
    leave_gaps(new_lab.kafka, topic)
    lab.drain()
    target = unique_name("exported")
    assert exported(lab, target, keep_offsets=True).produced == {0: 9}
    wanted = placed(lab, topic, 0)
    assert list(wanted) == [1, 2, 7, 8, 9, 11, 16, 17, 18]
    assert placed(lab, target, 0) == wanted
    assert ends(lab, target) == ends(lab, topic) == {0: 20}
    assert exported(lab, target, keep_offsets=True).there == {0: 9}

    with pytest.raises(ConfigError, match="has 20 records in partition 0, but the archive has only 9"):
        exported(lab, target)
    moved = new_lab.kafka.new_topic(retention_ms=-1)
    exported(lab, moved)
    with pytest.raises(ConfigError, match="has a record at 0:0, where the archive has none"):
        exported(lab, moved, keep_offsets=True)
    lenient = new_lab.kafka.new_topic(retention_ms=-1, message_timestamp_after_max_ms=(1 << 63) - 1)
    with pytest.raises(ConfigError, match="accepts timestamps in the far future"):
        exported(lab, lenient, keep_offsets=True)


def ends(lab: Lab, topic: str) -> dict[int, int]:
    """Return where its partitions end."""
    with lab.connections() as connections:
        return connections.admin.source_state(topic).high


@dataclass
class Intruder:
    """A fail point at which somebody else writes to a topic, once."""

    kafka: KafkaBroker
    topic: str
    place: str

    def reach(self, name: str) -> None:
        """Write a record here."""
        if name == self.place:
            self.kafka.produce(self.topic, [b"another"])
            self.place = ""


@pytest.mark.parametrize("place", ["export.after-topic", "export.before-gap", "export.after-refused"])
def test_who_writes_beside_an_export_is_seen(new_lab: NewLab, place: str) -> None:
    """Its record takes an offset: the export ends, and none goes on in that topic."""
    lab = new_lab([b"1"], layout="archive", value={"format": "raw"})
    leave_gaps(new_lab.kafka, lab.pipeline.topic)
    lab.drain()
    target = unique_name("exported")
    with (
        lab.connections(fail_points=Intruder(new_lab.kafka, target, place)) as connections,
        pytest.raises(ConfigError, match="another program writes to the topic"),
    ):
        export(lab.pipeline, connections, target, keep_offsets=True)
    with pytest.raises(ConfigError) as refused:
        exported(lab, target, keep_offsets=True)
    assert refused.value.code == "export-target"
