"""A slot of the gateway over a Kafka that fails as it likes: each event once, in order, told honestly."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gateway import intake as intake_module
from gateway import lane as lane_module
from gateway import persisted as persisted_module
from gateway import spool as spool_module
from gateway import topics as topics_module
from gateway import writer as writer_module
from gateway.intake import Intake
from gateway.lane import Lane
from gateway.messages import Ack, Answer, Batch, Event, Nack, Reason, State, Status, slot_of
from gateway.persisted import Flush, Flushes, Persisted
from gateway.spool import Spool, SpoolFullError
from gateway.topics import (
    BATCH_ID,
    EVENT_ID,
    OWNER_KEY,
    SOURCE,
    Outgoing,
    Owner,
    Stand,
    StreamTopics,
)
from gateway.writer import Writer
from spark_jobs.checks.facts import SpoolFacts
from spark_jobs.config.gateway import GatewaySettings, MemorySettings
from spark_jobs.config.settings import CatalogSettings, SluiceConfig
from spark_jobs.monitoring.checkup import spool_facts
from spark_jobs.protocol.errors import ConfigError, RetryableError, SluiceError
from tests.support.fake_gateway_kafka import FakeKafka

PLACE = ("topic", 0)
FAILURES = ("", "", "", "before", "after", "open", "refused")


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake_module, "WINDOW_SECONDS", 0.001)
    for name in ("_BETWEEN_TRIES_SECONDS", "_START_RETRY_SECONDS", "RETRY_SECONDS"):
        monkeypatch.setattr(lane_module, name, 0.001)


class SlowKafka(FakeKafka):
    """One that writes when it may, and takes so long for it."""

    def __init__(self, failures: list[str] | None = None, seconds: float = 0.01) -> None:
        super().__init__(failures or [])
        self.may_write = threading.Event()
        self.may_write.set()
        self.tried = 0
        self._seconds = seconds

    def write(self, records: Iterable[Outgoing], stands: Mapping[str, Stand]) -> None:
        """Wait for that, and so long."""
        self.tried += 1
        assert self.may_write.wait(10)
        time.sleep(self._seconds)
        super().write(records, stands)


class Uplink(FakeKafka):
    """One behind an uplink: what is larger than it takes in time does not arrive."""

    most_bytes = 150_000

    def write(self, records: Iterable[Outgoing], stands: Mapping[str, Stand]) -> None:
        """Fail for that."""
        records = list(records)
        if sum(len(each.value or b"") for each in records) > self.most_bytes:
            self.failures.insert(0, "before")
        super().write(records, stands)


class Running:
    """A lane over a fake Kafka, and everything that it answered."""

    def __init__(self, kafka: FakeKafka, spool: Spool, **memory: int) -> None:
        self.answers: list[Answer] = []
        self._heard = threading.Condition()
        ended = lambda: None  # noqa: E731
        self.lane = Lane(
            kafka,  # type: ignore[arg-type]
            spool,
            PLACE,
            ids_seconds=300,
            memory=MemorySettings(**memory),
            reach=lambda _: None,
            on_end=ended,
        )
        self.lane.start()
        while not (self.lane.intake.was_open or self.lane.intake.ended):
            time.sleep(0.001)

    def give(self, batch: Batch) -> list[Answer]:
        """Give a batch; what is said of it comes into the list."""
        told: list[Answer] = []

        def listen(answer: Answer) -> None:
            with self._heard:
                told.append(answer)
                self.answers.append(answer)
                self._heard.notify_all()

        answer = self.lane.intake.offer(batch, listen)
        return told if answer is None else [answer]

    def heard(self, told: list[Answer]) -> Answer:
        """Wait for what is said first of a batch that was given."""
        with self._heard:
            assert self._heard.wait_for(lambda: told, 10)
        return told[0]

    def offer(self, batch: Batch) -> Answer:
        """Give a batch, and wait for what is said first."""
        return self.heard(self.give(batch))

    def close(self) -> None:
        """Have it end."""
        self.lane.intake.close()
        self.lane.join()


def events(source: str, number: int, count: int = 2) -> Batch:
    """A batch of a source whose events are named by its number."""
    made = tuple(Event(None, b"{}", f"{number}.{at}") for at in range(count))
    return Batch(source, made, 10, number)


@settings(max_examples=30)
@example(failures=["before", "before", "after"], deaths=set(), repeats={1})
@given(
    failures=st.lists(st.sampled_from(FAILURES[:-1]), max_size=12),
    deaths=st.sets(st.integers(1, 6)),
    repeats=st.sets(st.integers(1, 6)),
)
def test_each_event_is_in_kafka_once_whatever_fails(
    failures: list[str], deaths: set[int], repeats: set[int]
) -> None:
    """A client that keeps a batch until `ok`, over writes that fail before or after, and over restarts."""
    kafka = FakeKafka(list(failures))
    with TemporaryDirectory() as folder:
        spool = Spool(Path(folder) / "spool.db", 1 << 20)
        running = Running(kafka, spool)
        number = 1
        while number <= 6:
            answer = running.offer(events("s", number))
            assert isinstance(answer, Ack), answer
            if number in deaths:  # its answers are lost, its spool is not
                deaths.remove(number)
                running.close()
                kafka.is_open = False
                running = Running(kafka, spool)
                continue
            if number in repeats:
                again = running.offer(events("s", number))
                assert isinstance(again, Ack)
                assert again.status in {Status.DUPLICATE, Status.FALLBACK, Status.OK}
            number += 1
        ahead = running.offer(events("s", 9))
        assert isinstance(ahead, Nack)
        assert (ahead.reason, ahead.expected) == (Reason.INVALID_SEQUENCE, 7)
        kafka.failures.clear()
        running.close()
        running = Running(kafka, spool)
        while spool.size().batches:
            time.sleep(0.001)
        running.close()
        assert kafka.ids("s") == [f"{number}.{at}" for number in range(1, 7) for at in range(2)]
        assert spool.size().batches == 0
        spool.close()


def test_what_came_while_kafka_was_away_goes_first_and_is_told_of_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """`fallback` at once, `ok` when Kafka has it, a batch that came later behind it; the log says it once."""
    kafka, spool = FakeKafka(), Spool(tmp_path / "spool.db", 1 << 20)
    running = Running(kafka, spool)
    kafka.is_away = True
    told = [running.offer(events("s", number)) for number in (1, 2, 2)]
    assert [answer.status for answer in told if isinstance(answer, Ack)] == [Status.FALLBACK] * 3
    ahead = running.offer(events("s", 4))
    assert isinstance(ahead, Nack)
    assert ahead.expected == 3
    kafka.is_away = False
    assert running.offer(events("s", 3)) == Ack(3, Status.OK, 2)
    assert kafka.ids("s") == ["1.0", "1.1", "2.0", "2.1", "3.0", "3.1"]
    final = [answer for answer in running.answers if answer not in told]
    assert final == [
        Ack(1, Status.OK, 2),
        Ack(2, Status.OK, 2),
        Ack(2, Status.DUPLICATE, 0, 2),
        Ack(3, Status.OK, 2),
    ]
    assert len(caplog.records) == 1
    running.close()


@pytest.mark.parametrize(("answers_after", "tries"), [(0.0, 3), (0.4, 1)])
def test_a_broker_that_says_nothing_is_tried_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answers_after: float, tries: int
) -> None:
    """And one that refuses three times: in either case a client hears soon where its batch is."""
    monkeypatch.setattr(lane_module, "RETRY_SECONDS", 60.0)
    monkeypatch.setattr(lane_module, "_BETWEEN_TRIES_SECONDS", 0.1)
    monkeypatch.setattr(intake_module.Intake, "pause", lambda *_: None)
    kafka = SlowKafka(["before"] * 3, answers_after)
    running = Running(kafka, Spool(tmp_path / "spool.db", 1 << 20))
    assert running.offer(events("s", 1)) == Ack(1, Status.FALLBACK)
    assert kafka.tried == tries
    running.close()


def test_behind_a_batch_that_the_spool_did_not_take_there_is_none_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it was dropped there in silence, and the source told for ever that the batch lay on the disk."""
    monkeypatch.setattr(lane_module, "_BETWEEN_TRIES_SECONDS", 0.1)
    kafka, spool = FakeKafka(), Spool(tmp_path / "spool.db", 5_000)
    running = Running(kafka, spool)
    kafka.is_away = True
    large = replace(events("s", 1), events=(Event(None, b"x" * 10_000, "1"),))
    told = [running.give(large)]
    while running.lane.intake.size()[0]:
        time.sleep(0.001)
    told += [running.give(events("s", 2)), running.give(events("s", 3))]
    reasons = [answer.reason for answer in map(running.heard, told) if isinstance(answer, Nack)]
    assert reasons == [Reason.BUFFER_FULL, Reason.INVALID_SEQUENCE, Reason.INVALID_SEQUENCE]
    assert spool.size().batches == 0
    kafka.is_away = False
    assert [running.offer(events("s", number)) for number in (1, 2)] == [
        Ack(1, Status.OK, 2),
        Ack(2, Status.OK, 2),
    ]
    running.close()


