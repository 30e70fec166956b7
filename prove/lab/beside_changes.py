"""Debezium's records that are not row changes, each kind by its key and value."""

from __future__ import annotations

from typing import Any

_SOURCE = {"connector": "mysql", "name": "shop", "db": "shop", "table": "customers", "ts_ms": 5}
_MESSAGE = {"prefix": "audit", "content": "aGk="}
_MARKER = {"status": "BEGIN", "id": "571:53", "event_count": None, "data_collections": None, "ts_ms": 5}
_SCHEMA_CHANGE = {
    "source": _SOURCE,
    "ts_ms": 5,
    "databaseName": "shop",
    "schemaName": None,
    "tableChanges": [],
}
BESIDE: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "heartbeats": ({"serverName": "shop"}, {"ts_ms": 1_700_000_000_000}),
    "messages": ({"prefix": "audit"}, {"op": "m", "ts_ms": 5, "source": _SOURCE, "message": _MESSAGE}),
    "transaction_markers": ({"id": "571:53"}, _MARKER),
    "schema_changes": (
        {"databaseName": "shop"},
        {**_SCHEMA_CHANGE, "ddl": "ALTER TABLE customers ADD n INT"},
    ),
}
