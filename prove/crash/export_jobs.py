"""Exports of an archive of odd topics: killed anywhere and rerun, the target equals the topic.

Partition 0 begins with a range that compaction went over; of partition 1 retention took the beginning.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from confluent_kafka import Producer

from prove.crash import promises
from prove.crash.jobs import Job, at
from prove.lab.drain_process import exported
from prove.lab.kafka_server import Record, unique_name
from prove.lab.pipeline_lab import PIPELINE, configure
from prove.lab.streams import COMPACTED_EAGERLY, compact, stream
from prove.workload import PARTITIONS, Workload

_KEYED = 60
_FEW = 20
_TAKEN = 5  # records that retention took
_SECONDS = 30.0
_DOUBLED = [("a", b"1"), ("b", None), ("a", b"1"), ("", b""), ("a", None)]
_LATE: dict[str, Any] = {"message_timestamp_after_max_ms": (1 << 63) - 1}
_ODD = [
    (b"v", b"k", _DOUBLED, 1_700_000_000_123),
    (None, b"\xff", (), 1),
    (b"", b"", (), 1_600_000_000_000),
    (b"\0", None, [("only", b"")], 253_402_300_799_999),
    (None, None, (), 1_700_000_000_000),
]


def _archive_oddities(workload: Workload) -> None:
    """Archive what compaction and retention left, odd records, and transactions."""
    topic = workload.kafka.new_topic(PARTITIONS, retention_ms=-1, **_LATE, **COMPACTED_EAGERLY)
    configure(workload.lab, f"pipelines/{PIPELINE}", {"topic": topic})
    keyed = [Record(b"%d" % n, key=b"%d" % (n % 3), partition=0) for n in range(_KEYED)]
    compact(workload.lab, workload.kafka, topic, keyed, few=_FEW)
    workload.kafka.produce(topic, _records(range(1, PARTITIONS), count=_TAKEN))
    workload.kafka.produce(topic, _records(range(PARTITIONS), count=len(_ODD)))
    workload.kafka.delete_records(topic, {1: _TAKEN})
    _produce_transactions(workload.kafka, topic)
    workload.kafka.produce(topic, _records(range(PARTITIONS), count=2))
    workload.contents.rows = sum(len(stream(workload.lab, topic, p)) for p in range(PARTITIONS))
    workload.run()


def _records(partitions: range, *, count: int) -> Iterator[Record]:
    for partition in partitions:
        for value, key, headers, at_ms in _ODD[:count]:
            yield Record(value, key, partition, at_ms, headers)


def _produce_transactions(kafka: str, topic: str) -> None:
    """Produce transaction markers between records, and next to aborted records."""
    producer = Producer({"bootstrap.servers": kafka, "transactional.id": unique_name("tx")})
    producer.init_transactions(_SECONDS)
    commit, abort = producer.commit_transaction, producer.abort_transaction
    for finish in (commit, commit, abort, abort, commit):
        producer.begin_transaction()
        for partition in range(PARTITIONS):
            for number in range(1 + partition):
                producer.produce(topic, b"%d" % number, partition=partition, timestamp=5)
        producer.flush(_SECONDS)
        finish(_SECONDS)


def _compare(how: str, workload: Workload) -> Iterator[str]:
    """Export newer records too, and compare each record with the archived one."""
    workload.run(f"export {how}")
    lab, topic = workload.lab, workload.lab.pipeline.topic
    for partition in range(PARTITIONS):
        wanted, found = (stream(lab, each, partition) for each in (topic, exported(topic)))
        yield from _differences(wanted, found, keep=how == "keep")
    if how == "keep" and _ends(workload, topic) != _ends(workload, exported(topic)):
        yield "the topic does not end where the archive does"


def _differences(wanted: dict[int, Any], found: dict[int, Any], *, keep: bool) -> Iterator[str]:
    if not keep:
        wanted = dict(enumerate(wanted.values()))
    lacking, more = wanted.keys() - found.keys(), found.keys() - wanted.keys()
    other = [offset for offset in wanted.keys() & found.keys() if wanted[offset] != found[offset]]
    if lacking or more or other:
        yield f"of {len(wanted)} records {len(lacking)} lack, {len(other)} are other, {len(more)} more"


def _ends(workload: Workload, topic: str) -> dict[int, int]:
    with workload.lab.connections() as connections:
        return connections.admin.source_state(topic).high


def _job(how: str, title: str, *points: str) -> Job:
    return Job(
        f"export-{how}",
        title,
        at(promises.EXPORTED, "export.after-topic", "export.after-window", "export.after-partition", *points),
        prepare=_archive_oddities,
        work=f"export {how}",
        again=(f"export {how}",),
        settings={"layout": "archive", "value": {"format": "raw"}},
        look=partial(_compare, how),
    )


RENUMBERING_EXPORT = _job("renumber", "an export")
KEEPING_EXPORT = _job(
    "keep",
    "an export that keeps offsets",
    "export.before-gap",
    "export.after-fillers",
    "export.after-refused",
    "export.after-abort",
    "export.after-gap",
)