def test_what_the_broker_refuses_of_a_spool_is_told_and_its_source_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """And what lay behind it, whose client sends it again, under the numbers that are next."""
    kafka, spool = FakeKafka(["refused"] * 99), Spool(tmp_path / "spool.db", 1 << 20)
    poison = Batch("s", (Event(None, b"poison", "p"),), 1, 1)
    spool.put(*PLACE, [poison, events("s", 2), events("other", 1)])
    running = Running(kafka, spool)
    while "of the spool" not in caplog.text:
        time.sleep(0.001)
    assert [record.getMessage() for record in caplog.records if "of the spool" in record.getMessage()] == [
        "Kafka does not accept 2 batches of the spool, from sequence number 1 of source s"
    ]
    assert running.offer(events("s", 1)) == Ack(1, Status.OK, 2)
    assert kafka.ids("other") == ["1.0", "1.1"]
    running.close()


def large(number: int, size: int = 100_000) -> Batch:
    """A batch of so many bytes."""
    return Batch("s", (Event(None, b"x" * size, f"{number}.0"),), size, number)


def test_a_spool_behind_a_slow_uplink_drains(tmp_path: Path) -> None:
    """A transaction has no more bytes than arrive in time: all of them at once never did."""
    kafka, spool = Uplink(), Spool(tmp_path / "spool.db", 1 << 30)
    spool.put(*PLACE, [large(number) for number in range(1, 31)])
    running = Running(kafka, spool)
    deadline = time.monotonic() + 10
    while spool.size().batches:
        assert time.monotonic() < deadline
        time.sleep(0.001)
    assert kafka.ids("s") == [f"{number}.0" for number in range(1, 31)]
    running.close()


