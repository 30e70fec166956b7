"""Conditions that DuckDB hands to a table keep what it would keep itself, on columns of every type."""

from __future__ import annotations

import re
import uuid
from datetime import UTC, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest
from pyiceberg import types
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import AlwaysTrue, BooleanExpression, EqualTo, In, NotNull
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField

from spark_jobs.query.duckdb_source import TableSource
from spark_jobs.query.pushed import Pushed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duckdb import DuckDBPyConnection

INSIDE = types.StructType(
    NestedField(21, "c", types.StringType()),
    NestedField(22, "n", types.LongType()),
    NestedField(23, "in", types.StructType(NestedField(24, "x", types.IntegerType()))),
)
SCHEMA = Schema(
    NestedField(1, "id", types.LongType()),
    NestedField(2, "i", types.IntegerType()),
    NestedField(3, "s", types.StringType()),
    NestedField(4, "f", types.DoubleType()),
    NestedField(5, "g", types.FloatType()),
    NestedField(6, "b", types.BooleanType()),
    NestedField(7, "d", types.DateType()),
    NestedField(8, "t", types.TimeType()),
    NestedField(9, "ts", types.TimestampType()),
    NestedField(10, "tz", types.TimestamptzType()),
    NestedField(11, "dec", types.DecimalType(9, 2)),
    NestedField(12, "u", types.UUIDType()),
    NestedField(13, "bin", types.BinaryType()),
    NestedField(14, "fx", types.FixedType(4)),
    NestedField(15, "l", types.ListType(16, types.StringType())),
    NestedField(17, "m", types.MapType(18, types.StringType(), 19, types.LongType())),
    NestedField(20, "st", INSIDE),
    NestedField(25, "a.b", types.LongType()),
)
CONDITIONS = [
    *(
        "id = 7",
        "id <> 7",
        "NOT id IN (1, 2)",
        "id IN (-1, 2, 3)",
        "i = -3",
        "i IN (-3, -4)",
        "i > -5",
        "i = 0",
    ),
    *("s IN ('s1', 's2')", "s = 's3' OR f > 4", "s >= 's1' AND s < 's2'", "id < 3 OR NOT (s = 's1')"),
    *("f > 4", "f = 1.5", "f < 1", "NOT f > 4", "f IN (0.5, 1.5)", "g > 0.5", "g = 0.1", "b", "NOT b"),
    *("d > DATE '2024-01-05'", "d IN (DATE '2024-01-05')", "t > TIME '05:00'", "ts > TIMESTAMP '2024-01-05'"),
    *("tz > TIMESTAMPTZ '2024-01-05 00:00+00'", "tz IN (TIMESTAMPTZ '2024-01-05 00:00+00')", "dec > 1.5"),
    *("dec IN (1.25, 2)", "dec = 1", "u = '00000000-0000-0000-0000-000000000003'", "u IS NULL"),
    *("bin = '\\x03'::BLOB", "fx = '\\x03\\x03\\x03\\x03'::BLOB", "l IS NULL", "m IS NOT NULL", "st IS NULL"),
    *("st.c = 'c3'", "st.n > 3 AND id < 8", 'st."in".x = 4', "st.c IS NULL", 'st."in" IS NULL', '"a.b" = 3'),
    *(
        "l[1] = '3'",
        "id IS NULL OR st.n = 3",
        "id = 7 AND dec = 1.75",
        "s IS NULL AND d IS NULL",
        "id + 0 = 3",
    ),
]


@pytest.fixture
def connections(tmp_path: Path) -> Iterator[tuple[DuckDBPyConnection, DuckDBPyConnection]]:
    """One that reads a table of two files, and one that was handed all its rows."""
    catalog = SqlCatalog("c", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/lake")
    catalog.create_namespace("l")
    table = catalog.create_table("l.t", schema=SCHEMA)
    kinds = schema_to_pyarrow(table.schema())
    for first in (0, 10):
        rows = [_row(first + number) for number in range(10)] + [dict.fromkeys(kinds.names)]
        table.append(pa.Table.from_pylist(rows, schema=kinds))
    with duckdb.connect() as pushing, duckdb.connect() as plain:
        TableSource(lambda: catalog.load_table("l.t").scan()).register(pushing, "t")
        plain.register("t", catalog.load_table("l.t").scan().to_arrow())
        for each in (pushing, plain):
            each.execute("SET TimeZone = 'UTC'")
        yield pushing, plain


def _row(n: int) -> dict[str, Any]:
    numbers = {
        "id": n,
        "i": -n,
        "f": float("nan") if n % 4 == 0 else n / 2,
        "g": n * 0.1,
        "dec": Decimal(n) / 4,
    }
    day = datetime(2024, 1, 1 + n, tzinfo=UTC)
    times = {"d": day.date(), "t": time(n), "ts": day.replace(tzinfo=None), "tz": day}
    bits = {"u": uuid.UUID(int=n).bytes, "bin": bytes([n]), "fx": bytes([n] * 4), "b": n % 2 == 0}
    nested = {
        "l": [f"{n}"] if n % 3 else None,
        "m": [("a", n)],
        "st": {"c": f"c{n}", "n": n, "in": {"x": n}} if n % 5 else None,
    }
    return {"s": f"s{n}", "a.b": n} | numbers | times | bits | nested


def test_every_condition_keeps_the_rows_that_duckdb_keeps_itself(
    connections: tuple[DuckDBPyConnection, DuckDBPyConnection],
) -> None:
    """Also those that Iceberg has no terms for, on columns that nobody asked for, and counted."""
    for condition in CONDITIONS:
        for asked in ("id", "count(*)", "s, l"):
            sql = f"SELECT {asked} FROM t WHERE {condition}"  # noqa: S608
            pushed, kept = (sorted(map(repr, each.execute(sql).fetchall())) for each in connections)
            assert pushed == kept, (condition, asked)


def test_what_iceberg_has_terms_for_leaves_out_files(
    connections: tuple[DuckDBPyConnection, DuckDBPyConnection], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a whole, or the part of it that leaves out rows whatever the rest says; no other column is read."""
    asked: list[Pushed] = []
    to_be_kept = TableSource.scanner

    def scanner(self: TableSource, columns: list[str], filter: Any = None) -> Any:  # noqa: A002
        asked.append(self.pushed(filter))
        return to_be_kept(self, columns, filter)

    monkeypatch.setattr(TableSource, "scanner", scanner)
    told: dict[str, tuple[BooleanExpression, bool]] = {
        "id = 7 AND dec = 1.75": (EqualTo("id", 7), False),
        "id IN (5, 7)": (In("id", {5, 7}), True),
        "id = 7 OR dec = 1.75": (AlwaysTrue(), False),
        "s IS NOT NULL": (NotNull("s"), True),
        "st.n = 3": (AlwaysTrue(), False),
    }
    for condition, (kept, is_whole) in told.items():
        connections[0].execute(f"SELECT count(*) FROM t WHERE {condition}").fetchall()  # noqa: S608
        assert (asked[-1].condition, asked[-1].is_whole) == (kept, is_whole), condition
    assert asked[0].columns == {"id", "dec"}


def test_nothing_private_of_duckdbs_is_used() -> None:
    """What a next version may have no more."""
    for file in (Path(__file__).parents[2] / "spark_jobs").rglob("*.py"):
        assert not {"duckdb._", "_register_arrow"} & set(
            re.findall(r"duckdb\._|_register_arrow", file.read_text())
        )
