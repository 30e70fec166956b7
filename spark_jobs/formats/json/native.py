"""JSON objects to columns by WebAssembly: ``native/json.c``, compiled to ``json.wasm`` in this folder.

The values that it takes become exactly the rows that ``block.py`` would make; the others it leaves, each with
a reason. It sees a copy of the values in a memory of its own: a fault ends a call and no task (ADR 52).
"""

from __future__ import annotations

import atexit
import ctypes
import logging
import os
import struct
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import numpy as np
import pyarrow as pa

from spark_jobs.formats.json.nodes import EXPECTED, Columns, Nodes, UnsupportedTypeError, nodes_of

# In the order of ``enum Reason``, behind TAKEN.
REASONS = ("syntax", "unknown_field", "wrong_kind", "number", "time", "characters", "key", "nesting", "limit")
_log = logging.getLogger(__name__)
_MODULE = files(__package__) / "json.wasm"  # tasks elsewhere import this from a zip
_VARIABLE = "SLUICE_NATIVE"
_MAX_CALL_BYTES = 32 << 20  # of values; all of a call must end long before the clock ends it
_MAX_KEPT_BYTES = 64 << 20  # of a sandbox's memory, which never shrinks
_MAX_CALL_TICKS = 4
_TICK_SECONDS = 0.5  # of the process's own time: without a processor nothing is late
_MAX_SCHEMAS = 16
_PAGE_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class Taken:
    """Values as rows, in their order.

    ``left`` has a reason's number, from 1 on, for each value that is not among them, and 0 for the others.
    ``ignored`` counts fields without a column, by dotted name, in the rows.
    """

    table: pa.Table
    left: np.ndarray
    ignored: Mapping[str, int]


def take(
    values: Sequence[bytes], schema: pa.Schema, *, ignores: bool = False, passed: frozenset[str] = frozenset()
) -> Taken | None:
    """Return rows of the values that surely are rows; None if this process or the schema cannot have any.

    Fields that are ``passed`` over are not unknown; with ``ignores`` others without a column are counted.
    Never raises for a value: after a fault of the module the process logs it once, counts the values of the
    call as left, and returns None from then on.
    """
    nodes = _nodes_of(schema, ignores, passed)
    if nodes is None or (sandbox := _sandbox()) is None:
        return None
    taken, left = None, {"fault": len(values)}
    try:
        taken = sandbox.run(values, nodes)
    except (_wasmtime().WasmtimeError, _wasmtime().Trap) as error:
        _give_up(f"the module failed: {str(error).splitlines()[-1].strip()}")
    else:
        counts = [] if taken is None else np.bincount(taken.left, minlength=len(REASONS) + 1)[1:].tolist()
        left = dict(zip(REASONS, counts, strict=False))
    if sandbox.is_large:
        _forget_sandbox()
    _local.left = left_by_reason() + Counter(left)
    return taken


def left_by_reason() -> Counter[str]:
    """Return the number of values left in this thread since it began, by reason."""
    left: Counter[str] = getattr(_local, "left", None) or Counter()
    return left


def why_off() -> str | None:
    """Return why this process decodes without the module; None if it has it."""
    _sandbox()
    return _off


_nodes: list[tuple[bool, frozenset[str], pa.Schema, Nodes | None]] = []


def _nodes_of(schema: pa.Schema, ignores: bool, passed: frozenset[str]) -> Nodes | None:
    """Return a schema's nodes, laid out once; to compare a schema takes less time than to hash it."""
    for of_ignores, of_passed, known, nodes in _nodes:
        if (of_ignores, of_passed) == (ignores, passed) and known.equals(schema, check_metadata=True):
            return nodes
    try:
        made = nodes_of(schema, ignores=ignores, passed=passed)
    except UnsupportedTypeError:
        made = None
    _nodes.insert(0, (ignores, passed, schema, made))
    del _nodes[_MAX_SCHEMAS:]
    return made


class _Engine:
    """The compiled module, shared by the threads of a process; its clock ends calls that run too long."""

    def __init__(self) -> None:
        wasmtime = _wasmtime()
        config = wasmtime.Config()
        config.epoch_interruption = True
        config.parallel_compilation = False  # a forked process would wait for threads that it does not have
        self.engine = wasmtime.Engine(config)
        self.module = wasmtime.Module(self.engine, _MODULE.read_bytes())
        self.pid = os.getpid()
        threading.Thread(target=self._tick, name="sluice-native", daemon=True).start()
        # Else it is closed once wasmtime's own functions are gone, which Python reports on stderr.
        atexit.register(_forget_sandbox)

    def _tick(self) -> None:
        began = time.process_time()
        while True:
            time.sleep(_TICK_SECONDS)
            if (now := time.process_time()) - began > 0.8 * _TICK_SECONDS:
                self.engine.increment_epoch()
                began = now