def test_what_comes_while_a_long_spool_drains_is_told_of_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It goes behind that, on the disk: nobody waits for all of it."""
    monkeypatch.setattr(lane_module, "_DRAIN_SECONDS", 0.0)
    monkeypatch.setattr(spool_module, "_MOST_AT_ONCE", 1)
    kafka, spool = SlowKafka(seconds=0.1), Spool(tmp_path / "spool.db", 1 << 30)
    spool.put(*PLACE, [large(number) for number in range(1, 6)])
    running = Running(kafka, spool)
    assert running.offer(events("s", 6)) == Ack(6, Status.FALLBACK)
    assert spool.size().batches > 1
    while spool.size().batches:
        time.sleep(0.001)
    assert kafka.ids("s") == [*(f"{number}.0" for number in range(1, 6)), "6.0", "6.1"]
    running.close()


def test_a_window_behind_a_slow_uplink_gets_through(tmp_path: Path) -> None:
    """By way of the disk at first; those that come later are of the size that arrives."""
    kafka = Uplink()
    running = Running(kafka, Spool(tmp_path / "spool.db", 1 << 30))
    for first in (1, 11):
        told = [running.give(large(number)) for number in range(first, first + 10)]
        for each in told:
            running.heard(each)
        while running.lane.state is not State.READY:
            time.sleep(0.001)
    assert kafka.ids("s") == [f"{number}.0" for number in range(1, 21)]
    running.close()


def test_whoever_ends_it_does_not_wait_for_its_spool(tmp_path: Path) -> None:
    """What lies there stays, and what comes meanwhile goes behind it."""
    spool = Spool(tmp_path / "spool.db", 1 << 20)
    spool.put(*PLACE, [events("s", number) for number in range(1, 1_001)])
    running = Running(SlowKafka(), spool)
    running.close()
    assert spool.size().batches > 0
    assert spool.ends(*PLACE) == {"s": 1_000}


def test_a_queue_above_four_fifths_says_so_and_a_full_one_takes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`buffered` is in Kafka, its state `busy`; who was refused comes again."""
    monkeypatch.setattr(intake_module, "QUEUE_BATCHES", 10)
    kafka = SlowKafka()
    running = Running(kafka, Spool(tmp_path / "spool.db", 1 << 20))  # type: ignore[arg-type]
    kafka.may_write.clear()
    told = [running.give(events("s", 1))]
    while running.lane.intake.size()[0]:
        time.sleep(0.001)
    told += [running.give(events("s", number)) for number in range(2, 13)]
    full = running.heard(told.pop())
    assert isinstance(full, Nack)
    assert (full.reason, full.should_retry) == (Reason.BUFFER_FULL, True)
    assert running.lane.state is State.BUSY
    kafka.may_write.set()
    answers = [running.heard(each) for each in told]
    assert [each.status for each in answers if isinstance(each, Ack)] == [Status.BUFFERED, *[Status.OK] * 10]
    assert running.lane.state is State.READY
    running.close()


def test_an_id_counts_once(tmp_path: Path) -> None:
    """An event's in another batch, and a batch's that is sent again without a sequence."""
    kafka, spool = FakeKafka(), Spool(tmp_path / "spool.db", 1 << 20)
    running = Running(kafka, spool)
    one = Batch("s", (Event(None, b"1", "a"), Event(None, b"2", "a"), Event(None, b"3", "b")), 1, id="x")
    assert running.offer(one) == Ack(1, Status.OK, 2, 1)
    assert running.offer(one) == Ack(1, Status.DUPLICATE, skipped=3)
    assert running.offer(Batch("s", (Event(None, b"4", "b"), Event(None, b"5", "c")), 1, 2)) == Ack(
        2, Status.OK, 1, 1
    )
    assert running.offer(Batch("other", (Event(None, b"6", "a"),), 1)) == Ack(1, Status.OK, 1)
    assert [each.value for each in kafka.records] == [b"1", b"3", b"5", b"6"]
    running.close()


