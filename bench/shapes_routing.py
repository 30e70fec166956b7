"""Costs of ``route``: orders decoded and written by a task into one table, ten, and by ten tasks.

CPU of this process without fetching, in turns; ``python -m bench.shapes_routing`` needs no server.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping
from statistics import median
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.io.pyarrow import _pyarrow_to_schema_without_ids
from pyiceberg.schema import assign_fresh_schema_ids

from bench.records import JSON_SCHEMA, order_values
from spark_jobs.commit.table_creation import create_table
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.drain.split_task import RoutedTable, RoutedWriters
from spark_jobs.kafka.chunks import Chunk
from spark_jobs.kafka.reader import MAX_CHUNK_RECORDS
from spark_jobs.lake.catalog import open_catalog
from spark_jobs.lake.parquet_writer import SplitWriter
from spark_jobs.protocol.progress import Progress
from spark_jobs.records.reading_plan import JSON
from spark_jobs.records.row_maker import ChunkRows, RowMaker
from spark_jobs.records.shape import Origin
from spark_jobs.records.shaped_rows import checked_shaping
from spark_jobs.schema.arrow_schema import arrow_schema
from spark_jobs.schema.column_source import lacking
from spark_jobs.schema.iceberg_types import dead_letter_schema

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

ROWS = 1_000_000  # what one of two tasks has of a full batch
ROUNDS = 3
TABLES = 10
ROW_GROUP_BYTES = 64 << 20  # an eighth of a task's memory, as it is by default
ONE, ROUTED, MANY = "one table", "ten tables by a route", "ten pipelines with a filter"
GOALS = {ONE: 1.3, MANY: 0.3}
_SCHEMA = JSON_SCHEMA.append(pa.field("kind", pa.string()))


def main() -> None:
    """Print microseconds per record for each, and the ratios."""
    with tempfile.TemporaryDirectory() as folder:
        warehouse = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}"}
        catalog = open_catalog("sluice", warehouse)
        tables = [_table(catalog, f"l.orders{n}") for n in range(TABLES)]
        ways = {ONE: _one, ROUTED: _routed, MANY: _many}
        spent: dict[str, list[float]] = {name: [] for name in ways}
        for turn in range(ROUNDS):
            for number, name in list(enumerate(ways))[:: -1 if turn % 2 else 1]:
                spent[name].append(ways[name](tables, f"r{turn}-{number}"))
        us = {name: median(each) for name, each in spent.items()}
    for name, each in us.items():
        print(f"{name}: {each:.2f} us a record")
    for name, goal in GOALS.items():
        print(f"routed to {name}: ratio {us[ROUTED] / us[name]:.3f}, goal {goal}")


def _one(tables: list[Table], prefix: str) -> float:
    writer = _writer(tables[0], prefix)
    return _spent_us(_maker(tables[0]), lambda made: writer.write(made.rows), writer.close)


def _routed(tables: list[Table], prefix: str) -> float:
    own, *others = tables
    names = {".".join(table.name()): table for table in others}
    listed = {f"k{n}": name for n, name in enumerate(["l.orders0", *names])}
    route = {"by": "kind", "tables": listed}
    writer = _writer(own, prefix)
    schemas = {name: table.schema() for name, table in names.items()}
    routed = RoutedWriters(
        {
            name: RoutedTable(arrow_schema(schema), frozenset(lacking(own.schema(), schema)))
            for name, schema in schemas.items()
        },
        lambda name: _writer(names[name], prefix, len(names)),
    )

    def write(made: ChunkRows) -> None:
        writer.write(made.rows)
        routed.write(made.routed)

    def close() -> None:
        writer.close()
        routed.close()

    return _spent_us(_maker(own, route=route), write, close)


def _many(tables: list[Table], prefix: str) -> float:
    return sum(_filtered(table, f"kind = 'k{n}'", prefix) for n, table in enumerate(tables))


def _filtered(table: Table, condition: str, prefix: str) -> float:
    writer = _writer(table, prefix)
    return _spent_us(_maker(table, filter=condition), lambda made: writer.write(made.rows), writer.close)


def _spent_us(rows: RowMaker, write: Callable[[ChunkRows], None], close: Callable[[], object]) -> float:
    """Return the CPU of decoding, shaping and writing, per record."""
    seconds = 0.0
    for first in range(0, ROWS, MAX_CHUNK_RECORDS):
        orders, nothing = order_values(first, MAX_CHUNK_RECORDS), [None] * MAX_CHUNK_RECORDS
        values = [b'%s,"kind":"k%d"}' % (order[:-1], n % TABLES) for n, order in enumerate(orders)]
        offsets = [*range(first, first + MAX_CHUNK_RECORDS)]
        chunk = Chunk(0, offsets, [0] * MAX_CHUNK_RECORDS, [*nothing], [*values], [*nothing])
        began = time.process_time()
        write(rows.make(chunk))
        seconds += time.process_time() - began
    began = time.process_time()
    close()
    return (seconds + time.process_time() - began) / ROWS * 1e6


def _maker(table: Table, **settings: Any) -> RowMaker:
    said: Mapping[str, Any] = {"name": "p", "topic": "p", "table": "l.orders0", **settings}
    schema = arrow_schema(table.schema())
    return RowMaker(
        JSON.decoder,
        Origin("orders", 1, 0),
        "",
        schema,
        arrow_schema(dead_letter_schema()),
        shaping=checked_shaping(PipelineConfig.model_validate(said), schema),
    )


def _writer(table: Table, prefix: str, beside: int = 1) -> SplitWriter:
    return SplitWriter(
        table.metadata,
        table.io,
        file_prefix=prefix,
        row_group_bytes=ROW_GROUP_BYTES // beside,
        max_open_files=16,
    )


def _table(catalog: Catalog, name: str) -> Table:
    return create_table(
        catalog,
        name,
        assign_fresh_schema_ids(_pyarrow_to_schema_without_ids(_SCHEMA)),
        partition_by=(),
        properties={},
        progress=Progress("orders", 1, {0: 0}),
        dead_letters=False,
    )


if __name__ == "__main__":
    main()
