"""The columns that a row of ``layout: changes`` has of its event."""

from __future__ import annotations

from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, LongType, NestedField, StringType, TimestamptzType

SEQUENCE, TIME, OPERATION = "_cdc_sequence", "_cdc_timestamp", "_cdc_operation"
ROW_ID, TRANSACTION = "_cdc_row_id", "_cdc_transaction"
_COLUMNS: tuple[tuple[str, IcebergType, str], ...] = (
    (SEQUENCE, LongType(), "where its source stood; the offset where that says no position"),
    (TIME, TimestamptzType(), "when the source changed the row"),
    (OPERATION, StringType(), "c, u, r: the row after; d: the key of a row that went; t: all rows went"),
    (ROW_ID, StringType(), "the record's key as text; null when it has none"),
    (TRANSACTION, StringType(), "what all events of a transaction of the source share"),
)
CHANGE_COLUMNS = Schema(
    *(
        NestedField(field_id, name, kind, required=False, doc=doc)
        for field_id, (name, kind, doc) in enumerate(_COLUMNS, 1)
    )
)
CHANGE_NAMES = frozenset(name for name, _, _ in _COLUMNS)