def test_a_batch_counts_once_by_its_id_whatever_its_number(tmp_path: Path) -> None:
    """Also one that an earlier process put on the disk, whose client sends it again before it is in Kafka."""
    kafka, spool = FakeKafka(), Spool(tmp_path / "spool.db", 1 << 20)
    spooled = Batch("s", (Event(None, b"1", None),), 1, 1, "x")
    spool.put(*PLACE, [spooled])
    running = Running(kafka, spool)
    again = running.offer(replace(spooled, sequence=None))
    assert isinstance(again, Ack)
    assert again.status in {Status.FALLBACK, Status.DUPLICATE}
    assert running.offer(replace(spooled, sequence=2)).skipped == 1  # type: ignore[union-attr]
    assert [each.value for each in kafka.records] == [b"1"]
    running.close()


def other(source: str, number: int) -> Batch:
    """A batch of that number with events of somebody else."""
    return Batch(source, (Event(None, b"{}", f"other {number}"),), 10, number)


def test_a_number_is_one_batchs(tmp_path: Path) -> None:
    """Another one under it is told so with the next number, wherever the first lies, over restarts too."""
    kafka, spool = FakeKafka(), Spool(tmp_path / "spool.db", 1 << 20)
    running = Running(kafka, spool)

    def told(number: int) -> tuple[str, int | None]:
        same, another = (running.offer(of("s", number)) for of in (events, other))
        assert isinstance(same, Ack), same
        assert isinstance(another, Nack), another
        assert (another.reason, another.is_taken) == (Reason.INVALID_SEQUENCE, True)
        return same.status, another.expected

    assert running.offer(events("s", 1)) == Ack(1, Status.OK, 2)
    assert told(1) == (Status.DUPLICATE, 2)
    kafka.is_away = True
    assert running.offer(events("s", 2)) == Ack(2, Status.FALLBACK)
    assert told(2) == (Status.FALLBACK, 3)
    assert (running.lane.intake.accepted("s"), running.lane.intake.stand("s").sequence) == (2, 1)
    running.close()
    kafka.is_away, kafka.failures = False, ["before"] * 10_000
    running = Running(kafka, spool)
    assert (told(1), told(2)) == ((Status.DUPLICATE, 3), (Status.FALLBACK, 3))
    kafka.failures = []
    while spool.size().batches:
        time.sleep(0.001)
    assert told(2) == (Status.DUPLICATE, 3)
    assert kafka.ids("s") == ["1.0", "1.1", "2.0", "2.1"]
    running.close()


def test_what_kept_no_digests_is_known_by_its_number(tmp_path: Path) -> None:
    """A state and a spool of an older gateway; in time all honest numbers have one, older ones no place."""
    old = sqlite3.connect(tmp_path / "spool.db")
    old.execute(spool_module._TABLE.replace(", digest BLOB", ""))
    old.execute(
        "INSERT INTO batches VALUES (1, 'topic', 0, 'd', 1, NULL, '[[null, \"e30=\", \"1.0\"]]', 1, 1)"
    )
    old.commit()
    spool = Spool(tmp_path / "spool.db", 1 << 20)
    assert list(spool.known(*PLACE)) == [replace(events("d", 1, 1), size_bytes=1, events=())]
    kafka = FakeKafka(stands={"s": Stand(5, 0)})
    running = Running(kafka, spool)
    assert running.offer(other("s", 3)) == Ack(3, Status.DUPLICATE, 0, 1)
    for number in range(6, 38):
        assert running.offer(events("s", number)) == Ack(number, Status.OK, 2)
    for number in (6, 37, 5):
        told = running.offer(other("s", number))
        assert isinstance(told, Nack)
        assert told.expected == 38
    running.close()


def test_what_another_gateway_wrote_under_its_number_is_no_duplicate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slot that is taken anew finds it: the batch is told of, and what is behind it finds no place."""

    class Moved(FakeKafka):
        def write(self, records: Iterable[Outgoing], stands: Mapping[str, Stand]) -> None:
            if "s" in stands and not self.stands:
                self.stands["s"] = Stand().after(b"another.", 1)
                self.failures.append("before")
            super().write(records, stands)

    monkeypatch.setattr("gateway.lane.TRIES", 1000)  # on a slow machine too there is time for the second
    running = Running(Moved(), Spool(tmp_path / "spool.db", 1 << 20))
    told = [running.give(events("s", number)) for number in (1, 2)]
    first, second = map(running.heard, told)
    assert isinstance(first, Nack)
    assert (first.reason, first.expected) == (Reason.INVALID_SEQUENCE, 2)
    assert isinstance(second, Nack)
    assert second.reason is Reason.INVALID_SEQUENCE
    running.close()


def test_two_batches_of_one_id_in_a_window_are_one(tmp_path: Path) -> None:
    """Under two numbers, before Kafka has either: the second writes nothing."""
    kafka = SlowKafka()
    running = Running(kafka, Spool(tmp_path / "spool.db", 1 << 20))
    kafka.may_write.clear()
    told = [running.give(events("s", 1))]
    while running.lane.intake.size()[0]:
        time.sleep(0.001)
    told += [running.give(Batch("s", (Event(None, b"{}"),), 1, number, "x")) for number in (2, 3)]
    kafka.may_write.set()
    assert [running.heard(each) for each in told][1:] == [Ack(2, Status.OK, 1), Ack(3, Status.OK, 0, 1)]
    assert len(kafka.records) == 3
    running.close()


def test_an_id_is_forgotten_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though nothing came meanwhile: whose ids come round again loses nothing."""
    kafka, spool = FakeKafka(), Spool(tmp_path / "spool.db", 1 << 20)
    running = Running(kafka, spool)
    assert running.offer(events("s", 1)) == Ack(1, Status.OK, 2)
    at = time.monotonic()
    monkeypatch.setattr("time.monotonic", lambda: at + 301)
    same = replace(events("s", 1), sequence=2)
    assert running.offer(same) == Ack(2, Status.OK, 2)
    assert running.offer(replace(same, sequence=3)) == Ack(3, Status.OK, 0, 2)
    running.close()


