"""Values that are one column, ``value``: text or bytes, behind the seam of ``writer_schema``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyiceberg.types import BinaryType, NestedField, StringType, StructType

from spark_jobs.schema.writer_schema import ReadValues, Unread, UnreadableValueError, WriterColumns

VALUE = "value"
_NO_TEXT = "the value is not UTF-8"


@dataclass(frozen=True, slots=True)
class WholeValue:
    """Every value is a row; with ``is_text`` those that are UTF-8."""

    is_text: bool

    @property
    def columns(self) -> WriterColumns:
        """See ``WriterSchema``."""
        kind = StringType() if self.is_text else BinaryType()
        column = NestedField(1, VALUE, kind, required=False, doc="the record's value")
        return WriterColumns(StructType(column), {1: VALUE}, is_whole=True)

    @property
    def reading(self) -> object:
        """See ``WriterSchema``."""
        return self

    def read(self, values: Sequence[bytes]) -> ReadValues:
        """See ``WriterSchema``."""
        bad = [index for index, value in enumerate(values) if not _is_text(value)] if self.is_text else []
        left_out = set(bad)
        rows = [index for index in range(len(values)) if index not in left_out] if bad else None
        good = values if rows is None else [values[index] for index in rows]
        column = pa.array(good, pa.binary()).cast(pa.string() if self.is_text else pa.binary())
        unread = tuple(Unread(index, None, _NO_TEXT) for index in bad)
        return ReadValues(pa.table({VALUE: column}), rows, unread)

    def read_plain(self, value: bytes) -> Mapping[str, Any]:
        """See ``WriterSchema``."""
        try:
            return {VALUE: value.decode() if self.is_text else value}
        except UnicodeDecodeError:
            raise UnreadableValueError(_NO_TEXT) from None


def _is_text(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True
