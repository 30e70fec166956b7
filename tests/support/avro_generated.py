"""Avro schemas of any shape, and values of them, as chance has it."""

from __future__ import annotations

import struct
import uuid
from itertools import count
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import random

_PLAIN = ("boolean", "int", "long", "float", "double", "bytes", "string")
_TIMESTAMPS = [
    f"{local}timestamp-{unit}" for local in ("", "local-") for unit in ("millis", "micros", "nanos")
]
_LOGICAL = (
    ("int", "date"),
    ("int", "time-millis"),
    ("long", "time-micros"),
    *(("long", each) for each in _TIMESTAMPS),
    ("string", "uuid"),
)
_TIMES = (
    *(0, 1, -1, 999, 1000, 86_399_999, 86_400_000, 86_399_999_999, 86_400_000_000, 1_767_225_600_123),
    *(-719_162, -719_163, 2_932_896, 2_932_897, 253_402_300_799_999, 253_402_300_800_000),
    *(-62_135_596_800_000, -62_135_596_800_001, 253_402_300_799_999_999, 253_402_300_800_000_000),
    *(-62_135_596_800_000_000, -62_135_596_800_000_001, 1_767_225_600_123_456_000, 2**63 - 1, -(2**63)),
)
_LOGICAL_SIZES = {12: "duration", 16: "uuid"}
_DOUBLES = (0.0, -0.0, 1.5, float("inf"), float("-inf"), float("nan"), 5e-324)
_LEVELS = 6


def branch_name(schema: Any) -> str:
    """Return by what a union knows its branch."""
    return schema if isinstance(schema, str) else schema.get("name", schema["type"])


