"""Replays on real parts: exactly the rows of the range, whatever else happens to the table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from prove.lab.kafka_server import Record
from prove.lab.pipeline_lab import by_offset, configure, orders, progress
from spark_jobs.protocol.errors import ConfigError, OffsetsUnavailable
from spark_jobs.protocol.offsets import OffsetRange
from tests.support.new_lab import DEAD_LETTERS, as_json

if TYPE_CHECKING:
    from tests.support.new_lab import NewLab

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

MIXED = [*orders(0, 30), b"not json", None, *orders(30, 10)]


def test_a_range_is_done_again_and_nothing_else(new_lab: NewLab) -> None:
    """Rows inside the range are new, all others and the offsets are what they were; twice equals once."""
    lab = new_lab(MIXED)
    lab.drain()
    before = by_offset(lab)
    for _ in range(2):
        result = lab.replay(OffsetRange(0, 10, 35))
        assert (result.balance.rows, result.balance.dead_letters, result.balance.tombstones) == (23, 1, 1)
        after = by_offset(lab)
        assert after.keys() == before.keys()
        for key, row in after.items():
            is_new = 10 <= key[1] < 35
            assert (row["_ingested_at"] != before[key]["_ingested_at"]) is is_new
            assert {**row, "_ingested_at": 0} == {**before[key], "_ingested_at": 0}
        assert list(by_offset(lab, DEAD_LETTERS)) == [(0, 30)]
        assert progress(lab).next_offsets == {0: 42}
        assert lab.audit().is_clean
    assert progress(lab).replay_epoch == 2
    assert lab.stray_files() == set()


def test_dead_letters_become_rows_under_todays_configuration(new_lab: NewLab) -> None:
    """What a declared type refused is a row once the type is another one, and its dead letter is gone."""
    lab = new_lab(as_json({"id": 1}, {"id": 2, "v": "x"}, {"id": 3}), columns={"v": "long"})
    lab.drain()
    new_lab.produce(lab, as_json({"id": 4, "v": "y"}))
    lab.drain()
    assert sorted(by_offset(lab, DEAD_LETTERS)) == [(0, 1), (0, 3)]
    with lab.table().update_schema() as update:
        update.delete_column("v")
    configure(lab, "pipelines/orders", {"columns": {"v": "string"}})
    assert lab.replay(OffsetRange(0, 0, 3)).balance.dead_letters == 0
    assert {key: row["v"] for key, row in by_offset(lab).items()} == {(0, 0): None, (0, 1): "x", (0, 2): None}
    assert list(by_offset(lab, DEAD_LETTERS)) == [(0, 3)]
    new_lab.produce(lab, [Record(b"broken")])
    lab.drain()
    assert sorted(by_offset(lab, DEAD_LETTERS)) == [(0, 3), (0, 4)]
    assert lab.audit().is_clean


def test_drains_go_on_after_a_replay(new_lab: NewLab) -> None:
    """Dead letters of later batches land although a replay of earlier offsets came last."""
    lab = new_lab(MIXED)
    lab.drain()
    lab.replay(OffsetRange(0, 0, 42))
    new_lab.produce(lab, MIXED)
    lab.drain()
    found = lab.audit()
    assert found.is_clean, found
    assert (found.rows, found.dead_letters, found.lag) == (80, 2, 0)
    lab.replay(OffsetRange(0, 20, 60))
    assert lab.audit() == found.__class__(**{**_fields(found), "snapshots": lab.audit().snapshots})


def _fields(result: object) -> dict[str, object]:
    import dataclasses

    return dataclasses.asdict(result)  # type: ignore[call-overload]


def test_what_kafka_no_longer_holds_is_refused_with_what_is_left(new_lab: NewLab) -> None:
    """Nothing is read and nothing changes; the part that is left can be replayed."""
    lab = new_lab(orders(0, 40))
    lab.drain()
    new_lab.kafka.delete_records(lab.pipeline.topic, {0: 15})
    before = lab.table().metadata.current_snapshot_id
    with pytest.raises(OffsetsUnavailable) as refused:
        lab.replay(OffsetRange(0, 10, 30))
    assert refused.value.code == "replay-range-gone"
    assert "0:15-30" in refused.value.message
    assert lab.table().metadata.current_snapshot_id == before
    lab.replay(OffsetRange(0, 15, 30))
    assert lab.rows().num_rows == 40


def test_what_is_not_drained_yet_is_left_to_the_live_flow(new_lab: NewLab) -> None:
    """A range that reaches beyond the next offset is cut there, one wholly beyond is refused."""
    lab = new_lab(orders(0, 20))
    lab.drain()
    new_lab.produce(lab, orders(20, 20))
    result = lab.replay(OffsetRange(0, 10, 40))
    assert (result.ranges, result.ahead) == ((OffsetRange(0, 10, 20),), (OffsetRange(0, 20, 40),))
    with pytest.raises(ConfigError) as refused:
        lab.replay(OffsetRange(0, 30, 40))
    assert refused.value.code == "replay-ahead"
    lab.drain()
    assert lab.audit().is_clean


def test_offsets_before_the_tables_start_are_a_backfill(new_lab: NewLab) -> None:
    """A table that began later gets the older rows, once."""
    lab = new_lab(orders(0, 40), start={0: 25})
    lab.drain()
    assert lab.rows().num_rows == 15
    for _ in range(2):
        lab.replay(OffsetRange(0, 0, 25))
        assert sorted(lab.rows().column("id").to_pylist()) == list(range(40))
    new_lab.produce(lab, orders(40, 5))
    lab.drain()
    assert lab.audit().is_clean


def test_a_long_range_is_several_commits(new_lab: NewLab) -> None:
    """Each within the batch size, over all partitions."""
    lab = new_lab([Record(value, partition=n % 2) for n, value in enumerate(orders(0, 100))], partitions=2)
    lab.drain()
    configure(lab, "pipelines/orders", {"max_batch_records": 30})
    result = lab.replay(OffsetRange(0, 5, 50), OffsetRange(1, 0, 50))
    assert [batch.counts.balance.rows for batch in result.batches] == [30, 30, 30, 5]
    assert lab.audit().is_clean
    assert lab.rows().num_rows == 100


def test_new_fields_become_columns_for_old_records(new_lab: NewLab) -> None:
    """A field that a dropped column left out comes back with the replay."""
    lab = new_lab(as_json(*({"id": n, "note": f"n{n}"} for n in range(10))))
    lab.drain()
    table = lab.table()
    with table.update_schema() as update:
        update.delete_column("note")
    assert "note" not in lab.table().schema().column_names
    lab.replay(OffsetRange(0, 0, 10))
    assert [row["note"] for row in by_offset(lab).values()] == [f"n{n}" for n in range(10)]
