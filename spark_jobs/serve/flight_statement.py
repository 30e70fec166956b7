"""A statement with its parameters as a ticket or a handle holds it, so that a server keeps none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import duckdb
import pyarrow as pa
from pyarrow import flight

from spark_jobs.protocol.errors import ConfigError
from spark_jobs.serve.flight_messages import not_flight_sql

_MOST_BYTES = 1_000_000
_SQL = b"sql"


@dataclass(frozen=True, slots=True)
class Statement:
    """SQL, and one row of what its question marks stand for; no columns where they are not bound."""

    sql: str
    bound: pa.Table = field(default_factory=lambda: pa.table({}))

    @property
    def parameters(self) -> Sequence[Any]:
        """The values in their order."""
        return [column[0].as_py() for column in self.bound.columns]

    def with_parameters(self, rows: pa.Table) -> Statement:
        """Return it with one row of values. Raises ``ConfigError`` (``unreadable-request``) for more."""
        if len(rows) != 1 and rows.num_columns:
            raise ConfigError(
                f"{len(rows)} rows of parameters were bound to one query",
                code="unreadable-request",
                hint="Bind one row, and run the query once for each.",
            )
        return replace(self, bound=rows)

    def described(self) -> Statement:
        """Return a query that has its columns and no rows, whatever the parameters will be.

        Of several statements, or one that returns nothing, none can be made.
        """
        nothing = pa.table({str(n): pa.nulls(1) for n in range(self.parameter_count)})
        return Statement("\n".join(("SELECT * FROM (", self.sql.strip().rstrip(";"), ") LIMIT 0")), nothing)

    @property
    def parameter_count(self) -> int:
        """How many there are; none of SQL that DuckDB will refuse."""
        try:
            return sum(len(each.named_parameters) for each in duckdb.extract_statements(self.sql))
        except duckdb.Error:
            return 0

    def to_bytes(self) -> bytes:
        """Return it as a handle. Raises ``ConfigError`` (``unreadable-request``) where it is too long."""
        sink = pa.BufferOutputStream()
        table = self.bound.replace_schema_metadata({_SQL: self.sql.encode()})
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        handle: bytes = sink.getvalue().to_pybytes()
        if len(handle) > _MOST_BYTES:
            raise _too_long()
        return handle


def read_parameters(reader: flight.MetadataRecordBatchReader) -> pa.Table:
    """Read what is bound. Raises ``ConfigError`` (``unreadable-request``) where it is too long."""
    batches, size = [], 0
    for chunk in reader:
        batches.append(chunk.data)
        size += chunk.data.nbytes
        if size > _MOST_BYTES:
            raise _too_long()
    return pa.Table.from_batches(batches, reader.schema)


def read_statement(handle: bytes) -> Statement:
    """Read a handle. Raises ``ConfigError`` (``unreadable-request``) for what is none of ours."""
    try:
        bound = pa.ipc.open_stream(handle).read_all()
        sql = bound.schema.metadata[_SQL].decode()
    except (pa.ArrowException, OSError, KeyError, TypeError, UnicodeDecodeError) as error:
        raise not_flight_sql() from error
    return Statement(sql, bound)


def _too_long() -> ConfigError:
    return ConfigError(
        f"the statement has more than {_MOST_BYTES:,} bytes with its parameters",
        code="unreadable-request",
        hint="Ask with a shorter one.",
    )
