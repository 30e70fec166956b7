"""Entries of the transaction log: how they fold, what damage means, which versions are refused."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from spark_jobs.protocol.errors import CorruptLog
from spark_jobs.txlog.entries import (
    IcebergSnapshotCreated,
    OffsetCommit,
    ParquetWritten,
    Phase,
    Swept,
    entry_to_json,
    fold,
    is_finished,
    is_settled,
    object_name,
    reached_phase,
)
from tests.support.log_entries import TABLE_UUID, finished_phases, make_batch, offset_commit

if TYPE_CHECKING:
    from spark_jobs.protocol.batch import Batch

HOUR_US = 3600 * 1_000_000


def objects_of(batch: Batch, phases: int = 6) -> dict[str, str]:
    """The first phases of a batch as the store holds them."""
    entries = finished_phases(batch)[:phases]
    return {object_name(e.phase, 0): entry_to_json(e, batch, TABLE_UUID) for e in entries}


def test_all_phases_come_back() -> None:
    """Folding the objects of an attempt gives its batch and its entries in order."""
    batch = make_batch()
    attempt = fold(TABLE_UUID, batch.attempt, objects_of(batch))
    assert attempt.batch == batch
    assert attempt.entries == finished_phases(batch)
    assert attempt.unreadable == ()
    assert attempt.reached == 6


def test_names_sort_as_phases_happen() -> None:
    """The objects of an attempt are named by number and phase, so that a listing tells the story."""
    assert list(objects_of(make_batch())) == [
        "1-OffsetCommit.json",
        "2-BufferSnapshot.json",
        "3-FlushStart.json",
        "4-ParquetWritten.json",
        "5-IcebergSnapshotCreated.json",
        "6-FlushComplete.json",
    ]


@pytest.mark.parametrize(
    "damage", ["", "{", "null", "[]", "17", '{"format":1}', '{"format":"1"}', "\ufffd\x00"]
)
@pytest.mark.parametrize("name", ["1-OffsetCommit.json", "3-FlushStart.json", "4-ParquetWritten.json"])
def test_damaged_object_is_a_phase_that_did_not_happen(damage: str, name: str) -> None:
    """Whatever is wrong with one object, the others still say what they say, and for which batch."""
    batch = make_batch()
    objects = objects_of(batch, 4) | {name: damage}
    attempt = fold(TABLE_UUID, batch.attempt, objects)
    assert attempt.unreadable == (name,)
    assert attempt.batch == batch
    assert len(attempt.entries) == 3
    assert attempt.reached == 4


def test_every_truncation_is_noticed() -> None:
    """No proper prefix of an object is taken for an object."""
    batch = make_batch()
    text = objects_of(batch)["4-ParquetWritten.json"]
    for length in range(len(text)):
        attempt = fold(TABLE_UUID, batch.attempt, {"4-ParquetWritten.json": text[:length]})
        assert attempt.entry(ParquetWritten) is None


@pytest.mark.parametrize(
    ("place", "value"),
    [(("batch", "ranges"), [[0, 10, 0]]), (("batch", "ingested_at_us"), "1"), (("entry", "rows"), True)],
)
def test_wrong_types_are_damage(place: tuple[str, str], value: object) -> None:
    """An object that parses as JSON and breaks the declared types is not believed."""
    batch = make_batch()
    content = json.loads(objects_of(batch)["4-ParquetWritten.json"])
    content[place[0]][place[1]] = value
    attempt = fold(TABLE_UUID, batch.attempt, {"4-ParquetWritten.json": json.dumps(content)})
    assert attempt.entries == ()
    assert attempt.batch is None


@pytest.mark.parametrize("place", ["attempt", "table", "phase"])
def test_object_in_a_foreign_place_is_damage(place: str) -> None:
    """An object copied to another attempt, table or phase says nothing there."""
    batch = make_batch()
    text = objects_of(batch)["1-OffsetCommit.json"]
    table = "another" if place == "table" else TABLE_UUID
    uuid = "another" if place == "attempt" else batch.attempt
    name = "2-BufferSnapshot.json" if place == "phase" else "1-OffsetCommit.json"
    assert fold(table, uuid, {name: text}).entries == ()


def test_newer_format_is_refused_by_name() -> None:
    """An object of a newer Sluice stops recovery before anything is changed, and says which object it is."""
    batch = make_batch()
    content = json.loads(objects_of(batch)["1-OffsetCommit.json"]) | {"format": 2, "phase": "Unheard"}
    with pytest.raises(CorruptLog) as caught:
        fold(TABLE_UUID, batch.attempt, {"1-Unheard.json": json.dumps(content)})
    assert caught.value.code == "newer-log-format"
    assert caught.value.where["object"] == "1-Unheard.json"


def test_unknown_fields_of_this_format_are_ignored() -> None:
    """A field added later within the same format does not make an object unreadable."""
    batch = make_batch()
    content = json.loads(objects_of(batch)["1-OffsetCommit.json"])
    content["entry"]["added_later"] = 1
    attempt = fold(TABLE_UUID, batch.attempt, {"1-OffsetCommit.json": json.dumps(content)})
    assert attempt.entry(OffsetCommit) == offset_commit(batch)


def test_marks_say_what_they_saw() -> None:
    """A mark's number grows with the phase the attempt had reached, so a later sweep has its own name."""
    assert object_name(Phase.SWEPT, 3) == "13-Swept.json"
    assert object_name(Phase.CLOSED, 4) == "24-Closed.json"
    assert reached_phase(["1-OffsetCommit.json", "13-Swept.json", ".partial", "x"]) == 1


