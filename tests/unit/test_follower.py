"""What a look at tables and topics makes of it: nothing older than what is held, and no end of looking."""

from __future__ import annotations

import time
import weakref
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
import pytest

from spark_jobs.hot import follower as module
from spark_jobs.hot import pipeline_follower
from spark_jobs.hot.decoding_notes import DecodingNotes
from spark_jobs.hot.follower import Follower
from spark_jobs.hot.pipeline_follower import PipelineFollower
from spark_jobs.hot.prefix import HeldRecords, Seam
from spark_jobs.hot.segment import Segment, Tail, merged
from spark_jobs.hot.segment_maker import AskedSchemas, SchemasAsked
from spark_jobs.hot.watermark import Epoch
from spark_jobs.protocol.errors import RetryableError, SourceChanged
from spark_jobs.protocol.progress import Progress

if TYPE_CHECKING:
    from spark_jobs.storage.create_only import CreateOnlyStore

EPOCH = Epoch("u", "t", 1, 0)


def seam(offset: int, number: int, letters: str = "letters-1", uuid: str = "u") -> Seam:
    """A state of a table of one partition."""
    data, dead = (
        SimpleNamespace(
            metadata=SimpleNamespace(table_uuid=uuid, last_sequence_number=number),
            metadata_location=place,
            schema=lambda: SimpleNamespace(fields=()),
        )
        for place in (f"data-{number}-{offset}", letters)
    )
    made = Seam(cast("Any", data), cast("Any", dead), cast("CreateOnlyStore", None))
    made.__dict__["progress"] = Progress(topic="t", topic_id="t", generation=1, next_offsets={0: offset})
    return made


@pytest.mark.parametrize("older", [seam(5, 2), seam(5, 3)], ids=["snapshot before", "the same snapshot"])
def test_a_state_of_the_lake_that_was_loaded_earlier_is_known_as_such(older: Seam) -> None:
    """Under it an answer would end where it ends: before one that was given already."""
    held = HeldRecords.at(seam(9, 3), EPOCH, {0: 9})
    assert held.is_ahead_of(older)
    assert not held.is_ahead_of(held.seam)
    assert not held.is_ahead_of(seam(12, 4))


class _Looking:
    """A follower whose tables are what the test says, and no pipeline thread."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, held: Seam) -> None:
        self.now, self.is_away = held, False
        monkeypatch.setattr(module, "load_table", lambda _, name: self._table(name))
        monkeypatch.setattr(module, "load_seam", lambda *_: self.now)
        monkeypatch.setattr(module, "check_anchor", lambda _: None)
        self.opened: list[int] = []
        self.closed: list[int] = []
        connections = SimpleNamespace(open_catalog=self._open)
        self.follower = Follower([], cast("Any", connections), folder=folder, memory_bytes=0)
        where = {"pipeline": "orders", "table": "shop.orders"}
        pipeline = cast("Any", SimpleNamespace(name="orders", table="shop.orders", where=where))
        notes = DecodingNotes(folder, "orders")
        self._one = PipelineFollower(pipeline, cast("Any", None), notes, lambda: False)
        self._one._held, self._one._newest = HeldRecords.at(held, EPOCH, {0: 9}), held

    def _open(self) -> Any:
        number = len(self.opened)
        self.opened.append(number)
        return SimpleNamespace(close=lambda: self.closed.append(number))

    def _table(self, name: str) -> Any:
        if self.is_away:
            raise RetryableError("the catalog is away", code="catalog-away", hint="Try again.")
        return self.now.table if name == "shop.orders" else self.now.dead_letters

    def look(self) -> Any:
        return self.follower._newer(self._one)


def test_a_catalog_that_failed_is_left_for_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that answers is kept: to open it costs as much as to look."""
    looking = _Looking(tmp_path, monkeypatch, seam(9, 3))
    for is_away in (False, False, True, False):
        looking.is_away, looking.now = is_away, seam(9, 3)
        looking.look()
    assert (looking.opened, looking.closed) == ([0, 1], [0])
    looking.now = seam(12, 4)
    assert looking.look() is looking.now


