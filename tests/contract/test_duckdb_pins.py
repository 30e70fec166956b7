"""What is leaned on in DuckDB and PyIceberg for queries without being promised: a change must fail here."""

from __future__ import annotations

import inspect

import duckdb
from duckdb._sources.arrow import ArrowScanSource
from pyiceberg.io.pyarrow import ArrowScan


def test_duckdb_scans_a_source_by_columns_and_conditions() -> None:
    """Under these private names, with these arguments."""
    assert hasattr(duckdb.DuckDBPyConnection, "_register_arrow_source")
    assert list(inspect.signature(ArrowScanSource.accepts).parameters) == ["self", "predicate"]
    assert list(inspect.signature(ArrowScanSource.stream).parameters) == ["self", "columns", "filters"]


def test_pyiceberg_reads_a_file_batch_by_batch() -> None:
    """Under this private name; it must stay a generator, or a whole file is held."""
    read = ArrowScan._record_batches_from_scan_tasks_and_deletes
    assert list(inspect.signature(read).parameters) == ["self", "tasks", "deletes_per_file"]
    assert inspect.isgeneratorfunction(read)
