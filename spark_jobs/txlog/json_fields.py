"""Frozen dataclasses as JSON objects and back, every field checked against its declared type. Pure.

Reading is strict on purpose: a log object that parses as JSON and is something else must not be believed.
"""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Any, TypeVar

from spark_jobs.protocol.batch import Balance, BatchKind
from spark_jobs.protocol.offsets import OffsetRange, OffsetRanges

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_T = TypeVar("_T")


def fields_to_json(value: Any) -> dict[str, Any]:
    """The dataclass as a JSON object; ranges become ``[partition, start, end]`` triples."""
    return {f.name: _to_json(getattr(value, f.name)) for f in fields(value)}


def _to_json(value: Any) -> Any:
    if isinstance(value, OffsetRanges):
        return [[r.partition, r.start, r.end] for r in value]
    if isinstance(value, Balance):
        return fields_to_json(value)
    if isinstance(value, dict):
        return {str(key): _to_json(item) for key, item in value.items()}
    return list(value) if isinstance(value, tuple) else value


def fields_from_json(kind: type[_T], value: Mapping[str, Any]) -> _T:
    """Build the dataclass, each field checked against its declared type; raises ValueError or KeyError.

    A field with a default may be missing: an earlier version did not write it.
    """
    known = [
        f
        for f in fields(kind)  # type: ignore[arg-type]
        if f.name in value or (f.default is MISSING and f.default_factory is MISSING)
    ]
    return kind(**{f.name: _READERS[str(f.type)](value[f.name]) for f in known})


def _exactly(kind: type[_T]) -> Callable[[Any], _T]:
    def read(value: Any) -> _T:
        if type(value) is not kind:
            raise ValueError(f"{value!r} is not {kind.__name__}")
        return value

    return read


_text, _integer, _list, _object = _exactly(str), _exactly(int), _exactly(list), _exactly(dict)

_READERS: dict[str, Callable[[Any], Any]] = {
    "str": _text,
    "str | None": lambda value: None if value is None else _text(value),
    "bool": _exactly(bool),
    "int": _integer,
    "int | None": lambda value: None if value is None else _integer(value),
    "OffsetRanges": lambda value: OffsetRanges(tuple(OffsetRange(*map(_integer, r)) for r in _list(value))),
    "Balance": lambda value: fields_from_json(Balance, value),
    "BatchKind": lambda value: BatchKind(_text(value)),
    "tuple[str, ...]": lambda value: tuple(map(_text, _list(value))),
    "tuple[dict[str, Any], ...]": lambda value: tuple(map(_object, _list(value))),
    "dict[str, str]": lambda value: {key: _text(item) for key, item in _object(value).items()},
    "dict[str, int]": lambda value: {key: _integer(item) for key, item in _object(value).items()},
    "dict[int, int]": lambda value: {int(key): _integer(item) for key, item in _object(value).items()},
    "dict[int, Balance]": lambda value: {
        int(key): fields_from_json(Balance, item) for key, item in _object(value).items()
    },
}
