"""Events as a gateway's clients write them: what is done to which row, without a position. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from spark_jobs.debezium.documents import NotReadError
from spark_jobs.debezium.events import DELETE, EPOCH, WITH_A_ROW, Change, Events, check_time

OPERATIONS = (*WITH_A_ROW, DELETE)
_MICROSECOND = EPOCH.resolution


def read_enveloped(documents: Events, key: bytes | None, value: bytes) -> Change:
    """Return a record as a change; the event's key, if it is an object, gives a delete its fields.

    Raises ``NotReadError``.
    """
    event = documents.values.read(value)
    operation = event.said("operation")
    if operation not in OPERATIONS:
        raise NotReadError("no event of a gateway: it has no operation", "operation")
    part, is_whole = ("key", False) if operation == DELETE else ("value", True)
    is_row = type(event.said(part)) is dict
    if is_whole and not is_row:
        raise NotReadError("it has no row", "value")
    row_id = None if key is None else documents.spelling.read(documents.keys, key).text
    time, row = _time_us(event.said("timestamp")), event.written(part) if is_row else b"{}"
    return Change(operation, None, time, None, row_id, row, is_whole=is_whole)


def _time_us(value: Any) -> int | None:
    if value is None:
        return None
    try:
        if type(value) is int:
            return check_time(value * 1000, "timestamp")
        return (datetime.fromisoformat(value) - EPOCH) // _MICROSECOND
    except (TypeError, ValueError, OverflowError) as error:
        if isinstance(error, NotReadError):
            raise
        raise NotReadError("neither milliseconds nor a time with its zone", "timestamp") from error
