"""The relations that a query reads: a pipeline's table and those it routes rows to, and its dead letters.

They are prepared for a state of the lake; what Kafka has beyond it is put beside them for each query.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from spark_jobs.config.settings import PipelineConfig
from spark_jobs.expressions.quoting import quoted
from spark_jobs.hot.seam import Seam
from spark_jobs.lake.file_rows import Owed
from spark_jobs.lake.moments import Moment
from spark_jobs.lake.tables import snapshot_at, snapshot_of, summary_of
from spark_jobs.protocol.errors import ConfigError
from spark_jobs.query.duckdb_source import HotRows, TableSource

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.table import DataScan, Table

    from spark_jobs.hot.prefix import Prefix


DEAD_LETTERS, WATERMARK = "dead_letters", "sluice_watermark"


def registered(
    own: DuckDBPyConnection,
    pipeline: PipelineConfig,
    seam: Seam,
    *,
    within: BooleanExpression,
    as_of: Moment | None,
) -> dict[str, TableSource]:
    """Let queries read the lake's tables, and return the sources of those that have hot rows too."""
    table, sources = seam.table, {}
    scan = table.scan(within, snapshot_id=snapshot_at(table, as_of).snapshot_id if as_of else None)
    if seam.dead_letters is not None:
        with _if_there_then():
            letters = _beside(table, seam.dead_letters, scan, within, seam.owed)
            letters.register(own, DEAD_LETTERS)
            sources[DEAD_LETTERS] = letters
    taken = {DEAD_LETTERS, WATERMARK}
    sources[pipeline.table] = TableSource(lambda: scan)
    _register_by_name(own, sources[pipeline.table], pipeline.table, taken)
    for name, routed in seam.routed.items():
        with _if_there_then():
            source = _beside(table, routed, scan, within, seam.owed_to(name))
            _register_by_name(own, source, name, taken)
    return sources


@contextmanager
def beside_hot(
    sources: Mapping[str, TableSource], prefix: Prefix, pipeline: PipelineConfig
) -> Iterator[None]:
    """Let sources have the hot rows of a query until it is over."""
    hot = {pipeline.table: prefix.rows, DEAD_LETTERS: prefix.dead_letters}
    for name, source in sources.items():
        source.hot = HotRows(hot[name])
    try:
        yield
    finally:
        for source in sources.values():
            source.hot = HotRows()


def _register_by_name(
    engine: DuckDBPyConnection, source: TableSource, identifier: str, taken: set[str]
) -> None:
    """Under its whole name, and under the last part of it unless another has that."""
    *namespace, name = identifier.split(".")
    source.register(engine, identifier)
    whole = f"FROM temp.{quoted(identifier)}"
    if name.lower() not in taken:
        taken.add(name.lower())
        engine.execute(f"CREATE TEMP VIEW {quoted(name)} AS {whole}")
    if len(namespace) == 1:
        schema = quoted(*namespace)
        engine.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
        engine.execute(f"CREATE VIEW {schema}.{quoted(name)} AS {whole}")


def _beside(
    table: Table,
    other: Table,
    scan: DataScan,
    within: BooleanExpression,
    owed: Owed,
) -> TableSource:
    """Return what belongs to the rows of the scan: each record is in one of the tables."""
    if scan.snapshot_id not in {None, table.metadata.current_snapshot_id}:
        then = _beside_then(other, scan)
        return TableSource(lambda: then)
    return TableSource(partial(other.scan, within), owed)


@contextmanager
def _if_there_then() -> Iterator[None]:
    """Leave out a table without a snapshot of the moment: it was not there yet, or that has expired."""
    try:
        yield
    except ConfigError as error:
        if error.code not in {"no-such-snapshot", "no-history"}:
            raise


def _beside_then(other: Table, scan: DataScan) -> DataScan:
    """Return that of an earlier moment.

    A batch's own are committed after its rows, so time alone would leave them out.
    """
    if scan.snapshot_id is None:
        raise AssertionError("the scan is of a snapshot")
    data = scan.table_metadata.snapshot_by_id(scan.snapshot_id)
    if data is None:
        raise AssertionError("the scan is of a snapshot the table has")
    attempt = summary_of(data).attempt
    own = snapshot_of(other, attempt) if attempt else None
    by_time = Moment(at_ms=data.timestamp_ms)
    return other.scan(snapshot_id=own or snapshot_at(other, by_time).snapshot_id)
