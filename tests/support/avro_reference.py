"""What a column must hold for a value, from the schema's own JSON: nothing of it is the code under test."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Context, Decimal
from typing import Any
from uuid import UUID

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS = {"millis": 1_000_000, "micros": 1_000, "nanos": 1}


class NoRowError(Exception):
    """A value that no column can hold."""


class Reference:
    """``named`` are the schema's named types by name."""

    def __init__(self, schema: Any, named: dict[str, Any]) -> None:
        self.schema = schema
        self.named = named

    def row(self, value: Any) -> dict[str, Any]:
        """Return a value, as ``schemaless_writer`` took it, by column; raises ``NoRowError``."""
        made = self._of(self.schema, value, ())
        return made if isinstance(made, dict) and self._is_record() else {"value": made}

    def _is_record(self) -> bool:
        schema = self.schema
        return (
            isinstance(schema, dict)
            and schema["type"] == "record"
            and any(each["type"] != "null" for each in schema["fields"])
        )

    def _of(self, schema: Any, value: Any, inside: tuple[str, ...]) -> Any:
        if isinstance(schema, str) and schema in self.named:
            schema = self.named[schema]
        if isinstance(schema, list):
            return self._union(schema, value, inside)
        kind = schema if isinstance(schema, str) else schema["type"]
        if kind == "record":
            return self._record(schema, value, inside)
        if kind == "array":
            return [self._of(schema["items"], item, inside) for item in value]
        if kind == "map":
            return {key: self._of(schema["values"], item, inside) for key, item in value.items()}
        logical = schema.get("logicalType") if isinstance(schema, dict) else None
        return value if logical is None else _logical(logical, schema, value)

    def _record(self, schema: Any, value: Any, inside: tuple[str, ...]) -> Any:
        if schema["name"] in inside:
            self._of(schema, value, ())
            return ...  # JSON text of what can be a row
        made = {
            each["name"]: self._of(each["type"], value[each["name"]], (*inside, schema["name"]))
            for each in schema["fields"]
            if each["type"] != "null"
        }
        return made or True

    def _union(self, schema: list[Any], value: Any, inside: tuple[str, ...]) -> Any:
        if value is None:
            return None
        name, value = value
        for branch in schema:
            if name == _name(branch):
                made = self._of(branch, value, inside)
                return made if len([each for each in schema if each != "null"]) == 1 else {name: made}
        raise AssertionError(name)


def _name(branch: Any) -> str:
    return branch if isinstance(branch, str) else branch.get("name", branch["type"])


def _logical(logical: str, schema: Any, value: Any) -> Any:
    if logical == "decimal":
        number = int.from_bytes(value, "big", signed=True)
        if len(str(abs(number))) > schema["precision"]:
            raise NoRowError
        made = Decimal(number).scaleb(-schema["scale"], Context(prec=1000))
        return made if schema["precision"] <= 38 else f"{made:f}"
    if logical == "uuid":
        return UUID(value).bytes if isinstance(value, str) else value
    if logical == "duration":
        numbers = [int.from_bytes(value[at : at + 4], "little") for at in (0, 4, 8)]
        return dict(zip(("months", "days", "millis"), numbers, strict=True))
    if logical == "date":
        return _moment(value * 86_400_000_000_000).date()
    unit = _UNITS[logical.rpartition("-")[2]]
    if logical.startswith("time-"):
        if not 0 <= value * unit < 86_400_000_000_000:
            raise NoRowError
        return _moment(value * unit).time()
    moment = _moment(value * unit)
    return moment.replace(tzinfo=None) if logical.startswith("local") else moment


def _moment(nanos: int) -> datetime:
    if nanos % 1000:
        raise NoRowError
    try:
        return _EPOCH + timedelta(microseconds=nanos // 1000)
    except OverflowError:
        raise NoRowError from None
