"""A statement with its parameters as a ticket or a handle holds it, so that a server keeps none.

A handle is signed by the process that gave it: no byte of one that was written elsewhere is read as Arrow.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from spark_jobs.protocol.errors import ConfigError
from spark_jobs.serve.flight_parameters import MOST_BYTES, too_long

_SQL = b"sql"
_DIGEST = "sha256"
_SIGNED_BYTES = 32


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

    def to_handle(self, key: bytes) -> bytes:
        """Return it signed. Raises ``ConfigError`` (``unreadable-request``) where it is too long."""
        sink = pa.BufferOutputStream()
        table = self.bound.replace_schema_metadata({_SQL: self.sql.encode()})
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        written: bytes = sink.getvalue().to_pybytes()
        if len(written) > MOST_BYTES:
            raise too_long()
        return hmac.digest(key, written, _DIGEST) + written


def read_handle(handle: bytes, key: bytes) -> Statement:
    """Read a handle. Raises ``ConfigError`` (``unreadable-request``) for what was not signed with the key."""
    signed, written = handle[:_SIGNED_BYTES], handle[_SIGNED_BYTES:]
    if not hmac.compare_digest(signed, hmac.digest(key, written, _DIGEST)):
        raise ConfigError(
            "the request cannot be read: the statement was not prepared by this process",
            code="unreadable-request",
            hint="Prepare it again: `serve` has started anew since, or another one answers at the address.",
        )
    bound = pa.ipc.open_stream(written).read_all()
    return Statement(bound.schema.metadata[_SQL].decode(), bound)