def named_types(schema: Any, found: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return what a schema says of each of its named types."""
    found = {} if found is None else found
    if isinstance(schema, list):
        for each in schema:
            named_types(each, found)
    elif isinstance(schema, dict):
        if "name" in schema:
            found[schema["name"]] = schema
        fields = (each["type"] for each in schema.get("fields", ()))
        for inner in (schema.get("items"), schema.get("values"), *fields):
            named_types(inner, found)
    return found


class RandomSchema:
    """``text`` is it as JSON has it, ``named`` its named types; ``value`` makes one of it."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._names = (f"n{number}" for number in count())
        self._done: list[str] = []
        self.text = self._record(3, ()) if chance.random() < 0.9 else self._any(2, ())
        self.named = named_types(self.text)

    def value(self) -> Any:
        """Return a value as fastavro's writer takes it."""
        return self._value(self.text, _LEVELS)

    def _any(self, depth: int, around: tuple[str, ...]) -> Any:  # noqa: PLR0911  (a line for each type)
        if depth == 0:
            return self._leaf()
        match self._chance.randrange(12):
            case 0 | 1:
                return self._record(depth - 1, around)
            case 2:
                return {"type": "array", "items": self._any(depth - 1, around)}
            case 3:
                return {"type": "map", "values": self._any(depth - 1, around)}
            case 4 | 5 | 6:
                member = self._any(depth - 1, around)
                if isinstance(member, list) or member == "null":
                    return member
                return ["null", member] if self._chance.random() < 0.5 else [member, "null"]
            case 7:
                return self._union(depth - 1, around)
            case 8 if around and self._chance.random() < 0.5:
                return ["null", self._chance.choice(around)]
            case 9 if self._chance.random() < 0.5:
                return "null"
        return self._leaf()

    def _union(self, depth: int, around: tuple[str, ...]) -> Any:
        types = [each for each in (self._any(depth, around) for _ in range(3)) if not isinstance(each, list)]
        members = {branch_name(each): each for each in types if each != "null"}
        branches = [*members.values()] or ["int"]
        if self._chance.random() < 0.5:
            branches.append("null")
        return self._chance.sample(branches, len(branches))

    def _record(self, depth: int, around: tuple[str, ...]) -> Any:
        name = next(self._names)
        fields = [
            {"name": f"f{position}", "type": self._any(depth, (*around, name))}
            for position in range(self._chance.randint(0, 4))
        ]
        self._done.append(name)
        return {"type": "record", "name": name, "fields": fields}

    def _leaf(self) -> Any:  # noqa: PLR0911  (a line for each type)
        chance = self._chance
        match chance.randrange(10):
            case 0:
                base, logical = chance.choice(_LOGICAL)
                return {"type": base, "logicalType": logical}
            case 1:
                symbols = ["red", "green", "blue"][: chance.randint(1, 3)]
                return {"type": "enum", "name": self._new(), "symbols": symbols}
            case 2:
                size = chance.choice([1, 4, 12, 16, 1025])
                fixed = {"type": "fixed", "name": self._new(), "size": size}
                is_logical = size in _LOGICAL_SIZES and chance.random() < 0.5
                return fixed | ({"logicalType": _LOGICAL_SIZES[size]} if is_logical else {})
            case 3:
                precision = chance.choice([1, 5, 18, 19, 38, 39, 60])
                decimal = {
                    "logicalType": "decimal",
                    "precision": precision,
                    "scale": chance.randint(0, precision),
                }
                if chance.random() < 0.5:
                    return {"type": "bytes"} | decimal
                return {"type": "fixed", "name": self._new(), "size": 26} | decimal
            case 4 if self._done:
                return chance.choice(self._done)
        return chance.choice(_PLAIN)

    def _new(self) -> str:
        self._done.append(next(self._names))
        return self._done[-1]

    def _value(self, schema: Any, levels: int) -> Any:
        chance = self._chance
        if isinstance(schema, str) and schema in self.named:
            schema = self.named[schema]
        if isinstance(schema, list):
            if "null" in schema and (levels <= 0 or chance.random() < 0.25):
                return None
            branch = chance.choice([each for each in schema if each != "null"])
            return (branch_name(branch), self._value(branch, levels - 1))
        kind = schema if isinstance(schema, str) else schema["type"]
        items = range(chance.randint(0, 3) if levels > 0 else 0)
        match kind:
            case "record":
                return {each["name"]: self._value(each["type"], levels - 1) for each in schema["fields"]}
            case "array":
                return [self._value(schema["items"], levels - 1) for _ in items]
            case "map":
                return {self._text(3): self._value(schema["values"], levels - 1) for _ in items}
        return self._leaf_value(kind, schema if isinstance(schema, dict) else {})

    def _leaf_value(self, kind: str, more: Any) -> Any:  # noqa: PLR0911  (a line for each type)
        chance = self._chance
        logical = more.get("logicalType")
        match kind:
            case "null":
                return None
            case "boolean":
                return chance.random() < 0.5
            case "int" | "long":
                return self._integer(31 if kind == "int" else 63, is_time=logical is not None)
            case "float":
                return (
                    struct.unpack("<f", chance.randbytes(4))[0]
                    if chance.random() < 0.5
                    else chance.choice(_DOUBLES[:-1])
                )
            case "double":
                return (
                    struct.unpack("<d", chance.randbytes(8))[0]
                    if chance.random() < 0.5
                    else chance.choice(_DOUBLES)
                )
            case "enum":
                return chance.choice(more["symbols"])
            case "string":
                return str(uuid.UUID(int=chance.getrandbits(128))) if logical == "uuid" else self._text(20)
        if logical == "decimal":
            return self._decimal(more["precision"], more.get("size"))
        return chance.randbytes(more.get("size", chance.randint(0, 20)))

    def _integer(self, bits: int, *, is_time: bool) -> int:
        times = [each for each in _TIMES if -(1 << bits) <= each < 1 << bits]
        if is_time and self._chance.random() < 0.7:
            return self._chance.choice(times)
        size = self._chance.randint(1, bits)
        return self._chance.randint(-(1 << size), (1 << size) - 1)

    def _decimal(self, precision: int, size: int | None) -> bytes:
        most = 10 ** self._chance.randint(0, precision)
        number = self._chance.randint(-most, most)
        return number.to_bytes(size or number.bit_length() // 8 + 1, "big", signed=True)

    def _text(self, most: int) -> str:
        return "".join(self._chance.choices('aB1 é😀"\0\n', k=self._chance.randint(0, most)))