def test_dead_letters_that_moved_alone_are_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their files may be compacted and expired while nothing comes into the table."""
    looking = _Looking(tmp_path, monkeypatch, seam(9, 3))
    assert looking.look() is None
    looking.now = seam(9, 3, "letters-2")
    assert looking.look() is looking.now


def test_a_catalog_that_lags_now_and_then_is_no_table_that_was_set_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only one that stays so for as long."""
    monkeypatch.setattr(pipeline_follower, "LAG_SECONDS", 0.05)
    looking = _Looking(tmp_path, monkeypatch, held := seam(9, 3))
    for state in (seam(5, 2), held, seam(5, 2)):
        looking.now = state
        assert looking.look() is None
        time.sleep(0.06)
    error = looking.look()
    assert error.code == "table-rolled-back"


def test_a_table_that_was_made_anew_is_no_earlier_state_of_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its snapshots count from one: it is followed, and not taken for a catalog that lags."""
    looking = _Looking(tmp_path, monkeypatch, seam(9, 3))
    looking.now = seam(2, 1, uuid="another")
    assert looking.look() is looking.now


def _following(folder: Path) -> PipelineFollower:
    pipeline = cast("Any", SimpleNamespace(name="orders", hot=SimpleNamespace(memory_bytes=1_000)))
    return PipelineFollower(pipeline, cast("Any", None), DecodingNotes(folder, "orders"), lambda: True)


def test_of_another_epoch_nothing_is_known_to_be_fresh(tmp_path: Path) -> None:
    """When Kafka had no more of the old table's records says nothing of the new one's."""
    one = _following(tmp_path)
    one._show(HeldRecords.at(seam(9, 3), EPOCH, {0: 9}), complete={0: time.monotonic()})
    assert one._age_ms() is not None
    one._show(HeldRecords.at(seam(9, 4), replace(EPOCH, generation=2), {0: 9}))
    assert one._age_ms() is None


def test_an_answer_before_a_table_was_set_back_binds_its_own_epoch_alone(tmp_path: Path) -> None:
    """Rolled back by an operator it has another: what it has then is answered from."""
    one = _following(tmp_path)
    one._floor = HeldRecords.at(seam(9, 3), EPOCH, {0: 9})
    one._held = HeldRecords.at(seam(5, 4), EPOCH, {0: 5})
    assert one._answerable is None
    one._held = HeldRecords.at(seam(5, 4), replace(EPOCH, rollbacks=1), {0: 5})
    assert one._answerable is one._held


def test_a_process_without_memory_reads_no_pipeline_on(tmp_path: Path) -> None:
    """Also one whose own part is small: all of them together fill it."""
    one, paused = _following(tmp_path), list[bool]()
    reader = SimpleNamespace(pause=lambda *, is_paused: paused.append(is_paused))
    one._bound(HeldRecords.at(seam(9, 3), EPOCH, {0: 9}), cast("Any", reader))
    assert paused == [True]


def test_a_registry_that_is_away_is_asked_once_a_second() -> None:
    """Not anew with each record that waits for it."""
    asked: list[int] = []

    def learn(*_: object) -> None:
        asked.append(1)
        raise RetryableError("away", code="registry-away", hint="-")

    schemas = AskedSchemas(
        cast("Any", SimpleNamespace(name="orders")), cast("Any", SimpleNamespace(learn=learn))
    )
    for _ in range(5):
        with pytest.raises(SchemasAsked):
            schemas.learn(cast("Any", [1]), cast("Any", None))
        cast("Any", schemas)._thread.join()
    assert len(asked) == 1


@pytest.mark.parametrize("distinct", [127, 128, 129, 255, 256, 32_768, 40_000])
def test_texts_that_repeat_are_kept_once_however_many_differ(distinct: int) -> None:
    """The numbers that stand for them are as small as they can be, and no smaller."""
    rows = max(8_193, 5 * distinct)
    which = pa.array(np.arange(rows) % distinct)
    texts = pa.array([str(n) for n in range(distinct)]).take(which)
    table = pa.table({"_kafka_offset": pa.array(np.arange(rows)), "text": texts})
    whole = merged([Segment(EPOCH, 0, 0, rows, table, table.slice(0, 0))])
    assert pa.types.is_dictionary(whole.rows.column("text").type)
    assert whole.rows.column("text").cast(pa.string()).equals(table.column("text"))


def test_who_begins_anew_while_a_catalog_lags_keeps_what_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And says by name what stays set back."""
    monkeypatch.setattr(pipeline_follower, "LAG_SECONDS", 0.05)
    monkeypatch.setattr(pipeline_follower, "_AGAIN_SECONDS", 0.03)
    monkeypatch.setattr(pipeline_follower, "look", lambda *_: (seam(5, 2), EPOCH, None))
    where = {"pipeline": "orders", "table": "shop.orders"}
    pipeline = cast("Any", SimpleNamespace(name="orders", table="shop.orders", where=where))
    one = PipelineFollower(pipeline, cast("Any", None), DecodingNotes(tmp_path, "orders"), lambda: False)
    one._newest = seam(9, 3)
    one._follow()
    time.sleep(0.06)
    with pytest.raises(SourceChanged) as stays:
        one._follow()
    assert stays.value.code == "table-rolled-back"


