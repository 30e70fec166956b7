"""Hand-written events of Debezium's PostgreSQL connector and Kafka's JsonConverter."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

TIME = "io.debezium.time."
DATA = "io.debezium.data."
_SOURCE = {
    "version": "3.6.3.Final",
    "connector": "postgresql",
    "name": "shop",
    "db": "shop",
    "schema": "public",
}
_TEXTS, _NUMBERS = (*_SOURCE, "snapshot", "table", "sequence"), ("ts_ms", "ts_us", "txId", "lsn")


@dataclass(frozen=True, slots=True)
class Column:
    """A source column: Connect's type, the name of its meaning, and more schema attributes."""

    type: str
    name: str | None = None
    more: Mapping[str, Any] = field(default_factory=dict)
    optional: bool = True

    def schema(self, column: str) -> dict[str, Any]:
        """Return it as a field of a struct's schema."""
        named = {} if self.name is None else {"name": self.name, "version": 1}
        return {"type": self.type, "optional": self.optional, **named, **self.more, "field": column}


def decimal(precision: int, scale: int, *, optional: bool = True) -> Column:
    """Return a column of numeric(precision, scale)."""
    parameters = {"scale": str(scale), "connect.decimal.precision": str(precision)}
    name = "org.apache.kafka.connect.data.Decimal"
    return Column("bytes", name, {"parameters": parameters}, optional)


def base64_of(unscaled: int) -> str:
    """Return a decimal's bytes as JSON contains them."""
    length = unscaled.bit_length() // 8 + 1
    return b64encode(unscaled.to_bytes(length, signed=True)).decode()


_SOURCE_SCHEMA = {
    "type": "struct",
    "fields": [
        *(Column("string").schema(name) for name in _TEXTS),
        *(Column("int64").schema(name) for name in _NUMBERS),
    ],
    "optional": False,
    "name": "io.debezium.connector.postgresql.Source",
    "field": "source",
}


@dataclass(frozen=True, slots=True)
class Source:
    """A table whose key is ``id``; events with a schema where it has columns."""

    columns: Mapping[str, Column] = field(default_factory=dict)

    def event(
        self, op: str, row: Mapping[str, Any] | None, *, lsn: int = 100, before: Any = None, **more: Any
    ) -> bytes:
        """Return an event's value; ``more`` are source fields."""
        source = {**_SOURCE, "ts_ms": 1_700_000_000_123, "snapshot": "false", "table": "orders"}
        source |= {"sequence": json.dumps([str(lsn - 10), str(lsn)]), "txId": 7, "lsn": lsn, **more}
        payload = {
            "before": before,
            "after": row,
            "source": source,
            "transaction": None,
            "op": op,
            "ts_ms": 1,
        }
        return self._with_schema(payload, self._envelope())

    def key(self, number: int | str) -> bytes:
        """Return a key."""
        struct = {"type": "struct", "fields": [self.columns["id"].schema("id")]} if self.columns else {}
        return self._with_schema(
            {"id": number}, {**struct, "optional": False, "name": "shop.public.orders.Key"}
        )

    @property
    def envelope(self) -> str:
        """The schema around an event."""
        return json.dumps(self._envelope())

    def row(self, row: Mapping[str, Any]) -> bytes:
        """Return a row without its envelope."""
        return self._with_schema(row, self._row())

    def _row(self) -> dict[str, Any]:
        fields = [column.schema(name) for name, column in self.columns.items()]
        return {"type": "struct", "fields": fields, "optional": True, "name": "shop.public.orders.Value"}

    def _envelope(self) -> dict[str, Any]:
        row = self._row()
        others = [_SOURCE_SCHEMA, {"type": "string", "optional": False, "field": "op"}]
        fields = [{**row, "field": "before"}, {**row, "field": "after"}, *others]
        return {"type": "struct", "fields": fields, "optional": False, "name": "shop.public.orders.Envelope"}

    def _with_schema(self, payload: Mapping[str, Any], schema: Mapping[str, Any]) -> bytes:
        whole = {"schema": schema, "payload": payload} if self.columns else payload
        return json.dumps(whole, separators=(",", ":"), ensure_ascii=False).encode()
