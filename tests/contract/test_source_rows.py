"""Rows of a PostgreSQL table and of its mirror are compared by their values, whatever the types' widths."""

from __future__ import annotations

import uuid
from contextlib import closing
from decimal import Decimal
from typing import TYPE_CHECKING

import psycopg2
import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from spark_jobs.audit.source_rows import Comparison, mirror_rows, sums_of, unlike

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.table import Table

pytestmark = pytest.mark.postgres

_ROWS = "(1, 0.3, 7, 0.1, -5), (2, -0.0, NULL, 1.5, 0), (3, 100, 10, -2, 1000), (4, NULL, 0, NULL, 100)"
_MIRROR = {
    "id": pa.array([1, 2, 3, 4], pa.int64()),
    "narrow": pa.array([Decimal("0.3"), Decimal(0), Decimal(100), None], pa.decimal128(16, 4)),
    "whole": pa.array([7, None, 10, 0], pa.decimal128(9, 2)),
    "single": pa.array([0.1, 1.5, -2, None], pa.float32()).cast(pa.float64()),
    "none_behind": pa.array([-5, 0, 1000, 100], pa.decimal128(9, 0)),
}


@pytest.fixture
def name(postgres_catalog_properties: dict[str, str]) -> Iterator[tuple[str, str]]:
    """A table whose types are narrower than its mirror's."""
    name = f"t_{uuid.uuid4().hex[:10]}"
    with closing(psycopg2.connect(postgres_catalog_properties["uri"])) as session, session:
        cursor = session.cursor()
        cursor.execute(
            f"CREATE TABLE {name} (id int PRIMARY KEY, narrow numeric(12,1), whole int, single real,"
            " none_behind numeric(9,0))"
        )
        cursor.execute(f"INSERT INTO {name} VALUES {_ROWS}")  # noqa: S608
    yield "public", name
    with closing(psycopg2.connect(postgres_catalog_properties["uri"])) as session, session:
        session.cursor().execute(f"DROP TABLE {name}")


@pytest.fixture
def mirror(sqlite_catalog_properties: dict[str, str]) -> Table:
    """The mirror as it was made when they were wider."""
    catalog, rows = SqlCatalog("lake", **sqlite_catalog_properties), pa.table(_MIRROR)
    catalog.create_namespace("shop")
    table = catalog.create_table("shop.mirror", rows.schema)
    table.append(rows)
    return table


def test_values_are_alike_in_wider_columns(
    name: tuple[str, str], mirror: Table, postgres_catalog_properties: dict[str, str]
) -> None:
    """A digit that the mirror lacks is none of them."""
    with (
        closing(psycopg2.connect(postgres_catalog_properties["uri"])) as session,
        session.cursor() as cursor,
    ):
        comparison = Comparison.of(cursor, name, ["id"], mirror)
        assert comparison.left_out == ()
        assert comparison.sums(cursor) == sums_of(mirror_rows(mirror, comparison))
        cursor.execute(f"ALTER TABLE {name[1]} ALTER narrow TYPE numeric(12,5)")
        cursor.execute(f"UPDATE {name[1]} SET narrow = 0.30001 WHERE id = 1")  # noqa: S608
        cursor.execute(f"UPDATE {name[1]} SET single = 2.5 WHERE id = 2")  # noqa: S608
        comparison = Comparison.of(cursor, name, ["id"], mirror)
        held, there = comparison.sums(cursor), sums_of(mirror_rows(mirror, comparison))
        differing = comparison.rows(cursor, unlike(held, there))
    assert differing.keys() == {"=1", "=2"}
