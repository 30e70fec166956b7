"""Events that are rows by themselves: a key, and the value it has from then on, or none. Pure."""

from __future__ import annotations

import re

from spark_jobs.debezium.documents import BareValueError, Document, NotReadError
from spark_jobs.debezium.events import DELETE, Change, Events

UPSERT = "u"
# What Debezium's ExtractNewRecordState says of a row that is gone, where it is told to rewrite deletes.
_DELETED = re.compile(rb'"__deleted"\s*:\s*"?true')


def read_upsert(documents: Events, key: bytes | None, value: bytes | None, offset: int) -> Change:
    """Return a record as a change; a key that is a JSON object gives a delete its fields.

    Raises ``NotReadError``.
    """
    of = None if key is None else documents.spelling.read(documents.keys, key)
    row_id = None if of is None else of.text
    if value is not None and not _may_say_more(value):
        return Change(UPSERT, offset, None, None, row_id, value)
    row = None if value is None else _document(documents, value)
    if row is not None:
        is_deleted, written = row.said("__deleted") in ("true", True), row.whole.encode()
        if not is_deleted:
            return Change(UPSERT, offset, None, None, row_id, written, row.schema)
        if of is None:
            return Change(DELETE, offset, None, None, None, written, row.schema, is_whole=False)
    if of is None:
        raise NotReadError("neither a key nor a value")
    return Change(DELETE, offset, None, None, row_id, of.fields or b"{}", of.schema, is_whole=False)


def _may_say_more(value: bytes) -> bool:
    """Whether a value may be more than a row: one with its schema, or of what is deleted; or null."""
    return b'"payload"' in value or _DELETED.search(value) is not None or value.strip() == b"null"


def _document(documents: Events, value: bytes) -> Document | None:
    try:
        return documents.values.read(value)
    except BareValueError as bare:
        if bare.text == "null":
            return None
        raise