def test_a_reason_holds_nothing_of_what_was_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It stands while the same is read once more."""
    read = []

    def follow(one: PipelineFollower) -> None:
        held = HeldRecords.at(seam(9, 3), EPOCH, {0: 9})
        read.append(weakref.ref(held))
        one._closed.set()
        raise RetryableError("away", code="registry-away", hint="-")

    monkeypatch.setattr(PipelineFollower, "_follow", follow)
    pipeline = cast("Any", SimpleNamespace(name="orders"))
    one = PipelineFollower(pipeline, cast("Any", None), DecodingNotes(tmp_path, "orders"), lambda: False)
    one._run()
    assert one.status().reason is not None
    assert read[0]() is None


def test_looking_goes_on_after_what_nobody_foresaw(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else tables would never be seen again, silently."""
    looks = []

    def look(_: Follower) -> None:
        looks.append(1)
        raise KeyError("an answer of another kind")

    monkeypatch.setattr(module, "_LOOK_SECONDS", 0.01)
    monkeypatch.setattr(Follower, "_look", look)
    follower = Follower([], cast("Any", None), folder=tmp_path, memory_bytes=0)
    follower.start()
    time.sleep(0.2)
    follower.close()
    assert len(looks) > 1


def test_who_fails_at_the_same_place_again_and_again_rests_between(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a registry is away: all that is before the record is decoded anew each time."""
    tries = []

    def follow(_: PipelineFollower) -> None:
        until = time.thread_time() + 0.05
        while time.thread_time() < until:
            pass
        tries.append(1)
        raise RetryableError("away", code="registry-away", hint="-")

    monkeypatch.setattr(pipeline_follower, "_AGAIN_SECONDS", 0.01)
    monkeypatch.setattr(PipelineFollower, "_follow", follow)
    pipeline = cast("Any", SimpleNamespace(name="orders"))
    one = PipelineFollower(pipeline, cast("Any", None), DecodingNotes(tmp_path, "orders"), lambda: False)
    one._held = HeldRecords.at(seam(9, 3), EPOCH, {0: 9})
    one.start()
    time.sleep(1)
    one.stop()
    one.join(1)
    assert 2 <= len(tries) <= 5


def test_memory_that_was_let_go_of_is_not_counted(tmp_path: Path) -> None:
    """Else a process that was full once would read nothing more, however much is drained."""
    before = module._resident_bytes()
    if not before:
        pytest.skip("the system does not tell")
    follower = Follower([], cast("Any", None), folder=tmp_path, memory_bytes=before + 50_000_000)
    some = pa.array(np.arange(10_000))
    held = [pa.concat_arrays([some, some]) for _ in range(1_000)]
    assert follower._is_tight()
    del held
    assert not follower._is_tight()


def test_dead_letters_are_merged_as_rows_are() -> None:
    """Not all of them again and again, where a topic has nothing else."""
    none, letters = (pa.table({"_kafka_offset": pa.array(range(count), pa.int64())}) for count in (0, 5_000))
    tail = Tail.at(EPOCH, 0, 0)
    for _ in range(40):
        start = tail.end
        there = letters.set_column(0, "_kafka_offset", pa.array(np.arange(start, start + 5_000)))
        tail = tail.append(Segment(EPOCH, 0, start, start + 5_000, none, there))
    assert max(len(each.dead_letters) for each in tail.segments) <= 8 * 8_192
