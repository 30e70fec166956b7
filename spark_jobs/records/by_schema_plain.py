"""Independent reader of values by their schemas, for ``audit`` only: one by one."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from spark_jobs.records.by_schema import framed_values
from spark_jobs.records.decoder import Decoded, Encoded
from spark_jobs.schema.column_source import KnownSchemas
from spark_jobs.schema.writer_schema import NoRowError, UnreadableValueError
from spark_jobs.values.plain import NO_VALUE, in_column, stored


@dataclass(frozen=True, slots=True)
class PlainSchemaDecoder:
    """Decodes values or keys by their schemas."""

    schemas: KnownSchemas

    def read(self, encoded: Encoded, columns: pa.Schema) -> Decoded:
        """Return values or keys as rows of columns for their fields alone."""
        passed: dict[str, list[int]] = {}
        read = self._read(encoded, passed)
        items: dict[int, dict[str, Any]] = {}
        more: dict[int, list[Any]] = {}
        for index in sorted(read):
            more[index] = []
            with suppress(*NO_VALUE):  # of no row, or of one that keeps it elsewhere
                items[index] = in_column(read[index], pa.struct(columns), more[index])
        indices = [*items]
        every = {name: [row[name] for row in items.values()] for name in columns.names}
        table, at = stored(every, [*range(len(indices))], columns)
        rows = [indices[position] for position in at]
        has_more = [index for index in rows if any(map(_says_something, more[index]))]
        return Decoded(table, rows, has_more=has_more, passed=passed)

    def _read(self, encoded: Encoded, passed: dict[str, list[int]]) -> dict[int, Mapping[str, Any]]:
        """Return readable values by index; values without a row are counted in ``passed`` by term."""
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


def _says_something(item: Any) -> bool:
    if isinstance(item, Mapping):
        return any(map(_says_something, item.values()))
    return item is not None and item not in ([], ())
