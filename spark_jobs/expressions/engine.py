"""The one DuckDB of a process: empty, shut in, and with settings that nothing can change.

It is opened by the first query, so never before a worker was forked: a fork copies no threads.
"""

from __future__ import annotations

import os
from functools import lru_cache
from threading import Lock
from typing import TYPE_CHECKING

import duckdb

if TYPE_CHECKING:
    import pyarrow as pa
    from duckdb import DuckDBPyConnection

# No name of a record's: the table that expressions are evaluated on.
CHUNK = "sluice chunk"
_MEMORY_LIMIT = "256MB"
_ONE_AT_A_TIME = Lock()


def run(sql: str, chunk: pa.Table | None = None) -> pa.Table:
    """Return the rows of a query over ``CHUNK``. Raises ``duckdb.Error``."""
    with _ONE_AT_A_TIME:
        engine = _opened(os.getpid())
        if chunk is None:
            return engine.sql(sql).to_arrow_table()
        engine.register(CHUNK, chunk)
        try:
            return engine.sql(sql).to_arrow_table()
        finally:
            engine.unregister(CHUNK)


def quoted(name: str) -> str:
    """Return a name as SQL has it, whatever is in it."""
    return '"' + name.replace('"', '""') + '"'


def text(value: str) -> str:
    """Return a constant as SQL has it."""
    return "'" + value.replace("'", "''") + "'"


@lru_cache(1)
def _opened(_process: int) -> DuckDBPyConnection:
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
    engine.execute("SET lock_configuration = true")
    return engine
