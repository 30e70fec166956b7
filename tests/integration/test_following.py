"""A follower's answers: exact whatever happens to table and topic, and never less than before."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from shutil import copyfile
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions

from prove.lab.fresh_oracle import ask, checked, hot_rows
from prove.lab.kafka_server import Record
from prove.lab.pipeline_lab import configure, orders
from spark_jobs.acts.accept_source import accept_source, compare_source
from spark_jobs.acts.rollback import rollback
from spark_jobs.config.quantities import Start
from spark_jobs.hot import pipeline_follower
from spark_jobs.hot.follower import Follower
from spark_jobs.hot.tail_status import State
from spark_jobs.hot.watermark import Watermark
from spark_jobs.protocol.errors import ConfigError, RetryableError, SourceChanged
from spark_jobs.protocol.offsets import OffsetRange
from tests.support.new_lab import NewLab

if TYPE_CHECKING:
    from pathlib import Path

    from prove.lab.fresh_oracle import Pin
    from prove.lab.kafka_server import KafkaBroker
    from prove.lab.pipeline_lab import Lab
    from spark_jobs.hot.tail_status import TailStatus

pytestmark = pytest.mark.kafka

SECONDS = 20.0


@pytest.fixture
def new_lab(kafka: KafkaBroker, tmp_path: Path) -> NewLab:
    """Pipelines whose tasks run in the process that drains."""
    return NewLab(kafka, "", tmp_path, is_here=True)


@contextmanager
def following(lab: Lab, *, memory_bytes: int = 1 << 40) -> Iterator[Follower]:
    """A follower of the lab's pipeline, from now on."""
    with lab.connections() as connections:
        follower = Follower(
            [lab.pipeline], connections, folder=lab.path.parent / "serve", memory_bytes=memory_bytes
        )
        follower.start()
        try:
            yield follower
        finally:
            follower.close()


def _pin(follower: Follower) -> Pin:
    return partial(follower.pin, "orders", patience_seconds=SECONDS)


def _until(follower: Follower, is_so: Callable[[TailStatus], bool]) -> TailStatus:
    deadline = time.monotonic() + SECONDS
    while not is_so(status := follower.statuses()[0]):
        assert time.monotonic() < deadline, status
        time.sleep(0.02)
    return status


def _records(first: int, count: int, partition: int = 0) -> list[Record]:
    values = [*orders(first, count), b"{", None]
    return [Record(value, key=b"k", partition=partition) for value in values]


