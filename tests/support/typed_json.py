"""Records over columns of all types that JSON fills, from a random source: mostly right, often odd."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pyarrow as pa

from prove.hostile.json_corpus import SCHEMA, ZONED
from tests.support.damage import HOSTILE_JSON, damaged

_TEXTS = [
    "",
    "a",
    "EUR",
    "customer-0012345",
    "please leave it with neighbour no 7",
    "Zürich",
    "日本語",
    "🙂",
    'q"q',
    "back\\slash",
    "a\tb\nc\x00d",
    "x" * 15,
    "x" * 16,
    "x" * 17,
    "x" * 300,
    "é" * 8,
    "abcd",
    "true",
    "1.5",
    "null",
]
_OF_TEXT = (pa.string(), pa.large_string(), pa.binary(), pa.binary(4))
_ODD_TEXTS = ['"\\ud800"', '"\\udc00\\ud800"', '"\\ud83d\\ude00"', '"\\u0000"', '"\\x"', '"\t"', '"', "'a'"]
_INTEGERS = [
    "0",
    "-0",
    "1",
    "-1",
    "9",
    "2147483647",
    "2147483648",
    "-2147483648",
    "-2147483649",
    "16777217",
    "9007199254740993",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "-9223372036854775809",
    "18446744073709551616",
    "1" + "0" * 22,
    "9" * 38,
    "9" * 39,
    "9" * 400,
]
_FRACTIONS = [
    "0.0",
    "-0.0",
    "2.0",
    "1e400",
    "-1e400",
    "1e-400",
    "1E+2",
    "0e9999",
    "0E-5",
    "1e-999999999",
    "0.1",
    "4.9e-324",
    "2.2250738585072014e-308",
    "1.7976931348623157e308",
    "3.4028235e38",
    "3.4028236e38",
    "1.17549435e-38",
    "1e-46",
    "9007199254740993.0",
    "0.30000000000000004441",
    "5e-1",
    "123.4500",
    "1234567.89",
    "12345678.90",
    "0.125",
    "1" + "0" * 30 + ".5",
    "0." + "0" * 30 + "12345678901234567890123",
    "7.0064923216240853e-46",
    "1.00000017881393421514957253748434595763683319091796875001",
]
_BAD_NUMBERS = ["NaN", "Infinity", "-Infinity", "01", "+1", "1.", ".5", "0x1", "1_0", "--1", "-", "1e", "1e+"]
_ODD_TIMES = [
    "2024-01-01T00:00:00",
    "2024-01-01",
    "2024-02-30T00:00:00Z",
    "2023-02-29",
    "2024-02-29",
    "1900-02-29",
    "2024-01-01T00Z",
    "2024-01-01T00:00-01",
    "2024-01-01T00:00:00.1234567Z",
    "2024-01-01T00:00:00.1234560Z",
    "2024-01-01T00:00:00.123456000000000Z",
    "2016-12-31T23:59:60Z",
    "2024-01-01T24:00:00Z",
    "3000-01-01T00:00:00Z",
    "0000-01-01T00:00:00Z",
    "0000-12-31T23:59:59-01:00",
    "0001-01-01T00:00:00+01:00",
    "0001-01-01T00:00:00Z",
    "9999-12-31T23:59:59.999999Z",
    "9999-12-31T23:59:59-01:00",
    "2024-01-01t00:00:00z",
    "2024-01-01T00:00:00+24:00",
    "20240101T000000Z",
    "2024-01-01T00:00:00,5Z",
    "2024-01-01T00:00:00+00:60",
    "2024-01-01T00:00:00 Z",
    "2024-01-01T00:00:00+0530",
    "2024-01-01 00:00:00+05",
    "2024-01-01T",
    "2024-01-01T00:00:00.",
    "2024-1-1",
    "12:00",
    "12:00:00.5",
    "24:00",
    "23:59:59.999999",
    "12",
    "12:60",
    "1969-12-31T23:59:59.999999",
    "٢٠٢٤-01-01T00:00:00Z",
]
_BLANKS = ["", "", "", "", "", "", "", " ", "\n", "\r\n\t  "]


class Writer:
    """Writes records by a seed; the same seed is the same bytes."""

    def __init__(self, seed: int, schema: pa.Schema = SCHEMA) -> None:
        self._chance = random.Random(seed)
        self._schema = schema

    def records(self, count: int) -> list[bytes]:
        """Return so many records, some of them damaged, in any order."""
        values = [self.record() for _ in range(count - count // 4)]
        values += damaged(values[: count // 4 + 1], self._chance, HOSTILE_JSON)
        self._chance.shuffle(values)
        return values[:count]

    def record(self) -> bytes:
        """Return one, whose every field is odd once in a while."""
        text = self._object(
            [(field.name, field.type) for field in self._schema], share=self._chance.choice((0.05, 0.1, 0.3))
        )
        return f"{self._blank()}{text}{self._blank()}".encode("utf-8", "surrogatepass")

    def _blank(self) -> str:
        return self._chance.choice(_BLANKS)

    def _object(self, fields: list[tuple[str, pa.DataType]], share: float) -> str:
        chance = self._chance
        chosen = [each for each in fields if chance.random() < share]
        if chance.random() < 0.2:
            chance.shuffle(chosen)
        pairs = [
            (json.dumps(name, ensure_ascii=chance.random() < 0.5), self._value(kind)) for name, kind in chosen
        ]
        if chance.random() < 0.05:
            names = [
                '"extra"',
                '"ID"',
                '"fresh"',
                '"\\u0069d"',
                '"_kafka_offset"',
                '"\\ud800"',
                '"id"',
                '"x"',
            ]
            pairs.insert(chance.randint(0, len(pairs)), (chance.choice(names), self._any()))
        colon, comma = f"{self._blank()}:{self._blank()}", f"{self._blank()},{self._blank()}"
        inside = comma.join(f"{name}{colon}{value}" for name, value in pairs)
        return f"{{{self._blank()}{inside}{self._blank()}}}"

    def _any(self) -> str:
        chance = self._chance
        return chance.choice(
            [
                lambda: "null",
                lambda: "[]",
                lambda: "{}",
                lambda: "[null]",
                lambda: '{"a":null,"b":[{},[]]}',
                lambda: '{"a":1,"a":2}',
                lambda: '{"a":null,"a":null}',
                lambda: '[{"b":"\\u00e9"},1.5e3,true]',
                self._text,
                self._number,
                self._moment,
                lambda: "[" * 55 + "]" * 55,
                lambda: "[1,]",
                lambda: "tru",
            ]
        )()

    def _value(self, kind: pa.DataType) -> str:
        chance = self._chance
        odd = chance.random()
        if odd < 0.05:
            return "null"
        if odd < 0.07:
            return self._any()
        if pa.types.is_struct(kind):
            return self._object([(field.name, field.type) for field in kind], share=0.8)
        if pa.types.is_list(kind) or pa.types.is_large_list(kind):
            items = [self._value(kind.value_type) for _ in range(chance.choice((0, 1, 2, 3)))]
            return f"[{self._blank()}{f',{self._blank()}'.join(items)}]"
        if pa.types.is_map(kind):
            keys = [self._text() for _ in range(chance.choice((0, 1, 2, 3)))]
            return f"{{{','.join(f'{key}:{self._value(kind.item_type)}' for key in keys)}}}"
        return self._scalar(kind)()

    def _scalar(self, kind: pa.DataType) -> Callable[[], str]:
        if pa.types.is_boolean(kind):
            return lambda: self._chance.choice(("true", "false", "false", "true", '"true"', "1"))
        if kind in _OF_TEXT:
            return self._text
        if kind == pa.uuid():
            return self._uuid
        if pa.types.is_temporal(kind):
            return lambda: self._moment(kind)
        if pa.types.is_decimal(kind):
            return lambda: f'"{self._number()}"' if self._chance.random() < 0.4 else self._number()
        return lambda: self._number(kind)

    def _number(self, kind: pa.DataType | None = None) -> str:
        chance = self._chance
        odd = chance.random()
        if odd < 0.085:
            return chance.choice(_INTEGERS if odd < 0.04 else _FRACTIONS if odd < 0.08 else _BAD_NUMBERS)
        if kind is not None and pa.types.is_integer(kind):
            most = 10 ** chance.randint(0, 9 if kind == pa.int32() else 18)
            return str(chance.randint(-most, most))
        if odd < 0.6 or kind is None:
            return f"{chance.randint(-(10**9), 10**9) / 100}"
        if odd < 0.9 or kind == pa.float32():
            large = chance.randint(-(2**24), 2**24)
            return str(large) if odd < 0.7 else repr(chance.uniform(-1, 1) * 10.0 ** chance.randint(-30, 30))
        most = 10 ** chance.randint(1, 25)
        return f"{chance.randint(0, most)}.{chance.randint(0, most)}e{chance.randint(-340, 310)}"

    def _text(self) -> str:
        chance = self._chance
        odd = chance.random()
        if odd < 0.02:
            return chance.choice(_ODD_TEXTS)
        if odd < 0.6:
            return json.dumps(chance.choice(_TEXTS), ensure_ascii=odd < 0.3)
        size = chance.randint(0, 40)
        letters = "".join(
            chr(chance.choice((97, 98, 32, 34, 92, 10, 0xE9, 0x20AC, 0x1F642))) for _ in range(size)
        )
        return json.dumps(letters, ensure_ascii=odd < 0.8)

    def _moment(self, kind: pa.DataType = ZONED) -> str:
        chance = self._chance
        if chance.random() < 0.1:
            return json.dumps(chance.choice(_ODD_TIMES), ensure_ascii=False)
        moment = datetime(1, 1, 1, tzinfo=UTC) + timedelta(
            microseconds=chance.randrange(315_537_897_600_000_000)
        )
        if chance.random() < 0.5:
            moment = moment.replace(microsecond=moment.microsecond // 1000 * 1000)
        text = moment.isoformat(chance.choice("T "), chance.choice(("auto", "minutes", "milliseconds")))[:-6]
        if kind == ZONED:
            return f'"{text}{chance.choice(("Z", "Z", "+00:00", "+05:30", "-0800", "+01"))}"'
        if pa.types.is_date(kind):
            return f'"{text[:10]}"'
        return f'"{text[11:]}"' if pa.types.is_time(kind) else f'"{text}"'

    def _uuid(self) -> str:
        chance = self._chance
        digits = f"{chance.getrandbits(128):032x}"
        text = "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
        return f'"{chance.choice((text, text, text, text.upper(), digits, f"{{{text}}}", text[:-1]))}"'