def test_a_record_that_the_broker_refuses_is_turned_away_alone(tmp_path: Path) -> None:
    """What came with it is in Kafka; its source goes on at the same sequence."""
    kafka, spool = FakeKafka(["refused"] * 9), Spool(tmp_path / "spool.db", 1 << 20)
    running = Running(kafka, spool)
    poison = Batch("s", (Event(None, b"poison", "p"),), 1, 1)
    answer = running.offer(poison)
    assert isinstance(answer, Nack)
    assert (answer.reason, answer.should_retry) == (Reason.INVALID_FORMAT, False)
    assert running.offer(events("s", 1)) == Ack(1, Status.OK, 2)
    running.close()


def test_who_was_fenced_ends_and_takes_nothing(tmp_path: Path) -> None:
    """Its clients are told to go elsewhere."""
    kafka, spool = FakeKafka(["fenced"]), Spool(tmp_path / "spool.db", 1 << 20)
    running = Running(kafka, spool)
    for number in (1, 2):
        answer = running.offer(events("s", number))
        assert isinstance(answer, Nack)
        assert (answer.reason, answer.should_retry) == (Reason.SHUTTING_DOWN, True)
    assert running.lane.intake.ended is not None
    assert running.lane.intake.ended.code == "gateway-fenced"


def test_the_spool_is_bounded_and_keeps_order_over_a_restart(tmp_path: Path) -> None:
    """Binary values too; what does not fit is not taken in part; a second process is refused."""
    path = tmp_path / "spool.db"
    spool = Spool(path, 2_400)
    raw = Batch("s", (Event(b"\xff", None, None), Event(None, b"\x00", "i")), 7, 1, "b")
    spool.put("t", 1, [raw])
    with pytest.raises(SpoolFullError):
        spool.put("t", 1, [events("s", 2, count=20)])
    spool.put("t", 1, [events("s", 2)])
    config = SluiceConfig(
        home=str(tmp_path),
        state=str(tmp_path),
        catalog=CatalogSettings(properties={}),
        gateway=GatewaySettings.model_validate({"spool": {"max": 2_400}}),
    )
    seen = spool_facts(config, "t")
    assert seen == SpoolFacts(2, spool.size().bytes, spool.size().oldest_ms, spool.size().bytes / 2_400)
    assert spool_facts(config, "other") == SpoolFacts(0, 0, None, spool.size().bytes / 2_400)
    with pytest.raises(RetryableError, match="gateway-spool"):
        Spool(path, 2_400)
    spool.close()
    again = Spool(path, 2_400)
    assert [each.batch for each in again.first("t", 1)] == [raw, events("s", 2)]
    assert (again.ends("t", 1), again.slots()) == ({"s": 2}, {("t", 1)})
    again.drop(again.first("t", 1)[:1])
    assert again.size().batches == 1
    again.close()


