"""Rows read strictly, one by one: for those that a block is not sure of, and for audits."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, NoReturn

from spark_jobs.debezium.leaves import MisfitError, read_leaf
from spark_jobs.debezium.row_types import Entries, Items, Leaf, Record, Type
from spark_jobs.schema.writer_schema import UnreadableValueError


class PlainRows:
    """Reads rows of a type; with ``is_whole`` they have a value wherever their source says so."""

    def __init__(self, row: Record, *, is_whole: bool) -> None:
        self._row = row
        self._is_whole = is_whole

    def read(self, value: bytes) -> dict[str, Any]:
        """Return a row by column. Raises ``UnreadableValueError``."""
        try:
            record = _JSON.decode(value.decode())
        except UnreadableValueError:
            raise
        except (ValueError, RecursionError) as error:
            raise UnreadableValueError(f"not JSON: {error}") from error
        if not self._is_whole and type(record) is dict:
            # A key may have more than its rows, as a router's name of the physical table.
            record = {field.name: record.get(field.name) for field in self._row.fields}
        row = _record(self._row, record, ())
        if self._is_whole:
            for field in self._row.fields:
                if not field.may_be_null and row[field.name] is None:
                    why = "null in a column that is never null: so is told what has no form, as NaN"
                    raise UnreadableValueError(why, field.name)
        return row


def _record(kind: Record, value: Any, path: tuple[str, ...]) -> dict[str, Any]:
    if type(value) is not dict:
        raise UnreadableValueError("not an object", ".".join(path) or None)
    if unknown := value.keys() - {field.name for field in kind.fields}:
        raise UnreadableValueError("the schema does not name it", ".".join((*path, min(unknown))))
    return {
        field.name: _read(field.type, value.get(field.name), (*path, field.name)) for field in kind.fields
    }


def _read(kind: Type, value: Any, path: tuple[str, ...]) -> Any:
    if value is None:
        return None
    match kind:
        case Leaf():
            try:
                return read_leaf(kind, value)
            except MisfitError as misfit:
                raise UnreadableValueError(str(misfit), ".".join(path)) from misfit
        case Items(item):
            if type(value) is not list:
                raise UnreadableValueError("not an array", ".".join(path))
            return [_read(item, each, (*path, "element")) for each in value]
        case Entries(item):
            if type(value) is not dict:
                raise UnreadableValueError("not an object", ".".join(path))
            return [(key, _read(item, each, (*path, "value"))) for key, each in value.items()]
        case Record():
            return _record(kind, value, path)


def _pairs(pairs: list[tuple[str, Any]]) -> Mapping[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise UnreadableValueError("a name is there twice")
    return made


def _refuse(text: str) -> NoReturn:
    raise UnreadableValueError(f"not JSON: {text}")


_JSON = json.JSONDecoder(parse_float=Decimal, parse_constant=_refuse, object_pairs_hook=_pairs)
