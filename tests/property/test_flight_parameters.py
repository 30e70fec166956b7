"""Parameters as somebody crafts them: no byte of other memory in what is read of them."""

from __future__ import annotations

import random
import struct
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from spark_jobs.protocol.errors import ConfigError
from spark_jobs.serve.flight_messages import packed, read_command
from spark_jobs.serve.flight_parameters import MOST_BYTES, read_parameters
from spark_jobs.serve.flight_statement import Statement, read_handle

if TYPE_CHECKING:
    from collections.abc import Iterator

SEED, ANSWERS = 37, 2_000
KEY = b"k" * 32
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
    """One row of these as a client sends it."""
    sink = pa.BufferOutputStream()
    batch = pa.record_batch(columns)
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    written: bytes = sink.getvalue().to_pybytes()
    return written


def read(sent: bytes) -> list[Any]:
    """The values of a message that lies between the memory of others."""
    guarded = pa.py_buffer(AROUND + sent + AROUND).slice(len(AROUND), len(sent))
    with pa.ipc.open_stream(guarded) as reader:
        bound = Statement("SELECT 1").with_parameters(read_parameters(reader.schema, reader))
        return list(bound.parameters)


def crafted(count: int, seed: int) -> Iterator[bytes]:
    """Messages with some bytes or numbers changed, most often where lengths and offsets are."""
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


def test_no_byte_of_others_is_in_an_answer() -> None:
    """Whatever offsets, lengths and types a message claims, it is refused or has its own bytes alone."""
    read_whole = 0
    for sent in crafted(ANSWERS, SEED):
        with suppress(ConfigError, pa.ArrowException, OSError, MemoryError):
            values = read(sent)
            assert GUARD[:8].decode() not in repr(values)
            read_whole += 1
    assert read_whole > ANSWERS // 50


@pytest.mark.parametrize("claimed", [65, 1_000_000, 4_000_000])
@pytest.mark.parametrize("name", ["text", "dictionary", "list"])
def test_a_parameter_that_claims_more_than_it_has_is_refused(name: str, claimed: int) -> None:
    """A text that says it has a million bytes, of which 64 were sent, gives nobody's memory away."""
    sent = message({"0": pa.array([[TEXT.decode()]]) if name == "list" else VALUES[name]})
    ends = struct.pack("<i", len(TEXT))
    assert ends in sent
    damaged = sent[::-1].replace(ends[::-1], struct.pack("<i", claimed)[::-1], 1)[::-1]
    with pytest.raises(ConfigError, match="parameters are damaged") as refused:
        read(damaged)
    assert refused.value.code == "unreadable-request"


@pytest.mark.parametrize(
    "value",
    [
        pa.array([[None] * MOST_BYTES]),
        pa.nulls(1, pa.list_(pa.null(), MOST_BYTES)),
        pa.array([[{}] * MOST_BYTES]),
        pa.array([["x" * 100_000]]).cast(pa.list_(pa.dictionary(pa.int8(), pa.string()))),
        pa.array([["x" * 100]]).cast(pa.list_(pa.string_view())),
        pa.RunEndEncodedArray.from_arrays(pa.array([1], pa.int32()), pa.array(["x"])),
        pa.array(["x" * MOST_BYTES]),
    ],
    ids=lambda value: str(value.type),
)
def test_a_parameter_that_becomes_larger_than_it_was_sent_is_refused(value: pa.Array) -> None:
    """Nulls without a byte, one text in many places: none is more in memory than a statement may be."""
    with pytest.raises(ConfigError, match=r"more than 1,000,000 bytes|is of type"):
        read_parameters(pa.schema([("0", value.type)]), [pa.record_batch([value], ["0"])])


def test_what_is_bound_comes_back_as_it_is() -> None:
    """Of each type that a driver binds the value, also through a handle."""
    bound = Statement(
        "SELECT ?",
        read_parameters(pa.schema([(n, v.type) for n, v in VALUES.items()]), [pa.record_batch(VALUES)]),
    )
    expected = [value[0].as_py() for value in VALUES.values()]
    assert list(bound.parameters) == expected
    assert list(read_handle(bound.to_handle(KEY), KEY).parameters) == expected


def test_a_value_that_nobody_can_read_is_refused() -> None:
    """A time beyond the years there are, or in a zone that is none."""
    for value in (
        pa.array([1 << 62], pa.timestamp("s")),
        pa.array([0], pa.timestamp("s", "../../etc/passwd")),
    ):
        with pytest.raises(ConfigError, match="parameters are damaged"):
            read_parameters(pa.schema([("0", value.type)]), [pa.record_batch([value], ["0"])])


def test_a_handle_of_another_process_is_refused() -> None:
    """One bit more or less, another key, nothing at all: no Arrow is read of what was not signed."""
    handle = Statement("SELECT 1").to_handle(KEY)
    assert read_handle(handle, KEY).sql == "SELECT 1"
    chance = random.Random(SEED)
    for at in chance.sample(range(len(handle) * 8), 300):
        changed = bytearray(handle)
        changed[at // 8] ^= 1 << at % 8
        with pytest.raises(ConfigError, match="not prepared by this process"):
            read_handle(bytes(changed), KEY)
    for foreign in (handle[32:], b"", handle[:31], Statement("SELECT 1").to_handle(b"another" * 5)):
        with pytest.raises(ConfigError, match="not prepared by this process"):
            read_handle(foreign, KEY)


def test_a_message_longer_than_a_statement_is_not_looked_into() -> None:
    """A ticket or an action of megabytes is refused before anything of it is read."""
    for sent in (b"\xff" * (1 << 21), packed("CommandStatementQuery", query="x" * (1 << 21))):
        with pytest.raises(ConfigError, match="more than 1,000,000 bytes"):
            read_command(sent)
