"""A value read again by its JSON Schema, for ``audit`` alone: by JSON's plain reader, strictly."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from spark_jobs.json_schema.closed import forbidden
from spark_jobs.json_schema.parsing import VALUE, Root
from spark_jobs.records.json_plain import UNREADABLE, Beside, read_exactly, read_of, says_something
from spark_jobs.records.nesting import is_too_deep
from spark_jobs.schema.arrow_schema import column_of
from spark_jobs.schema.writer_schema import UnreadableValueError

if TYPE_CHECKING:
    import pyarrow as pa


class PlainReader:
    """Reads values as ``columns`` hold them; with ``ignores`` they may say more than the schema names."""

    def __init__(self, root: Root, columns: pa.Schema, *, ignores: bool) -> None:
        self._root = root
        self._columns = columns
        self._ignores = ignores

    def read(self, value: bytes) -> dict[str, Any]:
        """Return a value by column; raises ``UnreadableValueError``."""
        try:
            record = self._record(value)
            return {column.name: self._item(record.get(column.name), column) for column in self._columns}
        except UNREADABLE as error:
            raise UnreadableValueError(f"not as the schema says: {error}") from error

    def _record(self, value: bytes) -> dict[str, Any]:
        parsed = read_exactly(value)
        record = {VALUE: parsed} if self._root.is_whole else parsed
        if type(record) is not dict or is_too_deep(b"[" + value if self._root.is_whole else value):
            raise ValueError("no object, or one that nests too deep")
        json.dumps(record, ensure_ascii=False, default=str).encode()  # no halves of surrogate pairs
        for _path, item in forbidden(record, self._root.record):
            _refuse_more(item)
        if not self._ignores:
            for name in record.keys() - set(self._columns.names):
                _refuse_more(record[name])
        return record

    def _item(self, item: Any, column: pa.Field) -> Any:
        if item is None:
            return None
        beside = Beside()
        made = read_of(column.type, beside, (column.name,))(item)
        if beside.rounded or (beside.has_more and not self._ignores):
            raise ValueError("more than the column holds")
        column_of([made], column.type)
        return made


def _refuse_more(item: Any) -> None:
    if says_something(item):
        raise ValueError("more than the schema names")
