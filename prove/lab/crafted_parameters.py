"""Malicious Flight SQL parameters, read with other memory around them."""

from __future__ import annotations

import random
import struct
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pyarrow as pa

from serving.flight_statement import Statement, read_parameters
from spark_jobs.protocol.errors import ConfigError

GUARD = b"OTHERS-MEMORY-"
# What lies around a message in its process: whoever reads outside of it reads this.
AROUND = GUARD * 100_000
TEXT = b"x" * 64
VALUES: dict[str, Any] = {
    "text": pa.array([TEXT.decode()]),
    "bytes": pa.array([TEXT], pa.large_binary()),
    "view": pa.array([TEXT.decode()], pa.string_view()),
    "short": pa.array(["a" * 12]),
    "dictionary": pa.array([TEXT.decode()]).dictionary_encode(),
    "list": pa.array([[TEXT.decode(), None, "y"]]),
    "map": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64())),
    "struct": pa.array([{"a": TEXT.decode(), "b": [1, 2]}]),
    "fixed": pa.array([[1, 2, 3]], pa.list_(pa.int32(), 3)),
    "decimal": pa.array([None], pa.decimal128(9, 2)),
    "number": pa.array([7]),
}


def message(columns: dict[str, pa.Array]) -> bytes:
    """Return a row of parameters as a client sends it."""
    sink = pa.BufferOutputStream()
    batch = pa.record_batch(columns)
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    written: bytes = sink.getvalue().to_pybytes()
    return written


def read(sent: bytes) -> list[Any]:
    """Return the values of a message that is surrounded by other memory."""
    guarded = pa.py_buffer(AROUND + sent + AROUND).slice(len(AROUND), len(sent))
    with pa.ipc.open_stream(guarded) as reader:
        bound = Statement("SELECT 1").with_parameters(read_parameters(reader.schema, reader))
        return list(bound.parameters)


def crafted(count: int, seed: int) -> Iterator[bytes]:
    """Return messages with changed bytes or numbers, mostly lengths and offsets."""
    chance = random.Random(seed)
    sent = [message({name: value}) for name, value in VALUES.items()] + [message(VALUES)]
    for _ in range(count):
        damaged = bytearray(chance.choice(sent))
        for _ in range(chance.randint(1, 3)):
            width = chance.choice("bihq")
            at = chance.randrange(0, len(damaged) - 8) // 4 * 4
            most = 1 << (8 * struct.calcsize(width) - 1)
            number = chance.choice([0, 1, 64, 65, 4096, 1_000_000, most - 1, -1, -most])
            struct.pack_into(f"<{width}", damaged, at, max(-most, min(most - 1, number)))
        yield bytes(damaged)


def read_whole(count: int, seed: int) -> int:
    """Read messages; return the number accepted, none of which contains surrounding bytes."""
    whole = 0
    for sent in crafted(count, seed):
        with suppress(ConfigError, pa.ArrowException, OSError, MemoryError):
            assert GUARD[:8].decode() not in repr(read(sent))
            whole += 1
    return whole


if __name__ == "__main__":
    print(read_whole(*map(int, sys.argv[1:])))
