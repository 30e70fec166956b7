"""A table's expected rows from its changes, computed by independent code.

Changes are put in order by where their source stood, across partitions: those that are told again change
nothing then. Of one place deletes come before rows; a value that was not told is that of before the place.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any

UNAVAILABLE = "__debezium_unavailable_value"
OLD_KEY = "__debezium.oldkey"

Row = Mapping[str, Any]


def folded(changes: Iterable[Row], columns: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return the rows after all changes, by the key's text, with these columns."""
    columns, state = list(columns), dict[str, dict[str, Any]]()
    for _, at_one_place in groupby(sorted(changes, key=_place), key=_place):
        before = dict(state)
        for change in sorted(at_one_place, key=lambda each: each["_cdc_operation"] != "d"):
            if change["_cdc_operation"] == "t":
                state.clear()
            elif change["_cdc_operation"] == "d":
                state.pop(change["_cdc_row_id"], None)
            else:
                known = before.get(_old_key(change), {})
                state[change["_cdc_row_id"]] = {name: _value(change, name, known) for name in columns}
    return state


def _place(change: Row) -> Any:
    return change["_cdc_sequence"]


def _value(change: Row, name: str, known: Row) -> Any:
    return known[name] if change[name] == UNAVAILABLE else change[name]


def _old_key(change: Row) -> str:
    headers = {each["key"]: each["value"] for each in change["_kafka_headers"] or []}
    return headers[OLD_KEY].decode() if OLD_KEY in headers else str(change["_cdc_row_id"])
