"""By which schema a record is read that does not name its own: by where it stands. Pure.

Offsets ascend from batch to batch, so the spans of a partition begin in the order in which they are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from spark_jobs.protocol.json_codec import stored_as
from spark_jobs.protocol.schema_id import SchemaKey


@stored_as(
    tuple[SchemaKey, dict[int, int]],
    write=lambda span: (str(span.key), span.starts),
    read=lambda stored: SchemaSpan(*stored),
)
@dataclass(frozen=True, slots=True)
class SchemaSpan:
    """``key`` reads what stands at these offsets, by partition, and after them, until a later span begins.

    The first one reads all that is before any, too: what was drained when something else was configured.
    """

    key: SchemaKey
    starts: dict[int, int]


Spans: TypeAlias = tuple[SchemaSpan, ...]


def spans_of(spans: Spans, *, of_key: bool) -> Spans:
    """Return those of records' keys, or those of values."""
    return tuple(span for span in spans if span.key.of_key is of_key)


def after_drain(spans: Spans, keys: Iterable[SchemaKey], starts: Mapping[int, int]) -> Spans:
    """Return the spans with a batch that begins at these offsets; there is a new one for another schema."""
    for key in keys:
        last = next(reversed(spans_of(spans, of_key=key.of_key)), None)
        if last is not None and last.key == key:
            longer = replace(last, starts={**starts, **last.starts})
            spans = tuple(longer if span is last else span for span in spans)
        else:
            spans = (*spans, SchemaSpan(key, dict(starts)))
    return spans


def after_replay(spans: Spans, keys: Iterable[SchemaKey], starts: Mapping[int, int]) -> Spans:
    """Return the spans with a replay that was planned when there were none: all others are behind it."""
    return (*(SchemaSpan(key, dict(starts)) for key in keys), *spans)


def after_rollback(spans: Spans, next_offsets: Mapping[int, int]) -> Spans:
    """Return the spans of a table that went back to these offsets: it is asked anew what reads the others."""
    kept = [
        replace(span, starts={p: at for p, at in span.starts.items() if at < next_offsets.get(p, 0)})
        for span in spans
    ]
    first = {span.key.of_key: span for span in reversed(kept)}
    return tuple(span for span in kept if span.starts or span is first[span.key.of_key])
