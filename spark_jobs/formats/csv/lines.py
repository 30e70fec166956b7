"""CSV behind the interface of ``writer_schema``: a record is one line, with configured field names.

A field is text, and null where it is empty, in quotes or not. A header line says nothing of a row: it is
passed over, alone or before the record's line.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from typing import Any

import pyarrow as pa
from pyiceberg.types import NestedField, StringType, StructType

from spark_jobs.schema.writer_schema import (
    NoRowError,
    ReadValues,
    Unread,
    UnreadableValueError,
    WriterColumns,
)

HEADER_LINES = "header_lines"  # the term of a batch's balance
csv.field_size_limit(2**31 - 1)  # else no more than 128 KiB


@dataclass(frozen=True, slots=True)
class CsvLines:
    """Lines as ``csv.writer`` writes them; with ``has_header`` a line equal to the names is a header."""

    names: tuple[str, ...]
    delimiter: str = ","
    has_header: bool = False
    encoding: str = "utf-8"

    @property
    def columns(self) -> WriterColumns:
        """See ``WriterSchema``."""
        numbered = dict(enumerate(self.names, 1))
        fields = (NestedField(at, name, StringType(), required=False) for at, name in numbered.items())
        return WriterColumns(StructType(*fields), numbered)

    @property
    def reading(self) -> object:
        """See ``WriterSchema``."""
        return self

    def read(self, values: Sequence[bytes]) -> ReadValues:
        """See ``WriterSchema``."""
        rows: dict[int, list[str | None]] = {}
        unread, headers = list[Unread](), list[int]()
        for index, value in enumerate(values):
            try:
                rows[index] = self._row(value)
            except NoRowError:
                headers.append(index)
            except UnreadableValueError as error:
                unread.append(Unread(index, None, str(error)))
        by_name = zip(*rows.values(), strict=True) if rows else [()] * len(self.names)
        table = pa.Table.from_arrays([pa.array(each, pa.string()) for each in by_name], [*self.names])
        kept = None if len(rows) == len(values) else [*rows]
        return ReadValues(table, kept, tuple(unread), passed={HEADER_LINES: headers})

    def read_plain(self, value: bytes) -> Mapping[str, Any]:
        """See ``WriterSchema``."""
        return dict(zip(self.names, self._row(value), strict=True))

    def _row(self, value: bytes) -> list[str | None]:
        try:
            text = value.decode(self.encoding)
            text.encode()  # utf-7 has halves of characters, which no column has
            reader = csv.reader(StringIO(text, newline=""), delimiter=self.delimiter, strict=True)
            lines = [line for line in reader if line]
        except UnicodeError:
            raise UnreadableValueError(f"the value is not {self.encoding}") from None
        except csv.Error as error:
            raise UnreadableValueError(f"the value is not CSV: {error}") from None
        if self.has_header and [*self.names] in lines:
            lines = [line for line in lines if line != [*self.names]]
            if not lines:
                raise NoRowError(HEADER_LINES)
        if len(lines) != 1:
            raise UnreadableValueError(f"lines in the value: {len(lines)}; a record is one")
        if len(lines[0]) != len(self.names):
            raise UnreadableValueError(f"fields in the line: {len(lines[0])}, names: {len(self.names)}")
        return [field or None for field in lines[0]]
