"""What a real Debezium told of a real PostgreSQL, as rows; `prove.lab.debezium_recording` recorded it."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from cli.stand.recorded_changes import recording
from prove.lab.change_fold import folded
from prove.lab.debezium_moments import COLUMNS
from spark_jobs.config.columns import ColumnSettings
from spark_jobs.protocol.errors import ConfigError
from spark_jobs.records.decoder import Decoded
from tests.unit.test_changes import Table


def drained(table: Table, records: list[list[Any]]) -> Decoded:
    """Return what is made of these records, which have values."""
    encoded = [(_bytes(key), _bytes(value)) for _, _, key, value, _ in records]
    headers = [[(name, _bytes(item)) for name, item in each[4]] for each in records]
    return table.drain(encoded, headers)


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def below(connector: str, ends: dict[str, int]) -> list[list[Any]]:
    """Return the records of the changed table below these ends, without tombstones."""
    every = recording()["records"][f"{connector}.customers"]
    return [each for each in every if each[1] < ends[str(each[0])] and each[3] is not None]


@pytest.mark.parametrize("moment", recording()["moments"], ids=lambda moment: moment["name"])
def test_at_each_moment_the_rows_add_up_to_what_the_database_holds(moment: dict[str, Any]) -> None:
    """With schemas: none is lost, whatever its key, and none doubled, also of what is told again."""
    decoded = drained(Table(), below("shop", moment["ends"]["shop"]))
    assert not decoded.bad
    by_key = folded(decoded.table.to_pylist(), COLUMNS)
    found = sorted([row[name] for name in COLUMNS] for row in map(_as_recorded, by_key.values()))
    assert found == moment["rows"]


def _as_recorded(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row as the recording has the database's: decimals and times as text."""
    return {name: str(item) if isinstance(item, Decimal | datetime) else item for name, item in row.items()}


def test_without_schemas_the_same_events_are_the_same_rows() -> None:
    """But for types, which are declared, and for decimals, whose bytes stop the drain."""
    ends = recording()["moments"][0]["ends"]["bare"]
    seen = ColumnSettings(type="timestamptz")
    with pytest.raises(ConfigError) as refused:
        drained(Table(columns={"amount": ColumnSettings(type="decimal(12,2)")}), below("bare", ends))
    assert refused.value.code == "debezium-decimal-without-schema"
    decoded = drained(
        Table(columns={"seen": seen}), below("bare", recording()["moments"][-1]["ends"]["bare"])
    )
    assert not decoded.bad
    with_schemas = drained(Table(), below("shop", recording()["moments"][-1]["ends"]["shop"]))
    names = ("id", "name", "note", "score", "seen", "extra", *sorted(BESIDE))
    one, other = (
        {
            tuple(str(row[name]) for name in names)
            for row in each.table.to_pylist()
            if row["_cdc_operation"] != "r"
        }
        for each in (decoded, with_schemas)
    )
    assert one == other


BESIDE = ("_cdc_sequence", "_cdc_operation", "_cdc_row_id", "_cdc_transaction")


def test_every_type_of_postgres_is_what_it_was_there() -> None:
    """What Iceberg has no form for is a dead letter with its column."""
    decoded = drained(Table(), recording()["records"]["shop.typed"])
    rows = {row["id"]: row for row in decoded.table.to_pylist()}
    first = {name: item for name, item in rows[1].items() if name[0] != "_"}
    assert str(first.pop("uid")) == "0b4f6d4e-7b1a-4b0e-9d8b-0a1b2c3d4e5f"
    place = first.pop("place")
    assert (place["x"], place["y"]) == (1.0, 2.0)
    assert first == {
        "id": 1,
        "exact": Decimal("-123.45"),
        "free": "1.5",
        "day": date(2022, 1, 8),
        "at": datetime.fromisoformat("2023-11-14T22:13:20.123456"),
        "at_ms": datetime.fromisoformat("2023-11-14T22:13:20.123"),
        "zoned": datetime(2024, 2, 29, 10, 0, 0, 123456, UTC),
        "clock": time(23, 59, 59, 999999),
        "zoned_clock": "08:00:00Z",
        "span": 93_600_000_000,
        "doc": '{"a": [1, 2.50]}',
        "raw": b"\x00\xff",
        "bits": b"\x15",
        "numbers": [1, None, 3],
        "texts": ["a", "b c"],
        "days": [date(2020, 1, 1), None],
        "single": pa.scalar(1.1, pa.float32()).as_py(),
        "ratio": 0.1,
        "is_on": True,
        "small": 7,
        "address": "10.0.0.1/8",
        "tiny": Decimal("0.00012"),
        "fixed": Decimal("1.125"),
    }
    assert (str(rows[2]["single"]), str(rows[3]["ratio"])) == ("nan", "-inf")
    assert rows[4]["free"] == "123456789012345678901234567890123456789012345678901234567890.5"
    assert (rows[5]["free"], rows[6]["exact"], rows[7]["fixed"]) == (None, None, Decimal("0.000"))
    letters = sorted(
        (json.loads(_value(each.index))["payload"]["after"]["id"], each.field) for each in decoded.bad
    )
    columns = ["day", "day", "day", "at", "at", "at_ms", "zoned", "zoned", "clock"]
    assert letters == [*enumerate(columns, start=8)]


def _value(index: int) -> str:
    value = recording()["records"]["shop.typed"][index][3]
    assert isinstance(value, str)
    return value
