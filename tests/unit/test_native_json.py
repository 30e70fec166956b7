"""The WebAssembly module: what it takes, what it leaves, and that its faults end no task."""

from __future__ import annotations

import json
import logging
import os
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from prove.hostile.json_corpus import SCHEMA
from spark_jobs.config.columns import Growth, NewFields
from spark_jobs.formats.json import native
from spark_jobs.formats.json.block import decode_chunk
from spark_jobs.formats.json.native import REASONS, left_by_reason, take
from tests.support.faulty_module import LOOP, TRAP, faulty_module

ID = pa.schema([("id", pa.int64())])
GOOD = b'{"id":1}'


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A process that has not started the module."""
    for name, empty in (("_engines", []), ("_local", type(native._local)()), ("_off", None)):
        monkeypatch.setattr(native, name, empty)
    return monkeypatch


def _left(*values: bytes, schema: pa.Schema = ID) -> list[str]:
    taken = take(values, schema)
    assert taken is not None
    return [REASONS[number - 1] if number else "" for number in taken.left.tolist()]


@pytest.mark.parametrize("count", [1, 7, 8, 9, 63, 64, 65, 1000])
def test_rows_are_whole_for_any_number_of_them(count: int) -> None:
    """Bits, offsets and null counts fit, at the edges of words too, and inside of nulls and lists."""
    rows = [
        {
            "id": n if n % 3 else None,
            "ok": n % 2 == 0 if n % 5 else None,
            "name": "é" * (n % 40) if n % 4 else None,
            "point": {"x": n, "at": None, "names": [None, "a"] * (n % 3)} if n % 7 else None,
            "points": [{"x": 1, "at": None, "names": None}, None] * (n % 3),
            "by_key": [("a", n), ("", None)] if n % 2 else None,
            "price": Decimal(n) / 100,
        }
        for n in range(count)
    ]
    schema = pa.schema([SCHEMA.field(name) for name in rows[0]])
    taken = take([json.dumps(_as_json(row)).encode() for row in rows], schema)
    assert taken is not None
    taken.table.validate(full=True)
    assert not taken.left.any()
    assert taken.table.to_pylist() == rows


def _as_json(row: dict[str, object]) -> dict[str, object]:
    by_key = row["by_key"]
    return {**row, "by_key": by_key and dict(by_key), "price": str(row["price"])}  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"", "wrong_kind"), (b"[]", "wrong_kind"), (b'{"id":1', "syntax"), (b'{"id":01}', "syntax"),
        (b'{"id":1}{"id":2}', "syntax"), (b'{"id":1}\0', "syntax"), (b'{"id":1,"x":2}', "unknown_field"),
        (b'{"id":"1"}', "syntax"), (b'{"id":9223372036854775808}', "number"), (b'{"id":1e2}', "number"),
        (b'{"id":1,"id":2}', "key"), (b'{"\\u0069d":1}', "key"), (b'{"x":null,"x":null}', "key"),
        (b'{"x":' + b"[" * 60 + b"]" * 60 + b"}", "nesting"), (b'{"\xff":null}', "characters"),
    ],
)  # fmt: skip
def test_a_value_that_is_left_has_a_reason(value: bytes, reason: str) -> None:
    """Between good values, which are taken whatever is beside them."""
    assert _left(GOOD, value, GOOD) == ["", reason, ""]


def test_fields_that_are_ignored_are_counted_by_their_path_in_rows_alone() -> None:
    """What a record that is left has ignored is not counted; a null says nothing."""
    schema = pa.schema([("id", pa.int64()), ("in", pa.struct([("a", pa.int64())]))])
    values = [
        b'{"id":1,"x":{"y":[1,null]},"in":{"a":1,"b":true}}',
        b'{"x":2,"id":2,"z":null}',
        b'{"x":3,"id":"bad"}',
    ]
    taken = take(values, schema, ignores=True, passed=frozenset({"elsewhere"}))
    assert taken is not None
    assert taken.left.astype(bool).tolist() == [False, False, True]
    assert taken.ignored == {"x": 2, "in.b": 1}
    decoded = decode_chunk(values, schema, Growth(new_fields=NewFields.IGNORE))
    assert (decoded.rows, decoded.ignored) == ([0, 1], {"x": 2, "in.b": 1})


def test_what_is_left_is_decoded_in_its_place() -> None:
    """Rows stand in the order of their records, whichever way read them; bad values keep their index."""
    values = [b'{"id":%d}' % n if n % 3 else b'{"id": 0.%d}' % n for n in range(20)]
    values[5] = b' {"\\u0069d":5} '
    before = left_by_reason()
    decoded = decode_chunk(values, ID)
    rows = [n for n in range(20) if n % 3]
    assert decoded.rows == rows
    assert decoded.table.column("id").to_pylist() == rows
    assert [bad.index for bad in decoded.unread] == [n for n in range(20) if not n % 3]
    assert left_by_reason() - before == Counter(number=7, key=1)


def test_a_type_without_a_node_is_left_to_the_other_way() -> None:
    """A column that the module has no kind for, or a name with a quote, leaves the schema."""
    assert take([GOOD], pa.schema([("id", pa.json_())])) is None
    assert take([GOOD], pa.schema([('a"b', pa.int64())])) is None
    assert take([b'{"id":"%s"}' % (b"x" * (33 << 20))], pa.schema([("id", pa.string())])) is None


def test_a_struct_without_fields_has_rows_too() -> None:
    """Whatever is written in it: a field that says something is unknown, none is a row."""
    schema = pa.schema([("id", pa.int64()), ("in", pa.struct([]))])
    values = [b'{"in":{"fresh":[1]}}', b'{"in":{"fresh":null},"id":1}', b'{"in":{}}']
    assert _left(*values, schema=schema) == ["unknown_field", "", ""]


@pytest.mark.parametrize("body", [LOOP, TRAP])
def test_a_fault_ends_in_time_and_is_logged_once(
    body: str, fresh: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The chunk is decoded the other way and counted once, and so are all after it."""
    module = tmp_path / "json.wasm"
    module.write_bytes(faulty_module(body))
    fresh.setattr(native, "_MODULE", module)
    before, began = left_by_reason(), time.monotonic()
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert decode_chunk([GOOD], ID).table.to_pylist() == [{"id": 1}]
    assert time.monotonic() - began < 10  # two seconds, on a machine with much else to do
    assert left_by_reason() - before == Counter(fault=1)
    assert ["the module failed" in record.message for record in caplog.records] == [True]
    assert (native.why_off() or "").startswith("the module failed")


