"""What lanes have passed over, as columns: which of it the rows are, and the lane that each is of.

A row whose value no column can hold is put in doubt; what stands in its place does not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from spark_jobs.schema.arrow_schema import column_of
from spark_jobs.schema.packed_values import binary_column
from spark_jobs.schema.writer_schema import UnreadableValueError


class Rows:
    """Which of the values that were read are a column's rows (-1: null), and the lane that each is of."""

    def __init__(self, data: pa.Buffer, is_sure: np.ndarray, values: np.ndarray, lanes: np.ndarray) -> None:
        self.data = data
        self._is_sure = is_sure
        self.values = values
        self.lanes = lanes
        self.is_null = values < 0 if len(values) and values.min() < 0 else None
        # Each lane's, in their order: what was read of them is their column as it is.
        self._are_all = values is lanes and len(values) == len(is_sure)

    def of(self, values: np.ndarray, lanes: np.ndarray | None = None) -> Rows:
        """Return rows of other values; of the same lanes, or of these."""
        return Rows(self.data, self._is_sure, values, self.lanes if lanes is None else lanes)

    def taken(self, parts: Sequence[np.ndarray]) -> np.ndarray:
        """Return what was read of each row, zero where it is null."""
        read = parts[0] if len(parts) == 1 else np.concatenate(parts) if parts else np.empty(0, np.int64)
        if self._are_all and len(read) == len(self.values):
            return read
        if self.is_null is None:
            all_of_them: np.ndarray = read[self.values]
            return all_of_them
        if not len(read):
            return np.zeros(len(self.values), read.dtype)
        return np.where(self.is_null, read.dtype.type(0), read[self.values])

    def doubt(self, rows: np.ndarray) -> None:
        """Leave these, a mask or positions, to who reads values by themselves; they may be anything."""
        self._is_sure[self.lanes[rows]] = False

    def within(self, numbers: np.ndarray, first: int, last: int) -> np.ndarray:
        """Return numbers of which those outside are in doubt and zero."""
        outside = (numbers < first) | (numbers > last)
        if self.is_null is not None:
            outside &= ~self.is_null
        if not outside.any():
            return numbers
        self.doubt(outside)
        return np.where(outside, 0, numbers)

    def array(self, numbers: np.ndarray, kind: pa.DataType | None = None) -> pa.Array:
        """Return numbers as a column."""
        return pa.array(numbers, kind, mask=self.is_null)

    @property
    def nulls(self) -> pa.Array | None:
        """Return which rows are null, as Arrow's nested columns take it."""
        return None if self.is_null is None else pa.array(self.is_null)

    def fixed(self, content: np.ndarray, kind: pa.DataType) -> pa.Array:
        """Return a column of a fixed width from its rows' bytes."""
        valid = None if self.is_null is None else pa.array(~self.is_null).buffers()[1]
        return pa.Array.from_buffers(kind, len(content), [valid, pa.py_buffer(content)])

    def decimals(self, low: np.ndarray, high: np.ndarray, kind: pa.DataType) -> pa.Array:
        """Return decimals of the lower and the higher 64 bits of their digits."""
        return self.fixed(np.stack([low.view(np.int64), high.view(np.int64)], axis=1), kind)

    def texts(self, begins: np.ndarray, ends: np.ndarray) -> pa.Array:
        """Return what is between these places as texts."""
        texts = binary_column(self.data, begins, ends, self.is_null, pa.string())
        try:
            texts.validate(full=True)
        except pa.ArrowInvalid:
            return self.looked_at(texts.view(pa.binary()), bytes.decode, pa.string())
        return texts

    def looked_at(self, pieces: pa.Array, made: Callable[[Any], object], target: pa.DataType) -> pa.Array:
        """Return what is made of each, null where nothing can be."""
        items = pieces.to_pylist()
        bad = []
        for row, item in enumerate(items):
            if item is not None:
                try:
                    items[row] = made(item)
                except (UnreadableValueError, UnicodeDecodeError):
                    bad.append(row)
                    items[row] = None
        self.doubt(np.array(bad, np.int64))
        return column_of(items, target)

    def items(self, owners: Sequence[np.ndarray], count: int) -> tuple[pa.Array, Rows]:
        """Return where each row's items begin, and the items, row by row.

        ``owners`` say of each item which of the ``count`` lists that were read it is of.
        """
        every = np.concatenate(owners) if owners else np.empty(0, np.int64)
        place = np.full(count, -1)
        is_list = self.values >= 0
        place[self.values[is_list]] = np.flatnonzero(is_list)
        of_row = place[every]
        wanted = np.flatnonzero(of_row >= 0)
        of_row = of_row[wanted]
        is_ordered = (of_row[1:] >= of_row[:-1]).all()
        ordered = wanted if is_ordered else wanted[np.argsort(of_row, kind="stable")]
        counts = np.bincount(of_row, minlength=len(self.values))
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
        return pa.array(offsets), self.of(ordered, np.repeat(self.lanes, counts))

    def doubt_repeated(self, keys: pa.Array, offsets: pa.Array) -> None:
        """Doubt maps with a key twice; these are their entries."""
        encoded = keys.dictionary_encode()
        of_row = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        entries = of_row * (len(encoded.dictionary) + 1) + encoded.indices.fill_null(-1).to_numpy()
        _, first, counts = np.unique(entries, return_index=True, return_counts=True)
        self.doubt(first[counts > 1])
