"""The process's only DuckDB: empty, isolated, and with locked settings.

It is opened by the first query, so never before a worker was forked: a fork copies no threads.
"""

from __future__ import annotations

import atexit
import os
import warnings
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING

import duckdb

from spark_jobs.expressions.quoting import quoted

if TYPE_CHECKING:
    import pyarrow as pa
    from duckdb import DuckDBPyConnection

# No name of a record's: the table that expressions are evaluated on.
CHUNK = "sluice chunk"
_MEMORY_LIMIT = "256MB"
_MOST_PREPARED = 100
_ONE_AT_A_TIME = Lock()


def run(sql: str) -> pa.Table:
    """Return the rows of a query without input. Raises ``duckdb.Error``."""
    with _ONE_AT_A_TIME:
        return _opened().connection.sql(sql).to_arrow_table()


def select(expressions: str, chunk: pa.Table) -> pa.Table:
    """Return expressions over the rows of ``CHUNK``. Raises ``duckdb.Error``.

    What is asked is prepared once for all chunks with these columns: planning costs more than their rows.
    """
    with _ONE_AT_A_TIME:
        return _opened().select(expressions, chunk)


def text(value: str) -> str:
    """Return a constant in SQL."""
    return "'" + value.replace("'", "''") + "'"


@dataclass(slots=True)
class _Source:
    """A named source whose rows differ in each query."""

    rows: pa.Table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.rows.__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        return self.rows.schema.__arrow_c_schema__()


@dataclass(slots=True)
class _Engine:
    connection: DuckDBPyConnection
    prepared: dict[tuple[str, pa.Schema], tuple[str, _Source]] = field(default_factory=dict)

    def close(self) -> None:
        """Clear all queries, and close the connection."""
        self.prepared.clear()
        self.connection.close()

    def select(self, expressions: str, chunk: pa.Table) -> pa.Table:
        name, source = self._prepared(expressions, chunk)
        source.rows = chunk
        try:
            return self.connection.execute(f"EXECUTE {name}").to_arrow_table()
        finally:
            source.rows = chunk.slice(0, 0)

    def _prepared(self, expressions: str, chunk: pa.Table) -> tuple[str, _Source]:
        if (known := self.prepared.get((expressions, chunk.schema))) is not None:
            return known
        if len(self.prepared) == _MOST_PREPARED:
            for name, _ in self.prepared.values():
                self.connection.execute(f"DEALLOCATE {name}")
                self.connection.unregister(name)
            self.prepared.clear()
        name, source = f"chunk_{len(self.prepared)}", _Source(chunk)
        self.connection.register(name, source)
        query = f"SELECT {expressions} FROM {name} AS {quoted(CHUNK)}"  # noqa: S608  (judged)
        self.connection.execute(f"PREPARE {name} AS {query}")
        self.prepared[expressions, chunk.schema] = name, source
        return name, source


# By process: one that was forked from another that has an engine opens its own, and leaves that alone.
_ENGINES: dict[int, _Engine] = {}


def _opened() -> _Engine:
    if (engine := _ENGINES.get(os.getpid())) is None:
        engine = _ENGINES[os.getpid()] = _open()
    return engine


def _open() -> _Engine:
    engine = duckdb.connect(
        config={
            "enable_external_access": "false",
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "memory_limit": _MEMORY_LIMIT,
            "temp_directory": "",
            "threads": 1,
        }
    )
    # Spelled out: what a record becomes must not depend on what a version, or a machine, starts with.
    engine.execute("SET TimeZone = 'UTC'; SET Calendar = 'gregorian'; SET default_collation = ''")
    engine.execute("SET preserve_insertion_order = true; SET integer_division = false")
    engine.execute("SET python_enable_replacements = false")
    # What is evaluated is what is written, in that order.
    engine.execute("PRAGMA disable_optimizer")
    engine.execute("SET lock_configuration = true")
    atexit.register(_close)
    # One copy of few columns costs less than planning again, which is what it advises.
    warnings.filterwarnings("ignore", "Arrow output on a DB-API result", UserWarning)
    return _Engine(engine)


def _close() -> None:
    """Release everything before the interpreter exits."""
    if (engine := _ENGINES.pop(os.getpid(), None)) is not None:
        engine.close()
