"""Frames: which schema a value names, before it or in a header."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.protocol.offsets import SchemaId, SchemaKey
from spark_jobs.records.framing import VALUE_HEADER, Framed, Naming, bare, unframe

GUID = uuid.UUID("89791762-2336-4186-9674-299b90a802e2")
IDS = st.integers(1, (1 << 32) - 1)


def _listed(framed: Framed) -> dict[SchemaKey | None, list[bytes]]:
    return {key: list(values) for key, values in framed.values.items()}


@given(st.lists(st.tuples(IDS, st.binary(max_size=5)), max_size=20))
def test_every_value_is_found_under_its_id(written: list[tuple[int, bytes]]) -> None:
    """At its own index, bare, whether all have one id or many."""
    framed = unframe([b"\0" + number.to_bytes(4) + value for number, value in written], [None] * len(written))
    found = {
        index: (key, value)
        for key, indices in framed.indices.items()
        for index, value in zip(indices, framed.values[key], strict=True)
    }
    assert found == {at: (SchemaKey(SchemaId(number)), value) for at, (number, value) in enumerate(written)}
    assert not framed.unframed


@given(st.lists(st.binary(max_size=8), max_size=10), st.lists(st.binary(max_size=18), max_size=10))
def test_any_bytes_are_sorted_out_or_named(values: list[bytes], headers: list[bytes]) -> None:
    """Each index once, as a value of a schema or with a reason; no other exception."""
    beside = [[(VALUE_HEADER, header)] for header in headers[: len(values)]]
    framed = unframe(values, [*beside, *[None] * (len(values) - len(beside))])
    found = [index for indices in framed.indices.values() for index in indices]
    assert sorted([*found, *framed.unframed]) == list(range(len(values)))


def test_a_header_wins_over_what_the_value_begins_with() -> None:
    """The value is bare then; of two of the name the first counts; another header says nothing."""
    headers = [("a", b"b"), (VALUE_HEADER, b"\x01" + GUID.bytes), (VALUE_HEADER, b"")]
    framed = unframe([b"\0\0\0\0\x07x", b"\0\0\0\0\x07x"], [headers, [("a", None)]])
    assert _listed(framed) == {
        SchemaKey(SchemaId(str(GUID))): [b"\0\0\0\0\x07x"],
        SchemaKey(SchemaId(7)): [b"x"],
    }


@pytest.mark.parametrize(
    ("value", "header", "why"),
    [
        (b"", None, "names no schema"),
        (b"\0\0\0\0", None, "names no schema"),
        (b"\x01\0\0\0\x07x", None, "names no schema"),
        (bytes(9) + b"x", None, "Apicurio's own serializers"),
        (b"x", b"\0" + GUID.bytes, "is not a byte 1 and a GUID"),
        (b"x", b"", "is not a byte 1 and a GUID"),
        (b"x", None, "names no schema"),
    ],
)
def test_what_is_no_frame_says_why(value: bytes, header: bytes | None, why: str) -> None:
    """A dead letter tells what was looked for."""
    framed = unframe([value], [None if header is None else [(VALUE_HEADER, header)]])
    assert why in framed.unframed[0]


def test_values_of_one_schema_have_no_frame() -> None:
    """All of them are under no key, as they came."""
    assert _listed(bare([b"a", b"\0\0\0\0\x07"])) == {None: [b"a", b"\0\0\0\0\x07"]}


@given(IDS | st.uuids().map(str), st.lists(st.integers(0, 9), max_size=3))
def test_a_key_is_read_back_from_its_text(name: int | str, indexes: list[int]) -> None:
    """Numbers and GUIDs, with the place of a message or without."""
    key = SchemaKey(SchemaId(name), tuple(indexes))
    assert SchemaKey.parse(str(key)) == key


@pytest.mark.parametrize(
    ("indexes", "written"),
    [
        ((0,), b"\0"),
        ((0,), b"\x02\0"),
        ((1,), b"\x02\x02"),
        ((1, 0), b"\x04\x02\0"),
        ((300,), b"\x02\xd8\x04"),
    ],
)
def test_a_frame_says_which_message_it_is(indexes: tuple[int, ...], written: bytes) -> None:
    """Before the value, and at the end of the header; alone and among others."""
    value = b"\0\0\0\0\x07" + written + b"xyz"
    key = SchemaKey(SchemaId(7), indexes)
    assert _listed(unframe([value], [None], Naming(has_indexes=True))) == {key: [b"xyz"]}
    assert _listed(unframe([value, b""], [None] * 2, Naming(has_indexes=True))) == {key: [b"xyz"]}
    header = [(VALUE_HEADER, b"\x01" + GUID.bytes + written)]
    by_header = unframe([b"xyz"], [header], Naming(has_indexes=True))
    assert _listed(by_header) == {SchemaKey(SchemaId(str(GUID)), indexes): [b"xyz"]}


@pytest.mark.parametrize(
    "written", [b"", b"\x02", b"\x01", b"\x80\x80\x80\x80\x80\x01", b"\x02\x01", b"\x7e" + b"\0" * 9]
)
def test_a_message_that_is_not_said_right_is_a_reason(written: bytes) -> None:
    """Cut short, below zero, more than there can be: in front of the value, and in the header."""
    assert unframe([b"\0\0\0\0\x07" + written], [None], Naming(has_indexes=True)).unframed
    header = [(VALUE_HEADER, b"\x01" + GUID.bytes + written)]
    assert unframe([b"x"], [header], Naming(has_indexes=True)).unframed