class _Sandbox:
    """The module with a memory of its own, for one thread.

    Its memory holds, from low to high addresses: what the module declares, the powers of five, a schema's
    nodes, where values end, a reason a value, the values, and the columns that a call appends.
    """

    def __init__(self, engine: _Engine) -> None:
        self.engine = engine
        self._store = _wasmtime().Store(engine.engine)
        exports = _wasmtime().Instance(self._store, engine.module, []).exports(self._store)
        self._memory, self._decode = exports["memory"], exports["decode"]
        self._call, self._ignored_at, base = (
            exports[name].value(self._store) for name in ("call", "ignored", "__heap_base")
        )
        self._powers = _aligned(base)
        powers = powers_of_five()
        self._free = _aligned(self._powers + len(powers))
        self._reach(self._free)
        self._write(self._powers, powers)

    def run(self, values: Sequence[bytes], nodes: Nodes) -> Taken | None:
        """Return the rows; None of values that are too large for one call."""
        ends = np.fromiter(map(len, values), np.int64, len(values)).cumsum()
        if ends[-1] > _MAX_CALL_BYTES:
            return None
        placed = nodes.placed(self._free)
        at_ends = _aligned(self._free + len(placed))
        at_left = at_ends + 4 * len(values)
        at_values = at_left + len(values)
        # A name may be compared with what is behind the values.
        start = _aligned(at_values + int(ends[-1]) + len(nodes.tail))
        self._reach(start)
        self._write(self._free, placed)
        self._write(at_ends, ends.astype(np.uint32).tobytes())
        self._write(at_values, b"".join(values))
        call = self._free, len(nodes.words), self._powers, at_values, at_ends, len(values), at_left, start
        self._write(self._call, struct.pack("<8I", *call))
        self._store.set_epoch_deadline(_MAX_CALL_TICKS)
        self._decode(self._store)
        end, ignored = struct.unpack("<28x2I", self._read(self._call, 36))
        words = np.frombuffer(self._read(self._free, nodes.words.nbytes), np.uint32)
        words = words.reshape(nodes.words.shape)
        nodes.words[:, EXPECTED] = words[:, EXPECTED]
        found: list[list[int]] = words.tolist()  # type: ignore[assignment]
        columns = Columns(self._read(start, _aligned(end) - start), start, found)
        left = np.frombuffer(self._read(at_left, len(values)), np.uint8)
        return Taken(columns.table(nodes), left, self._ignored(nodes, ignored))

    def _ignored(self, nodes: Nodes, size: int) -> Mapping[str, int]:
        counts: Counter[str] = Counter()
        for node, at, length, count in struct.iter_unpack("<4I", self._read(self._ignored_at, 16 * size)):
            name = self._read(at, length).to_pybytes().decode()
            counts[".".join((*nodes.paths[node], name))] += count
        return +counts

    @property
    def is_large(self) -> bool:
        """True if it has grown beyond what a task keeps between calls."""
        return bool(self._memory.data_len(self._store) > _MAX_KEPT_BYTES)

    def _reach(self, end: int) -> None:
        missing = end - self._memory.data_len(self._store)
        if missing > 0:
            self._memory.grow(self._store, -(-missing // _PAGE_BYTES))

    def _write(self, at: int, data: bytes) -> None:
        ctypes.memmove(self._address + at, data, len(data))

    def _read(self, at: int, size: int) -> pa.Buffer:
        copied = pa.allocate_buffer(size)
        ctypes.memmove(copied.address, self._address + at, size)
        return copied

    @property
    def _address(self) -> int:
        return ctypes.addressof(self._memory.data_ptr(self._store).contents)


def _aligned(address: int) -> int:
    """Return the next address from which Arrow's columns may begin; words may be read up to there."""
    return address + 127 & ~63


_EXACT = -27  # 5^27 has 63 bits


def powers_of_five() -> bytes:
    """Return the 128 highest bits of 5^-342 to 5^308, as ``nearest`` in json.c takes them (Lemire, 2021)."""
    powers = bytearray()
    for exponent in range(-342, 309):
        power = 5 ** abs(exponent)
        if exponent < 0:  # rounded up where a product of 64 bits can be exact
            bits = power.bit_length()
            power = (1 << (127 if exponent >= _EXACT else 128 + bits) + bits) // power + 1
        powers += (power << 128 >> power.bit_length()).to_bytes(16, "little")
    return bytes(powers)


_local = threading.local()
_starting = threading.Lock()
_engines: list[_Engine] = []  # a forked process leaves its parent's alone, whose threads it does not have
_off: str | None = None


def _sandbox() -> _Sandbox | None:
    """Return this thread's sandbox, which its first call in a process makes; None where there is none."""
    sandbox: _Sandbox | None = getattr(_local, "sandbox", None)
    if _off is None and (sandbox is None or sandbox.engine.pid != os.getpid()):
        sandbox = _local.sandbox = _start()
    return None if _off else sandbox


def _start() -> _Sandbox | None:
    if os.environ.get(_VARIABLE) == "0":
        _give_up(f"{_VARIABLE} is 0", logging.DEBUG)
        return None
    try:
        with _starting:
            if not _engines or _engines[-1].pid != os.getpid():
                _engines.append(_Engine())
            return _Sandbox(_engines[-1])
    except ImportError as error:
        _give_up(f"wasmtime cannot be imported: {error}", logging.INFO)
    except (_wasmtime().WasmtimeError, OSError) as error:
        _give_up(f"the module cannot start: {error}")
    return None


def _forget_sandbox() -> None:
    _local.sandbox = None


def _give_up(why: str, level: int = logging.WARNING) -> None:
    global _off  # noqa: PLW0603  (a process's, as its engine is)
    _off = why
    _log.log(level, "JSON is decoded without WebAssembly, two to three times slower: %s", why)


def _wasmtime() -> Any:
    import wasmtime  # noqa: PLC0415  (a tenth of a second, for processes that decode)

    return wasmtime