@pytest.mark.parametrize(
    ("names", "age_us", "is_over"),
    [
        ({"1-OffsetCommit.json"}, 0, False),
        ({"1-OffsetCommit.json", "6-FlushComplete.json"}, 0, True),
        ({"3-FlushStart.json", "13-Swept.json"}, 0, True),
        ({"3-FlushStart.json", "13-Swept.json"}, HOUR_US, False),
        ({"3-FlushStart.json", "4-ParquetWritten.json", "13-Swept.json"}, 0, False),
        ({"3-FlushStart.json", "4-ParquetWritten.json", "13-Swept.json", "14-Swept.json"}, 0, True),
        ({"3-FlushStart.json", "13-Swept.json", "23-Closed.json"}, HOUR_US, True),
        ({"4-ParquetWritten.json", "13-Swept.json", "23-Closed.json"}, HOUR_US, False),
    ],
)
def test_when_recovery_is_done_with_an_attempt(names: set[str], age_us: int, *, is_over: bool) -> None:
    """A swept attempt comes back when it logs a further phase, and once when its runs must be dead."""
    written = dict.fromkeys(names, 0)
    assert is_settled(written, now_us=age_us, closing_after_us=HOUR_US) is is_over


def test_swept_alone_is_not_finished() -> None:
    """A checkpoint folds what landed or is closed, never an attempt that may still be writing."""
    assert not is_finished({"3-FlushStart.json", "13-Swept.json"})
    assert is_finished({"3-FlushStart.json", "23-Closed.json"})
    assert is_finished({"6-FlushComplete.json"})


def test_last_entry_of_a_kind_counts() -> None:
    """Of two sweeps the later one is given."""
    batch = make_batch()
    sweeps = [(Swept(2, "r", 5), 3), (Swept(1, "r", 9), 4)]
    objects = {object_name(e.phase, reached): entry_to_json(e, batch, TABLE_UUID) for e, reached in sweeps}
    attempt = fold(TABLE_UUID, batch.attempt, objects)
    assert attempt.entry(Swept) == Swept(1, "r", 9)
    assert attempt.entry(IcebergSnapshotCreated) is None


def test_objects_of_an_earlier_version_are_read() -> None:
    """What it did not write yet has its default: its unfinished attempts are settled as before."""
    batch = make_batch()
    value = json.loads(entry_to_json(offset_commit(batch), batch, "table"))
    for part, name in (
        ("batch", "kind"),
        ("batch", "epoch"),
        ("batch", "leader_epochs"),
        ("entry", "reason"),
    ):
        del value[part][name]
    attempt = fold("table", batch.attempt, {"1-OffsetCommit.json": json.dumps(value)})
    assert attempt.batch == batch
    assert attempt.entries == (offset_commit(batch),)