def test_the_last_record_of_a_source_says_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tombstone of it, that it is to begin anew; who has the slot is no source."""
    owner = b'{"url":"http://here","process":"p"}'
    told = [(b"a", Stand(1, 1).to_bytes()), (b"b", Stand(7, 9).to_bytes()), (OWNER_KEY, owner)]
    told += [(b"a", Stand(2, 4).to_bytes()), (b"b", None)]
    records = [(key, value, None, 0) for key, value in told]
    monkeypatch.setattr(StreamTopics, "_read", lambda *_: iter(records))
    state = SimpleNamespace(high={0: 5}, end={0: 5})
    topics = StreamTopics({}, SimpleNamespace(source_state=lambda _: state), "t", 300)  # type: ignore[arg-type]
    assert topics.stands(0) == {"a": Stand(2, 4)}
    assert topics.owner(0) == Owner("http://here", "p")


def test_what_others_write_beside_a_gateway_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Headers and keys that are no UTF-8, states that are none, fields that a newer gateway keeps."""
    newer = b'{"sequence":2,"events":4,"epoch":7}'
    owner = b'{"url":"http://here","process":"p","zone":"a"}'
    states = [(b"a", newer), (b"\xff", newer), (b"a", b"\xff{"), (b"b", b"[1]"), (b"c", b'{"sequence":"1"}')]
    states += [(OWNER_KEY, owner), (OWNER_KEY, b"7"), (None, b"{}"), (b"a", b'{"sequence":1,"events":null}')]
    told = [(SOURCE, b"s"), ("__value_schema_id", b"\xff\x00"), ("x-datadog", None), (BATCH_ID, b"b")]
    foreign = [("traceparent", b"\x80"), (SOURCE, b"\xff"), (EVENT_ID, b"e")]
    events = [
        (None, b"{}", headers, 1_000) for headers in (foreign, told, [*told, (EVENT_ID, b"\xff")], None)
    ]
    records = {"t": events, "t.sluice-sources": [(*each, None, 0) for each in states]}
    monkeypatch.setattr(StreamTopics, "_read", lambda _, topic, *__: iter(records[topic]))
    state = SimpleNamespace(high={0: 5}, end={0: 5})
    admin = SimpleNamespace(source_state=lambda _: state, offsets_for_times=lambda *_: {0: 0})
    topics = StreamTopics({}, admin, "t", 300)  # type: ignore[arg-type]
    assert topics.stands(0) == {"a": Stand(2, 4)}
    assert topics.owner(0) == Owner("http://here", "p")
    assert topics.ids(slot_of("s"), time.monotonic()) == {
        ("s", BATCH_ID, "b"): pytest.approx(time.monotonic() - time.time() + 1, abs=5)
    }


@pytest.mark.parametrize("place", ["open", "write"])
def test_a_slot_that_breaks_begins_anew_and_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """Its clients are told to come again, and have each event there once; other slots hear nothing of it."""
    kafka, spool = FakeKafka(), Spool(tmp_path / "spool.db", 1 << 20)
    right, breaks = getattr(kafka, place), [True]

    def broken(*told: Any) -> Any:
        if breaks and breaks.pop():
            raise ValueError("a record that nobody thought of")
        return right(*told)

    monkeypatch.setattr(kafka, place, broken)
    running = Running(kafka, spool)
    told = running.offer(events("s", 1))
    if place == "write":
        assert isinstance(told, Nack)
        assert (told.reason, told.should_retry) == (Reason.INTERNAL_ERROR, True)
        while not running.lane.intake.was_open:
            time.sleep(0.001)
        told = running.offer(events("s", 1))
    assert told == Ack(1, Status.OK, 2)
    assert running.lane.intake.ended is None
    assert kafka.ids("s") == ["1.0", "1.1"]
    running.close()


def test_a_run_is_started_once_in_the_freshness() -> None:
    """Never two at once; of a stream without a pipeline there is none."""
    now, ended, started = [0.0], [None], list[str]()
    run = SimpleNamespace(poll=lambda: ended[0])
    flushes = Flushes(lambda name: (started.append(name), run)[1], lambda: now[0])  # type: ignore[arg-type]
    stream = SimpleNamespace(pipelines=[SimpleNamespace(name="orders", freshness_seconds=60)])
    none = SimpleNamespace(pipelines=[])
    assert flushes(none) is Flush.UNSUPPORTED  # type: ignore[arg-type]
    assert flushes(stream) is Flush.STARTED  # type: ignore[arg-type]
    now[0] = 100.0
    assert flushes(stream) is Flush.UNDER_WAY  # type: ignore[arg-type]
    ended[0], now[0] = 0, 59.0  # type: ignore[call-overload]
    assert flushes(stream) is Flush.TOO_SOON  # type: ignore[arg-type]
    now[0] = 60.0
    assert flushes(stream) is Flush.STARTED  # type: ignore[arg-type]
    assert started == ["orders", "orders"]
    stream.pipelines.append(SimpleNamespace(name="mirror", freshness_seconds=60))
    assert flushes(stream) is Flush.STARTED  # type: ignore[arg-type]
    assert flushes(stream) is Flush.TOO_SOON  # type: ignore[arg-type]
    assert started == ["orders", "orders", "mirror"]