def _commit_and_abort(lab: Lab, bootstrap: str) -> None:
    """One transaction of each kind: markers at the end, and records nobody may read."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": lab.pipeline.topic})
    producer.init_transactions(30)
    for first, end in ((800, producer.commit_transaction), (900, producer.abort_transaction)):
        producer.begin_transaction()
        for value in orders(first, 3):
            producer.produce(lab.pipeline.topic, value, partition=0)
        producer.flush(30)
        end(30)


def _add_partition(lab: Lab, bootstrap: str) -> None:
    topic = lab.pipeline.topic
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_partitions([NewPartitions(topic, 3)])[topic].result(30)


def _last_drain_back(lab: Lab) -> None:
    earlier = sorted(lab.table().metadata.snapshots, key=lambda each: each.sequence_number or 0)[-2]
    with lab.connections() as connections:
        rollback(lab.pipeline, connections, to_snapshot=earlier.snapshot_id, reason="test", force=True)


def _ends(lab: Lab) -> dict[int, int]:
    with lab.connections() as connections:
        return dict(connections.admin.source_state(lab.pipeline.topic).end)


def test_an_answer_is_exact_and_never_less_whatever_comes_and_is_drained(new_lab: NewLab) -> None:
    """Records and transactions come, also into a new partition; drains, a replay and a new column."""
    lab = new_lab(_records(0, 9) + _records(100, 5, partition=1), partitions=2, hot=True)
    lab.drain()
    steps: list[Callable[[], object]] = [
        lambda: new_lab.produce(lab, _records(20, 6) + _records(200, 3, partition=1)),
        lambda: _commit_and_abort(lab, new_lab.kafka),
        lab.drain,
        lambda: new_lab.produce(lab, [Record(b'{"id": 777, "new": {"er": 1}}'), *_records(30, 8)]),
        lambda: _add_partition(lab, new_lab.kafka),
        lambda: new_lab.produce(lab, _records(300, 4, partition=2)),
        lab.drain,
        lambda: lab.replay(OffsetRange(0, 3, 15)),
        lambda: new_lab.produce(lab, _records(60, 9)),
    ]
    with following(lab) as follower:
        pin, before = _pin(follower), Watermark(1, 0, {})
        for step in steps:
            step()
            told = checked(lab, pin=pin)
            assert told.reaches(before.ends)
            before = told
            # The topic may end in a marker, which no answer waits for.
            _until(
                follower, lambda status: status.watermark is not None and status.watermark.reaches(_ends(lab))
            )
            before = checked(lab, pin=pin)
        assert ask(lab, "SELECT new FROM orders WHERE id = 777", pin=pin) == [{"new": {"er": 1}}]
        assert checked(lab, pin=pin, at=before) == before
        _until(follower, lambda status: status.state is State.LIVE)
        lab.drain()
        _until(follower, lambda status: status.hot_rows == 0)
        assert checked(lab, pin=pin) == before


def test_another_epoch_begins_anew(new_lab: NewLab) -> None:
    """A rollback shows the same records again; a topic made again is refused until it is taken in."""
    lab = new_lab(_records(0, 9), hot=True)
    lab.drain()
    new_lab.produce(lab, _records(20, 6))
    lab.drain()
    with following(lab) as follower:
        pin = _pin(follower)
        before = checked(lab, pin=pin, after={0: 18})
        _last_drain_back(lab)
        _until(follower, lambda status: status.watermark is not None and status.watermark.rollbacks == 1)
        after = checked(lab, pin=pin, after={0: 18})
        assert (after.ends, hot_rows(lab, pin=pin)) == (before.ends, 6)
        with pytest.raises(SourceChanged) as other:
            pin(at=before)
        assert other.value.code == "other-epoch"
        new_lab.kafka.delete_topic(lab.pipeline.topic)
        new_lab.kafka.create_topic(lab.pipeline.topic)
        new_lab.produce(lab, _records(5, 30))
        # At first Kafka may say no more than that its log ends earlier than it was followed to.
        failed = _until(follower, lambda now: now.reason is not None and now.reason.code == "topic-recreated")
        assert failed.state is State.FAILED
        with pytest.raises(SourceChanged):
            pin()
        with lab.connections() as connections:
            comparison = compare_source(lab.pipeline, connections)
            accept_source(lab.pipeline, connections, comparison, start=Start(), reason="test")
        _until(follower, lambda now: now.watermark is not None and now.watermark.generation == 2)
        assert checked(lab, pin=pin, after={0: 31}).generation == 2


def test_what_fills_the_memory_waits_for_a_drain(new_lab: NewLab) -> None:
    """The watermark stands, answers stay exact, and go on once the table has what was held."""
    lab = new_lab(_records(0, 3), hot={"memory": "2KB"})
    lab.drain()
    with following(lab) as follower:
        pin = _pin(follower)
        for first in range(0, 100, 20):
            new_lab.produce(lab, _records(first, 20))
            time.sleep(0.1)
        full = _until(follower, lambda status: status.state is State.FULL)
        assert checked(lab, pin=pin).ends[0] < _ends(lab)[0]
        assert full.hot_rows > 0
        with pytest.raises(RetryableError) as missing:
            pin(after={0: _ends(lab)[0] - 1}, patience_seconds=0.2)
        assert missing.value.code == "not-yet"
        lab.drain()
        assert checked(lab, pin=pin, after={0: _ends(lab)[0] - 1}).ends == _ends(lab)


def test_a_table_that_is_not_there_yet_is_followed_once_it_is(new_lab: NewLab) -> None:
    """Until then the answer is the reason."""
    lab = new_lab(_records(0, 3), hot=True)
    with following(lab) as follower:
        pin = _pin(follower)
        waiting = _until(follower, lambda status: status.reason is not None)
        assert waiting.state is State.STARTING
        with pytest.raises(ConfigError) as refused:
            pin()
        assert refused.value.code == "no-table-yet"
        lab.drain()
        _until(follower, lambda status: status.state is State.LIVE)
        assert checked(lab, pin=pin).ends == {0: 5}


def test_it_ends_within_seconds_while_kafka_answers_nobody(new_lab: NewLab) -> None:
    """Who waits is told at once; what sits in a question to the broker is left behind."""
    lab = new_lab(_records(0, 3), hot=True)
    lab.drain()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        configure(lab, "kafka", {"bootstrap.servers": f"127.0.0.1:{silent.getsockname()[1]}"})
        with following(lab) as follower, ThreadPoolExecutor() as pool:
            waits = pool.submit(_pin(follower))
            _kept_open = silent.accept()
            began = time.monotonic()
            follower.close()
            assert time.monotonic() - began < 15
            with pytest.raises(RetryableError):
                waits.result(15)


_DIES = """
import os, signal, sys, time
from pathlib import Path
from resources.sluice import open_connections
from spark_jobs.config.file import load_config
from spark_jobs.hot import pipeline_follower
from spark_jobs.hot.follower import Follower
from spark_jobs.hot.segment_maker import SegmentMaker

