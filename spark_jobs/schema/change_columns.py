"""The columns that a row of ``layout: changes`` or ``mirror`` has of its event."""

from __future__ import annotations

from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, LongType, NestedField, StringType, TimestamptzType

SEQUENCE, TIME, OPERATION = "_cdc_sequence", "_cdc_timestamp", "_cdc_operation"
ROW_ID, TRANSACTION, COMMIT_SEQUENCE = "_cdc_row_id", "_cdc_transaction", "_cdc_commit_sequence"
SOURCE = "_cdc_source"
_COLUMNS: tuple[tuple[str, IcebergType, str], ...] = (
    (SEQUENCE, LongType(), "where its source stood; the offset where that says no position"),
    (TIME, TimestamptzType(), "when the source changed the row"),
    (OPERATION, StringType(), "c, u, r: the row after; d: the key of a row that went; t: all rows went"),
    (ROW_ID, StringType(), "the record's key as text; null when it has none"),
    (TRANSACTION, StringType(), "what all events of a transaction of the source share"),
)
_OF_MIRRORS: tuple[tuple[str, IcebergType, str], ...] = (
    *(each for each in _COLUMNS if each[0] != ROW_ID),
    (ROW_ID, StringType(), "the record's key as text: one live row has it"),
    (COMMIT_SEQUENCE, LongType(), "where the last commit stood that was told before; null if not said"),
    (SOURCE, StringType(), "which connector, database and table told it, as JSON"),
)


def _schema(columns: tuple[tuple[str, IcebergType, str], ...]) -> Schema:
    return Schema(
        *(
            NestedField(field_id, name, kind, required=False, doc=doc)
            for field_id, (name, kind, doc) in enumerate(columns, 1)
        )
    )


CHANGE_COLUMNS, MIRROR_COLUMNS = _schema(_COLUMNS), _schema(_OF_MIRRORS)
CHANGE_NAMES, MIRROR_NAMES = (frozenset(columns.column_names) for columns in (CHANGE_COLUMNS, MIRROR_COLUMNS))