def test_a_batch_is_persisted_once_it_is_in_the_tables_of_all_pipelines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A mirror beside a table of changes may be behind it; a table that is not there yet has nothing."""
    reached: dict[str, dict[int, int] | None] = {"changes": {0: 7, 1: 0}, "mirror": None}
    monkeypatch.setattr(persisted_module, "load_fresh", lambda _connections, name: reached[name])
    monkeypatch.setattr(persisted_module, "progress_of", lambda table: SimpleNamespace(next_offsets=table))
    admin = SimpleNamespace(source_state=lambda _topic: SimpleNamespace(high={0: 7, 1: 0}))
    looks: list[int] = []
    connections = SimpleNamespace(admin=admin, refresh=lambda: looks.append(1))
    persisted = Persisted(connections, 100)  # type: ignore[arg-type]
    pipelines = [SimpleNamespace(table=name) for name in reached]
    stream = SimpleNamespace(name="s", topics=SimpleNamespace(topic="t"), pipelines=pipelines)
    wanted = [persisted_module._Request("a", lambda: None)]
    for mirror, is_done in ((None, False), ({0: 6}, False), ({0: 7}, True)):
        reached["mirror"] = mirror
        assert persisted._done(stream, wanted) == (wanted if is_done else [])  # type: ignore[arg-type]
    assert len(looks) == 3  # by secrets that may have been rotated


def test_a_paused_pipeline_silences_no_other_stream_and_a_source_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of each stream so many wait, a tenth of them of one source; who leaves makes room."""
    monkeypatch.setattr(persisted_module, "LOOK_SECONDS", 0.01)
    told: list[str] = []

    def done(_: Persisted, stream: Any, wanted: list[Any]) -> list[Any]:
        if stream.name == "unreadable":
            raise RetryableError("away", code="catalog-away", hint="")
        return wanted if stream.name == "drained" else []

    monkeypatch.setattr(Persisted, "_done", done)
    persisted = Persisted(cast("Any", None), 100)
    paused, unreadable, drained = (
        cast("Any", SimpleNamespace(name=name)) for name in ("paused", "unreadable", "drained")
    )

    def ask(stream: Any, source: str) -> bool:
        return persisted.watch(stream, source, lambda: told.append(source))

    async def waiting() -> None:
        assert [ask(paused, "greedy") for _ in range(11)] == [True] * 10 + [False]
        assert all(ask(paused, str(number // 10)) for number in range(90))
        assert not ask(paused, "late")
        assert ask(unreadable, "b")
        assert ask(drained, "c")
        await asyncio.sleep(0.1)
        assert told == ["c"]
        persisted.leave(paused, "greedy")
        assert ask(paused, "late")
        assert len(persisted) == 92

    asyncio.run(waiting())


def test_of_many_sources_those_of_late_are_remembered_and_others_read_again(tmp_path: Path) -> None:
    """Who was forgotten waits for that, and is never taken for a new one, nor is a new one."""
    kafka = FakeKafka()
    running = Running(kafka, Spool(tmp_path / "spool.db", 1 << 20), sources=3)
    for number in range(10):
        assert running.offer(events(f"s{number}", 1)) == Ack(1, Status.OK, 2)
        while running.lane.intake.unknown(f"s{number + 1}"):
            time.sleep(0.001)
    assert len(running.lane.intake.stands) <= 4
    before = kafka.reads
    told = running.offer(other("s0", 1))
    assert isinstance(told, Nack)
    assert (told.reason, told.should_retry) == (Reason.INTERNAL_ERROR, True)
    while running.lane.intake.unknown("s0"):
        time.sleep(0.001)
    assert kafka.reads == before + 1
    told = running.offer(other("s0", 1))
    assert isinstance(told, Nack)
    assert told.expected == 2
    assert running.offer(events("s0", 1)) == Ack(1, Status.DUPLICATE, 0, 2)
    assert running.offer(events("s0", 2)) == Ack(2, Status.OK, 2)
    running.close()


def test_ids_are_bounded_and_none_of_late_is_forgotten_for_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What has ids waits until there is room; what has none goes on."""
    running = Running(FakeKafka(), Spool(tmp_path / "spool.db", 1 << 20), event_ids=4)
    for number in (1, 2):
        assert running.offer(events("s", number)) == Ack(number, Status.OK, 2)
    full = running.offer(events("s", 3))
    assert isinstance(full, Nack)
    assert (full.reason, full.should_retry) == (Reason.BUFFER_FULL, True)
    assert running.offer(Batch("s", (Event(None, b"{}"),), 1, 3)) == Ack(3, Status.OK, 1)
    at = time.monotonic()
    monkeypatch.setattr("time.monotonic", lambda: at + 301)
    assert running.offer(events("s", 4)) == Ack(4, Status.OK, 2)
    running.close()


def test_a_clock_that_was_ahead_holds_no_ids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else nothing with ids is taken until it is as late as that clock said."""
    wall, at = time.time(), time.monotonic()
    running = Running(FakeKafka(), Spool(tmp_path / "spool.db", 1 << 20), event_ids=2)
    monkeypatch.setattr("time.time", lambda: wall + 3600)
    assert running.offer(events("s", 1)) == Ack(1, Status.OK, 2)
    monkeypatch.setattr("time.time", lambda: wall + 301)
    monkeypatch.setattr("time.monotonic", lambda: at + 302)
    assert running.offer(events("s", 2)) == Ack(2, Status.OK, 2)
    running.close()


def test_an_id_that_kafka_has_is_known_while_the_next_batch_is_answered() -> None:
    """It comes without a number: that of its source's last one is another batch's then."""
    intake, told = Intake(300, [], MemorySettings()), list[Answer]()
    intake.open({}, {})
    named = Batch("s", (Event(None, b"1"),), 1, id="x")
    later = Batch("s", (Event(None, b"2"),), 1)
    for number, batch in enumerate((named, later), 1):
        assert intake.offer(batch, told.append) is None
        window = intake.next_window(0, 1, may_read=False)
        intake.know({"s": Stand(number, number)}, {("s", BATCH_ID, "x"): time.monotonic()})
        if batch is named:
            intake.forget(window or [])
    assert intake.offer(named, told.append) == Ack(2, Status.DUPLICATE, skipped=1)


def test_a_source_that_was_forgotten_waits_for_kafka(tmp_path: Path) -> None:
    """It is never taken for a new one meanwhile, and goes on where it was."""
    kafka = FakeKafka()
    running = Running(kafka, Spool(tmp_path / "spool.db", 1 << 20), sources=1)
    for source in ("a", "b"):
        while running.lane.intake.unknown(source):
            time.sleep(0.001)
        assert running.offer(events(source, 1)) == Ack(1, Status.OK, 2)
    kafka.is_away, before = True, kafka.reads
    while kafka.reads < before + 3:
        told = running.offer(events("a", 2))
        assert isinstance(told, Nack)
        assert told.reason is Reason.INTERNAL_ERROR
    kafka.is_away = False
    while running.lane.intake.unknown("a"):
        time.sleep(0.001)
    assert running.offer(events("a", 2)) == Ack(2, Status.OK, 2)
    running.close()


def test_a_source_whose_batch_is_on_its_way_is_not_forgotten() -> None:
    """However many came since: its batch would have no place, and be refused."""
    intake = Intake(300, (), MemorySettings(sources=1))
    intake.open({"s": Stand(7, 14)}, {})
    assert intake.offer(events("s", 8), lambda _: None) is None
    intake.know({"other": Stand(1, 1)}, {})
    assert intake.stand("s") == Stand(7, 14)


def test_kafka_is_believed_when_it_has_less_than_before() -> None:
    """A topic that was made anew, or a restored broker: a source begins where that is, not where it was."""
    intake = Intake(300, (), MemorySettings())
    intake.open({"s": Stand(9, 9)}, {})
    assert intake.accepted("s") == 9
    intake.open({}, {})
    assert intake.accepted("s") == 0


def test_who_was_told_of_its_batches_may_wait_for_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """A source has a tenth of those that wait now, not of all that ever did."""
    monkeypatch.setattr(persisted_module, "LOOK_SECONDS", 0.001)
    monkeypatch.setattr(Persisted, "_done", lambda _self, _stream, wanted: wanted)
    persisted = Persisted(cast("Any", None), 20)
    stream = cast("Any", SimpleNamespace(name="s"))

    async def in_turn() -> None:
        for _ in range(5):
            told = asyncio.Event()
            assert persisted.watch(stream, "a", told.set)
            await asyncio.wait_for(told.wait(), 10)

    asyncio.run(in_turn())


def test_ids_that_were_read_before_a_slot_was_taken_are_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the reading had not ended then: who had the slot may have written behind it."""
    now, reads = [0.0], list[float]()

    def recent(_: StreamTopics) -> list[Any]:
        reads.append(now[0])
        now[0] += 10
        return []

    monkeypatch.setattr(topics_module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(StreamTopics, "_recent", recent)
    topics = StreamTopics({}, cast("Any", None), "t", 300)
    for taken_at in (0.0, 5.0, 9.0):
        topics.ids(0, taken_at)
    assert reads == [0.0, 10.0]


def test_what_kafka_refuses_for_a_while_waits_on_the_disk(tmp_path: Path) -> None:
    """As a right that is taken and given again: what worked before is no reason to end."""
    kafka = FakeKafka()
    running = Running(kafka, Spool(tmp_path / "spool.db", 1 << 20))
    assert running.offer(events("s", 1)) == Ack(1, Status.OK, 2)
    write = kafka.write

    def refused(*_: Any) -> None:
        raise ConfigError("no right to write", code="broker-refuses", hint="")

    kafka.write = refused  # type: ignore[method-assign,assignment]
    assert running.offer(events("s", 2)) == Ack(2, Status.FALLBACK)
    assert running.lane.intake.ended is None
    kafka.write = write  # type: ignore[method-assign]
    while running.lane.state is not State.READY:
        time.sleep(0.001)
    assert kafka.ids("s") == ["1.0", "1.1", "2.0", "2.1"]
    running.close()


@pytest.mark.parametrize(
    ("reported", "told"),
    [
        (KafkaError.SASL_AUTHENTICATION_FAILED, "authentication-failed"),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, "not-authorised"),
        (None, "broker-away"),
    ],
)
def test_a_client_that_is_refused_is_no_broker_that_is_away(
    monkeypatch: pytest.MonkeyPatch, reported: int | None, told: str
) -> None:
    """Calls time out while the client asks again for ever; what it reports beside them tells why."""
    monkeypatch.setattr(writer_module, "_ALL_DOWN_SECONDS", 0.0)
    writer = Writer(StreamTopics({}, cast("Any", None), "t", 300), 0, Owner("u", "p"), lambda _: None)
    if reported is not None:
        writer._troubles(KafkaError(reported))
    writer._troubles.are_all_down = True

    def ask(_seconds: float) -> None:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, retriable=True))

    with pytest.raises(SluiceError) as raised:
        writer._wait(cast("Any", None), ask)
    assert raised.value.code == told
