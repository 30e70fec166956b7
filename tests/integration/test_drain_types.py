"""Which columns a drained table has, when they come about, and what of a batch is done again for them."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from assets.table_metadata import drain_metadata
from prove.lab.kafka_server import Record
from prove.lab.pipeline_lab import by_offset, configure
from spark_jobs.drain import write_splits
from spark_jobs.drain.table_columns import FIRST_GUESS_BYTES_PER_RECORD
from spark_jobs.protocol.errors import ConfigError
from tests.support.new_lab import as_json, column_types

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spark_jobs.protocol.batch import Split, SplitOutcome
    from tests.support.new_lab import NewLab

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

TEXT = "large_string"
TIME = "timestamp[us, tz=UTC]"
AT = "2026-01-01T00:00:00Z"


@pytest.fixture
def small_splits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A first batch's split holds about 100 records, a later one's as many as their size allows."""
    for module in ("drain_batch", "table_columns"):
        monkeypatch.setattr(f"spark_jobs.drain.{module}.MAX_SPLIT_BYTES", 100 * FIRST_GUESS_BYTES_PER_RECORD)


@pytest.fixture
def rounds(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """The ids of the splits of every round of tasks, filled while a batch is drained."""
    seen: list[list[int]] = []
    run_on_spark = write_splits.run_on_spark

    def recorded(
        spark: Any, work: Callable[[Split], SplitOutcome], splits: Sequence[Split], *, tag: str
    ) -> list[SplitOutcome]:
        seen.append([split.split_id for split in splits])
        return run_on_spark(spark, work, splits, tag=tag)

    monkeypatch.setattr(write_splits, "run_on_spark", recorded)
    return seen


@pytest.mark.usefixtures("small_splits")
def test_types_come_from_the_whole_first_batch(new_lab: NewLab) -> None:
    """What only the last record of the last partition shows decides as well; no dead letters."""
    usual = {"n": 1, "at": AT, "always": AT}
    records = as_json(*[usual] * 400) + as_json(*[usual] * 199, partition=1)
    last = as_json({"n": 0.5, "at": "soon", "always": AT}, partition=1)
    lab = new_lab(records + last, partitions=2)
    result = lab.drain()
    assert column_types(lab) == {"n": "double", "at": TEXT, "always": TIME}
    assert (result.balance.rows, result.balance.dead_letters) == (600, 0)
    (batch,) = result.batches
    assert batch.counts.data_files >= 6  # several splits for each partition
    assert by_offset(lab)[1, 199]["at"] == "soon"


def test_new_fields_become_columns_and_only_their_split_is_done_again(
    new_lab: NewLab, rounds: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the top, in structs and in lists; strings that look like times stay strings from then on."""
    first = {"id": 1, "at": AT, "who": {"name": "a"}, "items": [{"sku": "x"}]}
    lab = new_lab(as_json(first), partitions=2)
    lab.drain()
    rounds.clear()
    monkeypatch.setattr("spark_jobs.drain.drain_batch.MAX_SPLIT_BYTES", 10_000)
    more = {
        "id": 2,
        "at": AT,
        "seen": AT,
        "who": {"name": "b", "age": 3},
        "items": [{"sku": "y", "size": 1.5}],
    }
    new_lab.produce(lab, as_json(*[first] * 300) + as_json(*[first] * 299, more, partition=1))
    result = lab.drain()
    assert column_types(lab) == {
        "id": "int64",
        "at": TIME,
        "who": f"struct<name: {TEXT}, age: int64>",
        "items": f"large_list<element: struct<sku: {TEXT}, size: double>>",
        "seen": TEXT,
    }
    assert (result.balance.rows, result.balance.dead_letters) == (600, 0)
    every, again = rounds
    assert len(every) > 2
    assert again == every[-1:]
    row = by_offset(lab)[1, 299]
    assert row["who"] == {"name": "b", "age": 3}
    assert row["items"] == [{"sku": "y", "size": 1.5}]
    assert row["seen"] == AT
    assert by_offset(lab)[0, 0]["items"] == [{"sku": "x", "size": None}]
    assert lab.stray_files() == set()


def test_declared_columns_win(new_lab: NewLab) -> None:
    """Over what the records suggest, also for fields that no record has yet; misfits are dead letters."""
    declared = {
        "id": "int",
        "price": "decimal(9, 2)",
        "day": "date",
        "tags": "map<string, string>",
        "at": "string",
        "later": "timestamptz",
    }
    value = {"id": 1, "price": 12.5, "day": "2026-01-02", "tags": {"a": "b"}, "at": AT, "free": 1}
    lab = new_lab(as_json(value, {**value, "id": 2**31}, {**value, "price": 0.125}), columns=declared)
    result = lab.drain()
    assert (result.balance.rows, result.balance.dead_letters) == (1, 2)
    row = by_offset(lab)[0, 0]
    assert {name: row[name] for name in (*declared, "free")} == {
        "id": 1,
        "price": Decimal("12.50"),
        "day": date(2026, 1, 2),
        "tags": [("a", "b")],
        "at": AT,
        "later": None,
        "free": 1,
    }
    new_lab.produce(lab, as_json({**value, "later": AT}))
    lab.drain()
    assert by_offset(lab)[0, 3]["later"] == datetime(2026, 1, 1, tzinfo=UTC)


def test_a_declared_struct_gains_the_fields_that_records_bring(new_lab: NewLab) -> None:
    """In the drain that meets the first of them and in every one after it."""
    lab = new_lab(as_json({"at": {"x": 1}}), columns={"at": "struct<x: int>"})
    lab.drain()
    for value in ({"x": 2, "note": "new"}, {"x": 3, "note": "again"}):
        new_lab.produce(lab, as_json({"at": value}))
        lab.drain()
    assert [row["at"] for _, row in sorted(by_offset(lab).items())] == [
        {"x": 1, "note": None},
        {"x": 2, "note": "new"},
        {"x": 3, "note": "again"},
    ]


def test_a_type_declared_for_a_table_that_exists_wins_as_well(new_lab: NewLab) -> None:
    """The column is there before the first record with the field, and is widened to what is said later."""
    lab = new_lab(as_json({"id": 1}))
    lab.drain()
    configure(lab, "pipelines/orders", {"columns": {"price": "decimal(9, 2)"}})
    new_lab.produce(lab, as_json({"id": 2, "price": 12.5}))
    assert lab.drain().balance.rows == 1
    assert by_offset(lab)[0, 1]["price"] == Decimal("12.50")
    configure(lab, "pipelines/orders", {"columns": {"price": "decimal(12, 2)"}})
    new_lab.produce(lab, as_json({"id": 3, "price": 1234567890.5}))
    assert lab.drain().balance.rows == 1
    prices = [row["price"] for _, row in sorted(by_offset(lab).items())]
    assert prices == [None, Decimal("12.50"), Decimal("1234567890.50")]
    assert lab.audit().is_clean
    assert lab.drain().batches == ()


def test_a_declared_type_that_is_not_the_tables_stops_before_anything_is_read(new_lab: NewLab) -> None:
    """One clear line; the table stays as it is."""
    lab = new_lab(as_json({"id": 1}))
    lab.drain()
    configure(lab, "pipelines/orders", {"columns": {"id": "string"}})
    with pytest.raises(ConfigError) as caught:
        lab.drain()
    assert caught.value.code == "column-clash"


def test_fields_that_clash_with_columns_stay_readable_in_the_dead_letters(new_lab: NewLab) -> None:
    """Of names that differ by case only the most frequent is the column; reserved names are never columns."""
    lab = new_lab(
        as_json({"City": "a"}, {"City": "b"}, {"city": "c"}, {"_Kafka_Offset": 1}, {"": 2}, {"City": "d"})
    )
    result = lab.drain()
    assert column_types(lab) == {"City": TEXT}
    assert (result.balance.rows, result.balance.dead_letters) == (3, 3)
    letters = by_offset(lab, "lab.orders_dead_letters")
    assert {offset: letter["field"] for (_, offset), letter in letters.items()} == {
        2: "city",
        3: "_Kafka_Offset",
        4: "",
    }
    new_lab.produce(lab, [Record(b'{"CITY": "later"}')])
    assert lab.drain().balance.dead_letters == 1


def test_a_table_is_as_wide_as_its_pipeline_lets_it_be(
    new_lab: NewLab, caplog: pytest.LogCaptureFixture
) -> None:
    """At the bound a new field makes a letter that names it, ignored ones are counted where people look."""
    lab = new_lab(as_json({"id": 9007199254740993, "s": {"a": 1}}, {"id": 1.5}), schema={"max_columns": 4})
    lab.drain()
    assert (
        "id: long; of 2 values 1 number with a fraction or exponent (1.5 at 0:1), a dead letter"
        in caplog.text
    )
    new_lab.produce(lab, as_json({"id": 2, "s": {"a": 1, "b": 2}}, {"id": 3, "c": 1}, {"s": {"d": 1}}))
    added = lab.drain()
    assert column_types(lab) == {"id": "int64", "s": "struct<a: int64, b: int64>"}
    letters = by_offset(lab, "lab.orders_dead_letters")
    assert {offset: letter["field"] for (_, offset), letter in letters.items()} == {1: "id", 3: "c", 4: "s.d"}
    assert (added.balance.rows, added.balance.dead_letters, added.ignored) == (1, 2, {})
    configure(lab, "pipelines/orders", {"schema": {"new_fields": "ignore"}})
    new_lab.produce(lab, as_json({"id": 4, "c": 1, "s": {"d": 1}}, {"id": 5, "c": "x"}))
    ignored = lab.drain()
    assert (ignored.balance.rows, ignored.balance.dead_letters) == (2, 0)
    assert drain_metadata(ignored)["ignored_fields"] == {"c": 2, "s.d": 1}
    snapshot = lab.table().current_snapshot()
    assert snapshot
    assert snapshot.summary
    assert snapshot.summary["sluice.ignored-fields"] == '{"c":2,"s.d":1}'
    assert "by field: c 2, s.d 1 (table lab.orders" in caplog.text
    audited = lab.audit()
    assert audited.is_clean, audited
