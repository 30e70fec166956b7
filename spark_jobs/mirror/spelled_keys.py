"""Mirrors of earlier versions, which kept keys as they were written: one key may have several rows there."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.debezium.documents import Documents, KeyNotReadError
from spark_jobs.debezium.keys import ITEM, NAME
from spark_jobs.lake.file_rows import stream
from spark_jobs.lake.tables import progress_of
from spark_jobs.protocol import mends
from spark_jobs.protocol.errors import ConfigError
from spark_jobs.schema.change_columns import ROW_ID

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from spark_jobs.debezium.keys import Spelling

# Bare numbers, and bare texts that are nothing else.
_SPELLED = rf'^(?:\{{{NAME}:{ITEM}(?:,{NAME}:{ITEM})*\}}|0|[1-9][0-9]{{0,17}}|[^-{{"\[\s0-9][^\s]*)$'


def refuse_other_spellings(table: Table, spelling: Spelling, pipeline: str) -> None:
    """Raise ``ConfigError`` (``mirror-key-spelling``) for a mirror that has a key in another spelling.

    Once a commit has looked at them all, its table says so. Raises as storage does.
    """
    cdc = progress_of(table).cdc
    if cdc is None or cdc.is_spelled or (key := other_in(table, spelling)) is None:
        return
    raise ConfigError(
        f"the mirror has a key as it was written, {key}, which is {_spelled(key, spelling) or 'not told'} by"
        " now: a key that is written in several ways may have several rows",
        code="mirror-key-spelling",
        hint="An earlier version compared keys as they were written. Make the mirror anew:"
        f" {mends.act('rebuild', pipeline)}",
        pipeline=pipeline,
        table=".".join(table.name()),
    )


def other_in(table: Table, spelling: Spelling) -> str | None:
    """Return a key of a table's rows that is not spelled so, None where all are."""
    parts = stream(table.scan(selected_fields=(ROW_ID,)), pa.schema([(ROW_ID, pa.string())]))
    return next(
        (key for part in parts if (key := other_among(part.column(ROW_ID), spelling)) is not None), None
    )


def other_among(keys: pa.Array | pa.ChunkedArray, spelling: Spelling) -> str | None:
    """Return the first of the keys that is not spelled so, None where all are."""
    in_doubt = keys.filter(pc.invert(pc.match_substring_regex(keys, _SPELLED))).to_pylist()
    return next((key for key in in_doubt if _spelled(key, spelling) != key), None)


def _spelled(key: str, spelling: Spelling) -> str | None:
    with suppress(KeyNotReadError):
        return spelling.read(Documents(), key.encode()).text
    return None
