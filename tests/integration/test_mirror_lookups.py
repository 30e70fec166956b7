"""Values that an event does not tell are found where they were told, however batches are cut."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from prove.lab.generated_changes import UNAVAILABLE, SourceEvent
from prove.lab.kafka_server import Record
from spark_jobs.drain import mirror_fold
from spark_jobs.drain.mirror_fold import fold_written
from spark_jobs.protocol.errors import BadRecord, SourceChanged
from spark_jobs.replay.rebuild import rebuild, rebuild_ranges
from tests.support.new_lab import DEAD_LETTERS, NewLab

if TYPE_CHECKING:
    from pathlib import Path

    from prove.lab.kafka_server import KafkaBroker
    from prove.lab.pipeline_lab import Lab

pytestmark = pytest.mark.kafka


@pytest.fixture
def new_lab(kafka: KafkaBroker, tmp_path: Path) -> NewLab:
    """Pipelines whose tasks run in the process that drains."""
    return NewLab(kafka, "", tmp_path, is_here=True)


def placed(partition: int, *told: SourceEvent) -> list[Record]:
    """Return the events as records of one partition."""
    return [replace(each.record(1), partition=partition) for each in told]


def notes(lab: Lab) -> dict[int, str]:
    """Return what the mirror's rows tell, by key."""
    rows = lab.table().scan().to_arrow().to_pylist()
    assert len({row["id"] for row in rows}) == len(rows)
    return {row["id"]: row["note"] for row in rows}


def test_an_old_keys_row_may_be_gone_before_its_new_key_is_read(new_lab: NewLab) -> None:
    """Its value is in what an earlier commit brought; the drain does not wait for what was read long ago."""
    first = SourceEvent("c", 1, 10, 5, 1_000, 7, "long")
    gone = SourceEvent("d", 1, 30, 25, 2_000)
    changed = SourceEvent("c", 2, 30, 25, 2_000, 7, UNAVAILABLE, old_key=1)
    lab = new_lab(placed(0, first), partitions=2, layout="mirror")
    lab.drain()
    new_lab.produce(lab, placed(0, gone))
    lab.drain()
    assert notes(lab) == {}
    new_lab.produce(lab, placed(1, changed))
    lab.drain()
    assert notes(lab) == {2: "long"}


