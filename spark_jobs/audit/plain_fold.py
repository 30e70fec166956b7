"""What a mirror must hold, by its changes one after the other: for ``audit`` alone.

It shares no code with ``spark_jobs.mirror``: what both get wrong alike, nobody would see.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from typing import Any, TypeAlias
from uuid import UUID

from spark_jobs.debezium.events import DELETE, TRUNCATE
from spark_jobs.schema.change_columns import COMMIT_SEQUENCE, OPERATION, ROW_ID, SEQUENCE
from spark_jobs.schema.metadata_columns import OFFSET, PARTITION

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


def fold(
    events: Iterable[Row], cut_below: Place | None = None, restarts: Sequence[Mapping[int, int]] = ()
) -> tuple[dict[str, Row], Place | None]:
    """Return the rows by key that these events leave, and below which place all are gone.

    ``events`` are in the order of their offsets within each partition. With ``cut_below`` the table was
    emptied there before. ``restarts`` are by partition the first offsets from which on the source counts
    anew. A value that no event tells stays ``is_untold``.
    """
    furthest: dict[int, tuple[int, int, int]] = {}
    told: defaultdict[str, list[Row]] = defaultdict(list)
    for event in events:
        event[_PLACE] = place = place_of(event, restarts)
        if _is_told_again(event, furthest):
            continue
        if event[OPERATION] == TRUNCATE:
            cut_below = place if cut_below is None else max(cut_below, place)
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
    """Whether a value is what Debezium writes for one that was not changed, too long to be told again."""
    if isinstance(value, list):
        return value in _LISTS
    return value in (_TEXT, _TEXT.encode())


def place_of(row: Row, restarts: Sequence[Mapping[int, int]]) -> Place:
    """Return where the source stood when it told the row."""
    before = [firsts for firsts in restarts if firsts.get(row[PARTITION], 0) <= row[OFFSET]]
    return len(before), row[SEQUENCE]


def _is_told_again(event: Mapping[str, Any], furthest: dict[int, tuple[int, int, int]]) -> bool:
    """Whether the partition has told of a place beyond; two events of one place are both new."""
    if event[COMMIT_SEQUENCE] is None:
        return False
    identity, sequence = event[_PLACE]
    place, partition = (identity, event[COMMIT_SEQUENCE], sequence), event[PARTITION]
    if place < furthest.get(partition, place):
        return True
    furthest[partition] = place
    return False


def _whole(event: Row, told: Mapping[str, Sequence[Row]]) -> Row:
    """Return the event with what was told before of its row, wherever its key was another one."""
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
