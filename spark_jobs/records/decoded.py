"""What decoding a chunk results in."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

    from spark_jobs.schema.inference import Evidence


class Phase(StrEnum):
    """The step a record did not pass."""

    DECODE = "decode"
    KEY = "key"
    TIMESTAMP = "timestamp"
    QUALITY = "quality"


@dataclass(frozen=True, slots=True)
class BadValue:
    """A record that cannot become a row: its index in the chunk, the field (None: the whole record), why."""

    index: int
    phase: Phase
    field: str | None
    error: str


@dataclass(frozen=True, slots=True)
class Decoded:
    """A chunk's rows in the order of its records, and the records that are none.

    ``rows`` are the indices of the records in ``table``, None when it is all of them. With ``new_fields``
    the chunk has fields that columns can be added for: ``table`` is empty, decode again with these columns.
    """

    table: pa.Table
    rows: list[int] | None = None
    bad: tuple[BadValue, ...] = ()
    new_fields: Evidence | None = None