real = SegmentMaker.segments

def segments(self, chunk, starts):
    if b'{"id": 666}' in chunk.values:
        os.kill(os.getpid(), signal.SIGKILL)
    return real(self, chunk, starts)

SegmentMaker.segments = segments
path = Path(sys.argv[1])
config = load_config(path)
with open_connections(config, "orders", kind="query", actor="test", run_id="test") as connections:
    folder = path.parent / "serve"
    follower = Follower(config.pipelines, connections, folder=folder, memory_bytes=1 << 40)
    follower.start()
    time.sleep(20)
"""


def test_a_record_on_which_processes_die_is_not_tried_a_third_time(new_lab: NewLab) -> None:
    """What is before it is shown, by the third, and all of it once a drain has passed it."""
    lab = new_lab(_records(0, 3), partitions=2, hot=True)
    lab.drain()
    command = [sys.executable, "-c", _DIES, str(lab.path)]
    poison = Record(b'{"id": 666}', partition=0)
    new_lab.produce(lab, [poison, *_records(20, 6), *_records(90, 5, partition=1)])
    died = [subprocess.run(command, check=False, timeout=60).returncode for _ in range(2)]
    assert died == [-9, -9]
    with following(lab) as follower:
        pin = _pin(follower)
        blocked = _until(follower, lambda now: now.state is State.BLOCKED)
        assert blocked.reason is not None
        assert blocked.reason.code == "poison-record"
        assert checked(lab, pin=pin, after={1: 6}).ends == {0: 5, 1: 7}
        lab.drain()
        _until(follower, lambda now: now.state is State.LIVE)
        new_lab.produce(lab, _records(40, 3))
        assert checked(lab, pin=pin, after={0: 18}).ends == {0: 19, 1: 7}


def test_a_table_that_was_restored_is_followed_from_where_it_is(
    new_lab: NewLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As from a backup: told by name at first, then answered from, and never with less than before."""
    monkeypatch.setattr(pipeline_follower, "LAG_SECONDS", 0.5)
    lab = new_lab(_records(0, 9), hot=True)
    lab.drain()
    saved = lab.path.parent / "saved.db"
    (catalog,) = lab.path.parent.rglob("catalog.db")
    copyfile(catalog, saved)
    new_lab.produce(lab, _records(20, 6))
    lab.drain()
    with following(lab) as follower:
        before = checked(lab, pin=_pin(follower), after={0: 18})
        copyfile(saved, catalog)
        _until(follower, lambda now: now.reason is not None and now.reason.code == "table-rolled-back")
        seen = _until(follower, lambda now: now.watermark is not None)
        assert seen.watermark is not None
        assert seen.watermark.reaches(before.ends)
        assert checked(lab, pin=_pin(follower)) == before
        assert hot_rows(lab, pin=_pin(follower)) == 6
        lab.drain()
        new_lab.produce(lab, _records(30, 4))
        assert checked(lab, pin=_pin(follower), after={0: 24}).reaches(before.ends)
