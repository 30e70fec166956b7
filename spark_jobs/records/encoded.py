"""Values, or keys, of a chunk's records, and what may say by which schema each is to be read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np

if TYPE_CHECKING:
    from spark_jobs.kafka.chunks import Chunk
    from spark_jobs.records.framing import Headers


@dataclass(frozen=True, slots=True)
class Encoded:
    """The bytes of these ``rows`` of a chunk; none of them is null."""

    records: Chunk
    rows: Sequence[int]
    items: Sequence[bytes]

    @classmethod
    def values(cls, records: Chunk, rows: Sequence[int] | None = None) -> Encoded:
        """Return the values of these records, or of all."""
        if rows is None:
            return cls(records, range(len(records.values)), cast("Sequence[bytes]", records.values))
        return cls(records, rows, [cast("bytes", records.values[row]) for row in rows])

    @classmethod
    def keys(cls, records: Chunk, rows: Sequence[int]) -> Encoded:
        """Return the keys of these records."""
        return cls(records, rows, [cast("bytes", records.keys[row]) for row in rows])

    @property
    def headers(self) -> Sequence[Headers]:
        """The headers beside each."""
        beside = self.records.headers
        return beside if self._is_all else [beside[row] for row in self.rows]

    @property
    def partitions(self) -> np.ndarray:
        """The partition that each stands in."""
        return self._taken(self.records.partitions)

    @property
    def offsets(self) -> np.ndarray:
        """The offset that each stands at."""
        return self._taken(np.asarray(self.records.offsets, np.int64))

    @property
    def _is_all(self) -> bool:
        return len(self.rows) == len(self.records.offsets)

    def _taken(self, column: np.ndarray) -> np.ndarray:
        return column if self._is_all else column[np.asarray(self.rows, np.intp)]
