"""Costs of ``sort_by``: the same orders decoded and written by one task, sorted and unsorted.

CPU of this process without fetching, in turns; ``python -m bench.sorting`` says it, and needs no server.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from pyiceberg.io.pyarrow import _pyarrow_to_schema_without_ids
from pyiceberg.schema import assign_fresh_schema_ids

from bench.records import JSON_SCHEMA, order_values
from spark_jobs.commit.table_creation import create_table
from spark_jobs.kafka.chunks import Chunk
from spark_jobs.kafka.reader import MAX_CHUNK_RECORDS
from spark_jobs.lake.catalog import open_catalog
from spark_jobs.lake.parquet_writer import SplitWriter
from spark_jobs.protocol.progress import Progress
from spark_jobs.records.reading_plan import JSON
from spark_jobs.records.row_maker import RowMaker
from spark_jobs.records.shape import Origin
from spark_jobs.schema.arrow_schema import arrow_schema
from spark_jobs.schema.iceberg_types import dead_letter_schema

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

ROWS = 400_000
ROUNDS = 3
ROW_GROUP_BYTES = 64 << 20  # an eighth of a task's memory, as it is by default
GOAL = 1.2
_ORDERS = {"as they came": (), "sorted": ("customer", "placed_at")}


def main() -> None:
    """Print microseconds per row for both, and their ratio."""
    with tempfile.TemporaryDirectory() as folder:
        warehouse = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}"}
        catalog = open_catalog("sluice", warehouse)
        tables = {name: _table(catalog, f"l.orders{len(by)}", by) for name, by in _ORDERS.items()}
        spent: dict[str, list[float]] = {name: [] for name in tables}
        for turn in range(ROUNDS):
            for name in list(tables)[:: -1 if turn % 2 else 1]:
                spent[name].append(_written_us(tables[name], turn))
        us = {name: median(each) for name, each in spent.items()}
        sizes = {name: _bytes_of(folder, table) for name, table in tables.items()}
    for name, each in us.items():
        print(f"{name}: {each:.2f} us a row, {sizes[name] / ROUNDS / ROWS:.1f} bytes a row")
    print(f"ratio {us['sorted'] / us['as they came']:.3f}, goal {GOAL}")


def _table(catalog: Catalog, name: str, sort_by: Sequence[str]) -> Table:
    return create_table(
        catalog,
        name,
        assign_fresh_schema_ids(_pyarrow_to_schema_without_ids(JSON_SCHEMA)),
        partition_by=(),
        sort_by=sort_by,
        properties={},
        progress=Progress("orders", 1, {0: 0}),
        dead_letters=False,
    )


def _written_us(table: Table, turn: int) -> float:
    """Return the CPU of decoding, shaping and writing, per row."""
    rows = RowMaker(
        JSON.decoder,
        Origin("orders", 1, 0),
        "",
        arrow_schema(table.schema()),
        arrow_schema(dead_letter_schema()),
    )
    writer = SplitWriter(
        table.metadata, table.io, file_prefix=f"r{turn}", row_group_bytes=ROW_GROUP_BYTES, max_open_files=16
    )
    seconds = 0.0
    for first in range(0, ROWS, MAX_CHUNK_RECORDS):
        values, nothing = order_values(first, MAX_CHUNK_RECORDS), [None] * MAX_CHUNK_RECORDS
        offsets = [*range(first, first + MAX_CHUNK_RECORDS)]
        chunk = Chunk(0, offsets, [0] * MAX_CHUNK_RECORDS, [*nothing], [*values], [*nothing])
        began = time.process_time()
        writer.write(rows.make(chunk).rows)
        seconds += time.process_time() - began
    began = time.process_time()
    writer.close()
    return (seconds + time.process_time() - began) / ROWS * 1e6


def _bytes_of(folder: str, table: Table) -> int:
    place = Path(table.location().removeprefix("file://"))
    return sum(file.stat().st_size for file in (Path(folder) / place).rglob("*.parquet"))


if __name__ == "__main__":
    main()
