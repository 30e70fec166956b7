"""Records of other shapes: wide, nested and tiny ones, drained and read by the bare loop."""

from __future__ import annotations

import functools
import json
from typing import Any

import pyarrow as pa

from bench.catch_up import CatchUpResult, measure_catch_up
from bench.lab import Lab
from bench.records import Shape

# Making JSON takes longer than reading it, so all but a record's number comes from a few ready endings.
_ENDINGS = 997
_INTEGERS, _DOUBLES, _STRINGS, _BOOLEANS = 80, 60, 50, 9  # with the number: 200 fields
_STREETS = ("Harbour Road", "Mill Lane", "Station Street", "Castle Square", "Orchard Way")


def wide_values(first: int, count: int) -> list[bytes]:
    """Flat records of 200 fields."""
    endings = _wide_endings()
    return [b'{"n":%d,%b' % (n, endings[n % _ENDINGS]) for n in range(first, first + count)]


def nested_values(first: int, count: int) -> list[bytes]:
    """Orders with a customer inside, an address in it, and a list of lines."""
    endings = _nested_endings()
    return [b'{"n":%d,%b' % (n, endings[n % _ENDINGS]) for n in range(first, first + count)]


def tiny_values(first: int, count: int) -> list[bytes]:
    """Records of two numbers and about 20 bytes."""
    return [b'{"n":%d,"v":%d}' % (n, n % 97) for n in range(first, first + count)]


WIDE = Shape(
    "wide",
    pa.schema(
        [
            ("n", pa.int64()),
            *((f"integer_{i:02d}", pa.int64()) for i in range(_INTEGERS)),
            *((f"double_{i:02d}", pa.float64()) for i in range(_DOUBLES)),
            *((f"string_{i:02d}", pa.string()) for i in range(_STRINGS)),
            *((f"boolean_{i:02d}", pa.bool_()) for i in range(_BOOLEANS)),
        ]
    ),
    wide_values,
)
NESTED = Shape(
    "nested",
    pa.schema(
        {
            "n": pa.int64(),
            "customer": pa.struct(
                {
                    "name": pa.string(),
                    "address": pa.struct(
                        {"street": pa.string(), "number": pa.int64(), "latitude": pa.float64()}
                    ),
                }
            ),
            "lines": pa.list_(
                pa.struct(
                    {
                        "sku": pa.string(),
                        "quantity": pa.int64(),
                        "price": pa.float64(),
                        "tags": pa.list_(pa.string()),
                    }
                )
            ),
            "gift": pa.bool_(),
        }
    ),
    nested_values,
)
TINY = Shape("tiny", pa.schema({"n": pa.int64(), "v": pa.int64()}), tiny_values)
# Each with how many of the part's records it gets, so that all take about equally long.
SHAPES = ((WIDE, 0.05), (NESTED, 0.25), (TINY, 2.0))


def measure_shapes(
    lab: Lab, records: int, shapes: tuple[tuple[Shape, float], ...] = SHAPES
) -> dict[str, CatchUpResult]:
    """Drain each shape and read it by the bare loop, by name."""
    return {
        shape.name: measure_catch_up(lab, int(records * part), rounds=1, shape=shape)
        for shape, part in shapes
    }


@functools.cache
def _wide_endings() -> tuple[bytes, ...]:
    return tuple(_ending(_wide_fields(k)) for k in range(_ENDINGS))


def _wide_fields(k: int) -> dict[str, Any]:
    return (
        {f"integer_{i:02d}": (k + 1) * (i + 3) * 7919 % 99_991 for i in range(_INTEGERS)}
        | {f"double_{i:02d}": ((k + i) * 31 % 9973) / 8 + 0.0625 for i in range(_DOUBLES)}
        | {f"string_{i:02d}": f"value {(k * (i + 1)) % 1009}" for i in range(_STRINGS)}
        | {f"boolean_{i:02d}": (k + i) % 3 == 0 for i in range(_BOOLEANS)}
    )


@functools.cache
def _nested_endings() -> tuple[bytes, ...]:
    return tuple(_ending(_nested_fields(k)) for k in range(_ENDINGS))


def _nested_fields(k: int) -> dict[str, Any]:
    lines = [
        {
            "sku": f"SKU-{(k * 17 + i) % 9973:05d}",
            "quantity": (k + i) % 9 + 1,
            "price": (k * (i + 7) % 4999) / 8 + 0.0625,
            "tags": [f"tag-{(k + j) % 23}" for j in range(i + 1)],
        }
        for i in range(3)
    ]
    address = {"street": _STREETS[k % 5], "number": k % 300, "latitude": 40 + k / 64 + 0.015625}
    return {
        "customer": {"name": f"customer-{k * 31 % 200_003:06d}", "address": address},
        "lines": lines,
        "gift": k % 11 == 0,
    }


def _ending(fields: dict[str, Any]) -> bytes:
    """A JSON object without its opening brace."""
    return json.dumps(fields, separators=(",", ":")).encode()[1:]
