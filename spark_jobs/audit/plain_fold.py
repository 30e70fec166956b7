"""Expected rows of a mirror, computed change by change: only for ``audit``.

It shares no code with ``spark_jobs.mirror``: what both get wrong alike, nobody would see.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from itertools import chain
from typing import Any, TypeAlias
from uuid import UUID

from spark_jobs.formats.connect.events import DELETE, TRUNCATE
from spark_jobs.schema.iceberg_types import COMMIT_SEQUENCE, OFFSET, OPERATION, PARTITION, ROW_ID, SEQUENCE

Row: TypeAlias = dict[str, Any]

# The row's key before it was changed, beside the columns of an event; absent where it was not.
OLD_KEY = "old key"
_PLACE = "place"
_TEXT = "__debezium_unavailable_value"
_UUID = UUID("b68a35a7-17ad-35b3-af2a-ae46edb4545a")
_CODES = [ord(letter) for letter in _TEXT]
_DAYS = [date.fromordinal(date(1970, 1, 1).toordinal() + code) for code in _CODES]
# Numbers of any type are equal; the last two are what a rebuild makes of lists that became lists of texts.
_LISTS = ([_TEXT], [_UUID], [_UUID.bytes], _CODES, _DAYS, [*map(str, _CODES)], [*map(str, _DAYS)])


# Where the source stood: which identity of it, by how many restarts, and its sequence.
Place: TypeAlias = tuple[int, int]
_NOWHERE = (-1, 0, 0)


def fold(
    events: Iterable[Row],
    cut_below: Place | None = None,
    restarts: Sequence[Mapping[int, int]] = (),
    *,
    is_whole: bool = True,
) -> tuple[dict[str, Row], Place | None]:
    """Return the rows by key after these events, and the position up to which all were deleted.

    ``events`` are of one source, in the order of their offsets within each partition, all that there were if
    ``is_whole``. With ``cut_below`` the table was emptied there before. ``restarts`` are by partition the
    first offsets from which on the source counts anew. A value that no event tells stays ``is_untold``.
    """
    by_partition: defaultdict[int, list[Row]] = defaultdict(list)
    for event in events:
        event[_PLACE] = place_of(event, restarts)
        by_partition[event[PARTITION]].append(event)
    told: defaultdict[str, list[Row]] = defaultdict(list)
    for event in chain(*(_without_repeats(each, is_whole) for each in by_partition.values())):
        if event[OPERATION] == TRUNCATE:
            cut_below = max(event[_PLACE], cut_below or event[_PLACE])
        else:
            told[event[ROW_ID]].append(event)
    rows = {}
    for key, events_of_key in told.items():
        if len({event[PARTITION] for event in events_of_key}) > 1:  # the topic was given more of them
            events_of_key.sort(key=lambda event: event[_PLACE])
        left = [event for event in events_of_key if cut_below is None or event[_PLACE] >= cut_below]
        if left and left[-1][OPERATION] != DELETE:
            rows[key] = _whole(left[-1], told)
    return rows, cut_below


def is_untold(value: object) -> bool:
    """True if a value is Debezium's placeholder for an unchanged long value."""
    if isinstance(value, list):
        return value in _LISTS
    return value in (_TEXT, _TEXT.encode())


def place_of(row: Row, restarts: Sequence[Mapping[int, int]]) -> Place:
    """Return the source's position of the row."""
    before = [firsts for firsts in restarts if firsts.get(row[PARTITION], 0) <= row[OFFSET]]
    return len(before), row[SEQUENCE]


def _without_repeats(events: Sequence[Row], is_whole: bool) -> list[Row]:
    """Return a partition's events without repeated ones.

    That is what lies below a place that was told, if it was there before, or if what was there before comes
    after it from as far or further: a log has one history. At the end of what is not whole nobody knows.
    """
    seen: set[tuple[str, Place]] = set()
    furthest, below, before = _NOWHERE, [], []
    for event in events:
        place, name = _position(event), (event[ROW_ID], event[_PLACE])
        below.append(_NOWHERE < place < furthest)
        before.append(name in seen)
        if before[-1] or not below[-1]:
            seen.add(name)
        furthest = max(furthest, place)
    reached, is_end, kept = _NOWHERE, not is_whole, list[Row]()
    for event, is_below, was_there in reversed([*zip(events, below, before, strict=True)]):
        place = _position(event)
        reached = max(reached, place) if was_there else reached
        is_end = is_end and (is_below or place == _NOWHERE)
        if not is_below or not (is_end or place <= reached):
            kept.append(event)
    return kept[::-1]


def _position(event: Row) -> tuple[int, int, int]:
    """Return the source's position, comparable with events of the same partition."""
    identity, sequence = event[_PLACE]
    return _NOWHERE if event[COMMIT_SEQUENCE] is None else (identity, event[COMMIT_SEQUENCE], sequence)


def _whole(event: Row, told: Mapping[str, Sequence[Row]]) -> Row:
    """Return the event with unchanged values from earlier events of its row, under any key."""
    lacking = {name for name, value in event.items() if is_untold(value)}
    whole, at = dict(event), event
    while lacking:
        key = at.get(OLD_KEY) or at[ROW_ID]
        before = [
            each for each in told.get(key, ()) if each[OPERATION] != DELETE and each[_PLACE] < at[_PLACE]
        ]
        if not before:
            break
        at = max(before, key=lambda each: each[_PLACE])
        whole |= {name: at[name] for name in lacking if not is_untold(at[name])}
        lacking = {name for name in lacking if is_untold(at[name])}
    return whole
