"""The C that decodes JSON under the compiler's sanitizers, beside the module of it that tasks run."""

from __future__ import annotations

import shutil
import struct
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import pyarrow as pa

from prove.hostile.json_corpus import CORPUS, SCHEMA, corpus
from prove.lab.kafka_server import unique_name
from prove.lab.left_out import LeftOut
from prove.scenario import Findings, scenario_on
from prove.workload import Testbed
from servers.cache import user_cache
from spark_jobs.formats.json.native import powers_of_five, take
from spark_jobs.formats.json.nodes import Columns, Nodes, nodes_of

_SOURCE = CORPUS.parent / "sanitized"
_FLAGS = ("-std=gnu11", "-O1", "-g", "-fno-sanitize-recover=all", "-Wno-attributes", "-I", str(_SOURCE))
_MEMORY = 0x60000000  # as main.c says
_AT_ONCE = 5_000
_LONG_BYTES = 200  # of what is too long to be damaged at each byte
_HOSTILE = (
    b'"',
    b"\\",
    b"{",
    b"}",
    b"[",
    b"]",
    b":",
    b",",
    b"0",
    b"-",
    b".",
    b"e",
    b" ",
    b"\0",
    b"\x80",
    b"\xf0",
)


def values() -> Iterator[bytes]:
    """Yield the corpus; and its values cut behind each byte, and with each byte replaced by hostile ones."""
    for _, value in corpus():
        yield value
        for at in range(len(value) if len(value) < _LONG_BYTES else 0):
            yield value[:at]
            yield from (value[:at] + byte + value[at + 1 :] for byte in _HOSTILE)


def build(folder: Path) -> tuple[Path, str]:
    """Return the program, built with the sanitizers that there are, and their names; or raise ``LeftOut``."""
    program = folder / "sanitized"
    said = "no C compiler: install gcc or clang, or run `./sluice native --build`, which fetches one"
    for command, sanitizers in _compilers():
        ordered = [*command, *_FLAGS, f"-fsanitize={sanitizers}", str(_SOURCE / "main.c"), "-o", str(program)]
        ended = subprocess.run(ordered, capture_output=True, text=True, check=False)
        if not ended.returncode:
            return program, f"{Path(command[0]).name} -fsanitize={sanitizers}"
        said = f"{command[0]} builds no program: {ended.stderr.strip()[-200:]}"
    raise LeftOut(said)


def _compilers() -> Iterator[tuple[tuple[str, ...], str]]:
    there = [(found,) for name in ("gcc", "clang", "cc") if (found := shutil.which(name))]
    yield from ((command, "address,undefined") for command in there)
    # The locked compiler, where it was fetched; it brings no runtime for addresses.
    for zig in (user_cache() / "tools").glob("ziglang-*/ziglang/zig"):
        yield (str(zig), "cc"), "undefined"
    yield from ((command, "undefined") for command in there)


def differences(program: Path, chunks: Sequence[Sequence[bytes]], *, ignores: bool) -> tuple[int, str]:
    """Return how many values the program took or left otherwise than the module, and a sanitizer's report."""
    passed = frozenset({"extra"} if ignores else ())
    nodes = nodes_of(SCHEMA, ignores=ignores, passed=passed)
    made = [_Call.of(chunk, nodes) for chunk in chunks]
    calls = program.with_suffix(".calls")
    calls.write_bytes(
        b"".join(struct.pack("<9I", len(call.memory), *call.words) + call.memory for call in made)
    )
    ended = subprocess.run([program, calls], capture_output=True, check=False)
    if ended.returncode:
        lines = ended.stderr.decode(errors="replace").splitlines()
        return 0, next(
            (line.strip() for line in lines if "error" in line.lower()), f"it ended with {ended.returncode}"
        )
    answers, at, differ = pa.py_buffer(ended.stdout), 0, 0
    for chunk, call in zip(chunks, made, strict=True):
        (size,) = struct.unpack_from("<I", ended.stdout, at)
        left, table = call.rows(answers.slice(at + 4, size), nodes)
        taken = take(chunk, SCHEMA, ignores=ignores, passed=passed)
        assert taken is not None
        differ += int((left != taken.left).sum()) or int(not table.equals(taken.table))
        at += 4 + size
    return differ, ""


@dataclass(frozen=True, slots=True)
class _Call:
    """The memory that a call finds, and the words that tell where in it what is."""

    memory: bytes
    words: tuple[int, ...]

    @classmethod
    def of(cls, chunk: Sequence[bytes], nodes: Nodes) -> Self:
        memory = bytearray()

        def put(piece: bytes) -> int:
            memory.extend(piece)
            memory.extend(bytes(-len(memory) % 64))
            return _MEMORY + len(memory)

        at_nodes = put(powers_of_five())
        at_ends = put(nodes.placed(at_nodes))
        at_left = put(np.fromiter(map(len, chunk), np.uint32, len(chunk)).cumsum(dtype=np.uint32).tobytes())
        at_values = put(bytes(len(chunk)))
        start = put(b"".join(chunk) + bytes(len(nodes.tail) + 64))
        words = at_nodes, len(nodes.words), _MEMORY, at_values, at_ends, len(chunk), at_left, start
        return cls(bytes(memory), words)

    def rows(self, memory: pa.Buffer, nodes: Nodes) -> tuple[np.ndarray, pa.Table]:
        """Return what is left and the rows, from the memory after the call."""
        at_nodes, _, _, _, _, count, at_left, start = self.words
        words = np.frombuffer(memory.slice(at_nodes - _MEMORY, nodes.words.nbytes), np.uint32)
        found: list[list[int]] = words.reshape(nodes.words.shape).tolist()  # type: ignore[assignment]
        table = Columns(memory.slice(start - _MEMORY), start, found).table(nodes)
        return np.frombuffer(memory.slice(at_left - _MEMORY, count), np.uint8), table


def _compare(testbed: Testbed) -> Findings:
    folder = testbed.folder / unique_name("sanitized")
    folder.mkdir()
    program, sanitizers = build(folder)
    every = [*values()]
    chunks = [every[first : first + _AT_ONCE] for first in range(0, len(every), _AT_ONCE)]
    found = [differences(program, chunks, ignores=ignores) for ignores in (False, True)]
    return Findings(
        f"{len(every)} values twice, {sanitizers}",
        lost=sum(differ for differ, _ in found),
        unkept="; ".join(said for _, said in found if said),
    )


SCENARIOS = [
    scenario_on(
        "records/sanitized",
        "the C that decodes JSON, under sanitizers, reads odd values, cut and changed at each byte",
        "no sanitizer reports anything; each value is taken or left as by the module that tasks run",
        _compare,
        group="hostile records",
    )
]