def test_changes_of_one_key_that_nobody_can_make_whole_are_all_dead_letters(
    new_lab: NewLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the newest left out the one before it is the newest, and lacks the same; they go at once."""
    folds: list[object] = []

    def counted(*args: Any) -> Any:
        folds.append(args)
        return fold_written(*args)

    monkeypatch.setattr(mirror_fold, "fold_written", counted)
    lacking = [SourceEvent("u", 1, at, at - 5, at, 7, UNAVAILABLE) for at in (20, 30)]
    whole = SourceEvent("c", 2, 40, 35, 40, 8, "short")
    lab = new_lab(placed(0, *lacking, whole), layout="mirror", mirror={"bad_changes": "dead_letters"})
    (drained,) = lab.drain().batches
    assert notes(lab) == {2: "short"}
    assert {term: n for term, n in drained.counts.balance.items() if n} == {"rows": 1, "dead_letters": 2}
    assert (lab.rows(DEAD_LETTERS).num_rows, len(folds)) == (2, 2)


def test_a_value_from_before_a_delete_is_no_later_rows(new_lab: NewLab) -> None:
    """The insert that told it anew was left out: nobody has what the row holds."""
    lab = new_lab(
        placed(0, SourceEvent("c", 1, 10, 5, 1_000, 7, "gone"), SourceEvent("d", 1, 20, 15, 1_100)),
        layout="mirror",
    )
    lab.drain()
    new_lab.produce(lab, placed(0, SourceEvent("u", 1, 40, 35, 1_300, 7, UNAVAILABLE)))
    with pytest.raises(BadRecord):
        lab.drain()


def upsert(key: int, note: str, partition: int, old_key: int | None = None) -> Record:
    """Return a record as a connector writes it that takes the envelope off."""
    value = json.dumps({"id": key, "note": note}).encode()
    headers = () if old_key is None else (("__debezium.oldkey", _key(old_key)),)
    return Record(value, key=_key(key), partition=partition, headers=headers)


def _key(key: int) -> bytes:
    return json.dumps({"id": key}).encode()


def test_offsets_of_another_partition_say_nothing_of_what_was_before(new_lab: NewLab) -> None:
    """Where a source says no position, what an old key told elsewhere may be of any time."""
    old = [upsert(1, "first", 0), upsert(1, "second", 0)]
    own = [upsert(3, "own", 1), upsert(4, UNAVAILABLE, 1, old_key=3)]
    changed = upsert(2, UNAVAILABLE, 1, old_key=1)
    cdc = {"envelope": "upsert"}
    lab = new_lab([*old, *own], partitions=2, layout="mirror", cdc=cdc)
    lab.drain()
    assert notes(lab) == {1: "second", 3: "own", 4: "own"}
    new_lab.produce(lab, [changed])
    with pytest.raises(BadRecord) as raised:
        lab.drain()
    assert (raised.value.code, raised.value.where["offset"]) == ("bad-change", "2")


def test_a_rebuild_begins_where_the_last_began_and_looks_up_nothing_from_before(new_lab: NewLab) -> None:
    """A restored database counts its positions from an earlier place: earlier rows are another log's."""
    lost = [SourceEvent("c", 1, 50, 45, 1_000, 7, "of the lost log"), SourceEvent("d", 1, 60, 55, 1_100)]
    told = SourceEvent("r", 2, 40, None, 2_000, 8, "short")
    lab = new_lab(placed(0, *lost), layout="mirror")
    lab.drain()
    new_lab.produce(lab, placed(0, told))
    with lab.connections() as connections:
        rebuild(lab.pipeline, connections, reason="test", begins={0: 2})
        assert [str(each) for each in rebuild_ranges(lab.pipeline, connections)] == ["0:2-3"]
    assert notes(lab) == {2: "short"}
    new_lab.produce(lab, placed(0, SourceEvent("c", 3, 70, 65, 3_000, 9, UNAVAILABLE, old_key=1)))
    with pytest.raises(BadRecord):
        lab.drain()


def test_a_key_that_moved_to_another_partition_has_its_newest_row_when_made_anew(new_lab: NewLab) -> None:
    """Its positions order it; where there are none nobody knows, and nothing is committed."""
    lab = new_lab(placed(1, SourceEvent("c", 1, 10, 5, 1_000, 7, "old")), partitions=2, layout="mirror")
    new_lab.produce(
        lab, placed(0, SourceEvent("u", 1, 20, 15, 2_000, 8, "new"), SourceEvent("d", 9, 21, 15, 2_000))
    )
    lab.drain()
    with lab.connections() as connections:
        rebuild(lab.pipeline, connections, reason="test")
    assert notes(lab) == {1: "new"}
    assert lab.audit().is_clean
    elsewhere = [upsert(1, "first", 1), upsert(1, "second", 0)]
    unplaced = new_lab(elsewhere, partitions=2, layout="mirror", cdc={"envelope": "upsert"})
    with pytest.raises(SourceChanged) as raised:
        unplaced.drain()
    assert raised.value.code == "partitions-changed"


def test_a_gate_judges_the_rows_that_a_batch_leaves(new_lab: NewLab) -> None:
    """A delete has no values, an update not all of them; neither holds its batch."""
    whole = {"expect_column_values_to_match_regex": {"column": "note", "regex": "^(long|short)$"}}
    there = {"expect_column_values_to_not_be_null": {"column": "score"}}
    quality = [{"name": "strict", "when": "gate", "expectations": [whole, there]}]
    told = [SourceEvent("c", key, key, key - 1, 1_000, 7, "long") for key in (10, 20)]
    lab = new_lab(placed(0, *told), layout="mirror", quality=quality)
    lab.drain()
    changes = (
        SourceEvent("d", 10, 30, 25, 2_000, None, None),
        SourceEvent("u", 20, 40, 35, 2_100, 8, UNAVAILABLE),
    )
    new_lab.produce(lab, placed(0, *changes))
    assert lab.drain().held == ()
    assert notes(lab) == {20: "long"}
    new_lab.produce(lab, placed(0, SourceEvent("u", 20, 50, 45, 3_000, 9, "wrong")))
    (held,) = lab.drain().held
    assert "fails for 1 of 1 row" in held.story
