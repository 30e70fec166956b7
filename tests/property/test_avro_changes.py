"""Events in Avro, whole and damaged in every way: one row by both decoders, of whole ones that of JSON."""

from __future__ import annotations

import random
from base64 import b64encode
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings

from prove.lab.debezium_events import DATA, TIME, Column, Source, decimal
from spark_jobs.config.columns import GROWTH
from tests.support.change_rows import chunk_of
from tests.support.damage import EXAMPLES, SEEDS, VALUES, damaged
from tests.unit.test_avro_changes import TOPIC, Both, framed

if TYPE_CHECKING:
    from collections.abc import Callable

_LONG, _NULLS = 1 << 63, 0.2
_SCALED = [Column("int32", optional=False).schema("scale"), Column("bytes", optional=False).schema("value")]
COLUMNS = {
    "exact": decimal(9, 2),
    "wide": decimal(50, 4),
    "free": Column("struct", f"{DATA}VariableScaleDecimal", {"fields": _SCALED}),
    "day": Column("int32", f"{TIME}Date"),
    "at": Column("int64", f"{TIME}MicroTimestamp"),
    "at_ms": Column("int64", "org.apache.kafka.connect.data.Timestamp"),
    "clock": Column("int32", "org.apache.kafka.connect.data.Time"),
    "zoned": Column("string", f"{TIME}ZonedTimestamp"),
    "uid": Column("string", f"{DATA}Uuid"),
    "text": Column("string"),
    "raw": Column("bytes"),
    "single": Column("float"),
    "ratio": Column("double"),
    "is_on": Column("boolean"),
    "small": Column("int16"),
    "days": Column("array", None, {"items": Column("int32", f"{TIME}Date").schema("")}),
    "tags": Column("map", None, {"keys": {"type": "string"}, "values": Column("bytes").schema("")}),
}
HOSTILE = [b"\x80" * 9 + b"\0", b"\xff" * 12, b"\x02", b"\x01\x02", b"\xc3\x28", b"\xfe\xff\xff\xff\x0f"]


class Made:
    """Rows of some of the columns, with values in them and past what a column holds."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        names = chance.sample([*COLUMNS], chance.randint(1, 6))
        self.source = Source(
            {"id": Column("int64", optional=False), **{name: COLUMNS[name] for name in names}}
        )

    def record(self, at: int) -> tuple[bytes | None, bytes]:
        """Return an event, and the key of its row."""
        op = self._chance.choice("cccurdt")
        number = self._chance.randint(-_LONG, _LONG - 1)
        row = {"id": number, **{name: self._value(name) for name in self.source.columns if name != "id"}}
        key = None if op == "t" or self._chance.random() < 0.05 else self.source.key(number)
        return key, self.source.event(op, None if op in "dt" else row, lsn=100 + at)

    def _value(self, name: str) -> Any:
        column, chance = self.source.columns[name], self._chance
        made: dict[str, Callable[[], Any]] = {
            "int16": lambda: chance.randint(-(1 << 15), (1 << 15) - 1),
            "int32": lambda: chance.choice([0, 19_000, 86_399_999, (1 << 31) - 1]),
            "int64": lambda: chance.choice([chance.randint(0, 10**12), -_LONG]),
            "bytes": self._bytes,
            "struct": lambda: {"scale": chance.randint(-3, 9), "value": self._bytes()},
            "array": lambda: chance.choices([None, 0, 19_000], k=chance.randint(0, 3)),
            "map": lambda: {str(each): chance.choice([None, self._bytes()]) for each in range(3)},
            "boolean": lambda: chance.random() < 0.5,
            "string": lambda: chance.choice([*_TEXTS[name], "", "infinity", "ü\n中"]),
            "float": lambda: chance.choice([0.1, -0.0, 1e30, "NaN", "-Infinity"]),
            "double": lambda: chance.choice([0.1, -0.0, 1e300, "NaN", "Infinity"]),
        }
        return None if chance.random() < _NULLS else made[column.type]()

    def _bytes(self) -> str:
        return b64encode(self._chance.randbytes(self._chance.randint(0, 6))).decode()


_TEXTS = {
    "zoned": ["2024-02-29T12:00:00.123456Z", "2024-02-29T12:00:00.1234567Z"],
    "uid": ["0b4f6d4e-7b1a-4b0e-9d8b-0a1b2c3d4e5f"],
    "text": ["__debezium_unavailable_value", '"\\'],
}


@settings(max_examples=EXAMPLES // 4)
@given(SEEDS)
def test_every_event_is_the_row_that_it_is_in_json_and_a_damaged_one_alike_by_both_decoders(
    seed: int,
) -> None:
    """Or no row: each as among others, so by itself."""
    chance = random.Random(seed)
    made, both = Made(chance), Both()
    records = [made.record(at) for at in range(VALUES)]
    both.drain([(made.source.key(0), made.source.event("c", {"id": 0})), *records])
    written = [
        (both.converter.convert(TOPIC, "key", key), both.converter.convert(TOPIC, "value", value))
        for key, value in records
    ]
    for part in (0, 1):
        whole = [each[part] or framed(1) for each in written]
        bare = damaged([each[5:] for each in whole], chance, HOSTILE)
        harmed = [whole[at // 6][:5] + each for at, each in enumerate(bare)]
        chunk = chunk_of(
            [
                (each, written[at // 6][1]) if part == 0 else (written[at // 6][0], each)
                for at, each in enumerate(harmed)
            ]
        )
        known = both.avro.format()
        decoded = known.decoder.decode(chunk, both.avro.columns, GROWTH.ended())
        plain = known.plain.decode(chunk, both.avro.columns)
        assert sorted([*decoded.indices, *(each.index for each in decoded.bad)]) == [*range(len(harmed))]
        assert sorted(plain.rows) == list(decoded.indices)
        said = dict(zip(plain.rows, plain.table.to_pylist(), strict=True))
        assert repr(decoded.table.to_pylist()) == repr([said[index] for index in decoded.indices])
