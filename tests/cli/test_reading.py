"""The printed ways to read a table work as printed."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from cli.demo.report import run_example, snippets

if TYPE_CHECKING:
    from pathlib import Path

ROWS = {"carrier": ["UA", "UA", "B6"], "dep_delay": [2, 5, None]}


@pytest.fixture
def printed(sqlite_catalog_properties: dict[str, str]) -> dict[str, str]:
    """The snippets for a table of three rows."""
    catalog = SqlCatalog("sluice", **sqlite_catalog_properties)
    catalog.create_namespace("lake")
    rows = pa.table(ROWS)
    catalog.create_table("lake.flights", rows.schema).append(rows)
    return snippets("sluice", sqlite_catalog_properties, "lake.flights")


def test_the_example_query_has_the_right_answer(sqlite_catalog_properties: dict[str, str]) -> None:
    """Flights and mean delay by carrier, absent delays not counted into the mean."""
    catalog = SqlCatalog("sluice", **sqlite_catalog_properties)
    catalog.create_namespace("lake")
    rows = pa.table(ROWS)
    table = catalog.create_table("lake.flights", rows.schema)
    table.append(rows)
    answer = run_example(table)
    assert answer.column_names == ["carrier", "flights", "mean_delay_minutes"]
    assert {tuple(row.values()) for row in answer.to_pylist()} == {("UA", 2, 3.5), ("B6", 1, None)}


@pytest.mark.parametrize("reader", ["DuckDB (Python)", "PyIceberg"])
def test_python_snippets_run_as_printed(printed: dict[str, str], reader: str) -> None:
    """Pasted into a fresh interpreter they print what is in the table."""
    done = subprocess.run(
        [sys.executable, "-c", printed[reader]], capture_output=True, text=True, check=True, timeout=60
    )
    assert ("UA" if reader == "PyIceberg" else "3") in done.stdout


@pytest.mark.spark
def test_the_spark_snippet_runs_as_printed(printed: dict[str, str], tmp_path: Path) -> None:
    """Pasted into a shell it counts the rows and leaves nothing in the folder."""
    before = set(tmp_path.iterdir())
    done = subprocess.run(
        ["bash", "-c", printed["Spark SQL (shell)"]],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        cwd=tmp_path,
    )
    assert done.stdout.split() == ["3"], done.stderr[-2000:]
    assert set(tmp_path.iterdir()) == before
