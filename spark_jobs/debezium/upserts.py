"""Events that are rows by themselves: a key, and the value it has from then on, or none. Pure."""

from __future__ import annotations

from spark_jobs.debezium.documents import NotReadError
from spark_jobs.debezium.events import DELETE, Change, Events, KeyNotReadError

UPSERT = "u"
_SCHEMA_FIRST = b'{"schema":'


def read_upsert(documents: Events, key: bytes | None, value: bytes | None, offset: int) -> Change:
    """Return a record as a change; a key that is a JSON object gives a delete its fields.

    Raises ``NotReadError``.
    """
    row_id, fields, schema = None, b"{}", None
    if key is not None:
        try:
            row_id = key.decode()
        except UnicodeDecodeError as error:
            raise KeyNotReadError("the key is not UTF-8") from error
        try:
            read = documents.keys.read(key)
            row_id, fields, schema = read.whole, read.whole.encode(), read.schema
        except NotReadError:
            pass  # a key of text
    if value is not None and value.startswith(_SCHEMA_FIRST):
        row = documents.values.read(value)
        return Change(UPSERT, offset, None, None, row_id, row.whole.encode(), row.schema)
    if value is not None:
        return Change(UPSERT, offset, None, None, row_id, value)
    if key is None:
        raise NotReadError("neither a key nor a value")
    return Change(DELETE, offset, None, None, row_id, fields, schema, is_whole=False)
