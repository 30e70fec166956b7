"""Parameters as somebody crafts them: no byte of other memory in what is read of them."""

from __future__ import annotations

import random
import struct

import pyarrow as pa
import pytest

from prove.lab.crafted_parameters import TEXT, VALUES, message, read, read_whole
from serving.flight_statement import MOST_BYTES, Statement, packed, read_command, read_handle, read_parameters
from spark_jobs.protocol.errors import ConfigError

SEED, ANSWERS = 37, 2_000
KEY = b"k" * 32


def test_no_byte_of_others_is_in_an_answer() -> None:
    """Whatever offsets, lengths and types a message claims, it is refused or has its own bytes alone."""
    assert read_whole(ANSWERS, SEED) > ANSWERS // 50


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
    with pytest.raises(ConfigError, match=r"more than 1,000,000 bytes|is of the unsupported type"):
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
