"""Independent reader of values by their JSON Schema, for ``audit`` only: strict, one by one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from spark_jobs.formats.json.nesting import is_too_deep
from spark_jobs.formats.json.plain import UNREADABLE, Excess, read_exactly, read_of, says_something
from spark_jobs.formats.json_schema.types import VALUE, Root, forbidden
from spark_jobs.schema.writer_schema import UnreadableValueError

if TYPE_CHECKING:
    import pyarrow as pa


class PlainReader:
    """Reads values for ``columns``; with ``ignores`` they may have fields that the schema does not name."""

    def __init__(self, root: Root, columns: pa.Schema, *, ignores: bool) -> None:
        self._root = root
        self._ignores = ignores
        self._beside = Excess()
        self._reads = {each.name: read_of(each.type, self._beside, (each.name,)) for each in columns}

    def read(self, value: bytes) -> dict[str, Any]:
        """Return a value by column; raises ``UnreadableValueError``."""
        self._beside.has_more = False
        self._beside.rounded.clear()
        try:
            record = self._record(value)
            row = {
                name: None if (item := record.get(name)) is None else read(item)
                for name, read in self._reads.items()
            }
            if self._beside.rounded or (self._beside.has_more and not self._ignores):
                raise ValueError("more than its columns can hold")
        except UNREADABLE as error:
            raise UnreadableValueError(f"not valid by the schema: {error}") from error
        return row

    def _record(self, value: bytes) -> dict[str, Any]:
        parsed = read_exactly(value)
        record = {VALUE: parsed} if self._root.is_whole else parsed
        if type(record) is not dict or is_too_deep(b"[" + value if self._root.is_whole else value):
            raise ValueError("not an object, or nested too deep")
        json.dumps(record, ensure_ascii=False, default=str).encode()  # no halves of surrogate pairs
        for _path, item in forbidden(record, self._root.record):
            if says_something(item):
                raise ValueError("more than the schema names")
        if any(says_something(record[name]) for name in record.keys() - self._reads.keys()):
            self._beside.has_more = True
        return record
