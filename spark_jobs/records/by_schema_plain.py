"""Values read a second time by their schemas, for ``audit`` alone: one by one, by its plain reader."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from spark_jobs.records.by_schema import framed_values
from spark_jobs.records.decoder import Decoded
from spark_jobs.records.framing import Encoded
from spark_jobs.schema.column_source import KnownSchemas
from spark_jobs.schema.writer_schema import NoRowError, UnreadableValueError
from spark_jobs.values.plain import NO_VALUE, in_column, stored


@dataclass(frozen=True, slots=True)
class PlainSchemaDecoder:
    """Values, or keys, by their schemas."""

    schemas: KnownSchemas

    def read(self, encoded: Encoded, columns: pa.Schema) -> Decoded:
        """Return values, or keys, as rows of columns for what is in them alone."""
        passed: dict[str, list[int]] = {}
        read = self._read(encoded, passed)
        items: dict[int, dict[str, Any]] = {}
        for index in sorted(read):
            with suppress(*NO_VALUE):  # of no row, or of one that keeps it elsewhere
                items[index] = {
                    each.name: in_column(read[index].get(each.name), each.type) for each in columns
                }
        there = [*items]
        every = {name: [row[name] for row in items.values()] for name in columns.names}
        table, at = stored(every, [*range(len(there))], columns)
        rows = [there[position] for position in at]
        kinds = {column.name: column.type for column in columns}
        more = [index for index in rows if _says_more(read[index], kinds)]
        return Decoded(table, rows, has_more=more, passed=passed)

    def _read(self, encoded: Encoded, passed: dict[str, list[int]]) -> dict[int, Mapping[str, Any]]:
        """Return what can be read, by index; into ``passed`` go those that say nothing of a row, by term."""
        framed = framed_values(encoded, self.schemas)
        read = {}
        for key, indices in framed.indices.items():
            schema = self.schemas.by_key.get(key)
            for index, value in zip(indices.tolist(), framed.values[key], strict=True):
                if schema is not None:
                    try:
                        read[index] = schema.read_plain(value)
                    except NoRowError as error:
                        passed.setdefault(str(error), []).append(index)
                    except UnreadableValueError:
                        continue  # no row is made of it, and if there is one it has no basis
        return read


def _says_more(value: Mapping[str, Any], kinds: Mapping[str, pa.DataType]) -> bool:
    """True if a field without a column, at any depth, holds something."""
    return any(
        _says_something(item) if name not in kinds else _has_more_inside(item, kinds[name])
        for name, item in value.items()
    )


def _has_more_inside(item: Any, kind: pa.DataType) -> bool:
    if item is None:
        return False
    if pa.types.is_struct(kind):
        return _says_more(item, {field.name: field.type for field in kind})
    if pa.types.is_list(kind):
        return any(_has_more_inside(each, kind.value_type) for each in item)
    if pa.types.is_map(kind):
        entries: Sequence[tuple[Any, Any]] = list(item.items() if isinstance(item, Mapping) else item)
        return any(_has_more_inside(each, kind.item_type) for _key, each in entries)
    return False


def _says_something(item: Any) -> bool:
    if isinstance(item, Mapping):
        return any(map(_says_something, item.values()))
    return item is not None and item not in ([], ())
