"""Which schema reads a record that does not name its own: that of the span it stands in."""

from __future__ import annotations

import numpy as np

from spark_jobs.protocol.schema_id import SchemaKey
from spark_jobs.protocol.schema_spans import Spans
from spark_jobs.records.encoded import Encoded
from spark_jobs.records.framing import Framed
from spark_jobs.schema.packed_values import PackedValues


def by_place(encoded: Encoded, spans: Spans) -> Framed:
    """Sort values, or keys, by the schema of the span that each stands in; they have no frame."""
    packed = PackedValues.of(encoded.items)
    which = spans_at(encoded.partitions, encoded.offsets, spans)
    numbers: dict[SchemaKey, int] = {}
    of_span = np.array([numbers.setdefault(span.key, len(numbers)) for span in spans], np.intp)
    found = Framed()
    for key, number in numbers.items():
        indices = np.flatnonzero(of_span[which] == number)
        if len(indices):
            found.indices[key] = indices
            found.values[key] = packed if len(indices) == len(packed) else packed.take(indices)
    return found


def spans_at(partitions: np.ndarray, offsets: np.ndarray, spans: Spans) -> np.ndarray:
    """Return the number of the span that each place is in; the first, where none has begun."""
    found = np.zeros(len(offsets), np.intp)
    for partition in np.unique(partitions).tolist():
        begun = [number for number, span in enumerate(spans) if partition in span.starts]
        starts = [spans[number].starts[partition] for number in begun]
        here = partitions == partition
        found[here] = np.array([0, *begun], np.intp)[np.searchsorted(starts, offsets[here], "right")]
    return found