def test_a_call_that_waits_for_a_processor_is_no_fault(fresh: pytest.MonkeyPatch) -> None:
    """However long it takes, as long as its process does not work for as long."""
    fresh.setattr(native, "_TICK_SECONDS", 0.0001)
    fresh.setattr(time, "process_time", lambda: 1.0)
    assert take([GOOD] * 200_000, ID) is not None
    assert native.why_off() is None


def test_without_the_module_all_is_decoded(fresh: pytest.MonkeyPatch) -> None:
    """By a variable, and where wasmtime cannot be had."""
    fresh.setenv("SLUICE_NATIVE", "0")
    assert decode_chunk([GOOD], ID).table.to_pylist() == [{"id": 1}]
    assert native.why_off() == "SLUICE_NATIVE is 0"
    fresh.delenv("SLUICE_NATIVE")
    fresh.setattr(native, "_off", None)
    fresh.setattr(native, "_wasmtime", lambda: __import__("no_wasmtime"))
    assert take([GOOD], ID) is None
    assert "no_wasmtime" in (native.why_off() or "")


def test_threads_and_forked_processes_have_sandboxes_of_their_own() -> None:
    """Each thread's rows are its own; a process that was forked while it ran starts it again."""
    values = [[b'{"id":%d}' % (n + at) for n in range(500)] for at in range(8)]
    with ThreadPoolExecutor(4) as threads:
        taken = list(threads.map(lambda each: decode_chunk(each, ID).table, values * 3))
    assert [table.column("id")[0].as_py() for table in taken] == [*range(8)] * 3
    pid = os.fork()
    if not pid:
        os._exit(0 if take([GOOD], ID) is not None and native.why_off() is None else 1)
    assert os.waitpid(pid, 0)[1] == 0


def test_a_memory_that_grew_is_given_back(fresh: pytest.MonkeyPatch) -> None:
    """A chunk of long texts leaves nothing behind in the process."""
    fresh.setattr(native, "_MAX_KEPT_BYTES", 1 << 20)
    long = pa.schema([("id", pa.string())])
    assert take([b'{"id":"%s"}' % (b"x" * (2 << 20))], long) is not None
    assert native._local.sandbox is None
    assert take([b'{"id":"a"}'], long) is not None
    assert native._local.sandbox is not None
