"""Frames of registries other than Confluent's: which schema a value names, before it or in a header."""

from __future__ import annotations

import zlib
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.config.value_format import Framing
from spark_jobs.protocol.offsets import SchemaId, SchemaKey
from spark_jobs.records.frames import FRAMES
from spark_jobs.records.framing import Framed, Naming, unframe

BY_CONTENT, BY_GLOBAL = Naming(framing=Framing.APICURIO), Naming(framing=Framing.APICURIO_GLOBAL)
SEVEN = (7).to_bytes(8)
CONTENT, GLOBAL = SchemaKey(SchemaId(7)), SchemaKey(SchemaId("global-7"))


def listed(framed: Framed) -> dict[SchemaKey | None, list[bytes]]:
    """Return the bare values by schema."""
    return {key: list(values) for key, values in framed.values.items()}


def in_header(name: str, value: bytes | None = SEVEN) -> list[tuple[str, bytes | None]]:
    """Return headers with one of Apicurio's among others."""
    return [("a", b"b"), (f"apicurio.{name}", value), ("apicurio.value.encoding", b"BINARY")]


@given(st.sampled_from(sorted(FRAMES)), st.lists(st.binary(max_size=24), max_size=8), st.data())
def test_any_bytes_are_sorted_out_or_named(
    framing: Framing, values: list[bytes], data: st.DataObject
) -> None:
    """Each index once, as a value of a schema or with a reason; no other exception."""
    names = ["apicurio.value.contentId", "apicurio.value.globalId", "apicurio.value.encoding"]
    header = st.tuples(st.sampled_from(names), st.none() | st.binary(max_size=20))
    headers = [data.draw(st.none() | st.lists(header, max_size=2)) for _ in values]
    framed = unframe(values, headers, Naming(framing=framing))
    found = [index for indices in framed.indices.values() for index in indices.tolist()]
    assert sorted([*found, *framed.unframed]) == list(range(len(values)))


def test_apicurios_prefix_and_headers_name_content_or_global_ids() -> None:
    """A header says which of the two it is, and wins; the two of one number are two schemas."""
    framed = b"\0" + SEVEN + b"x"
    headers = [None, in_header("value.contentId"), in_header("value.globalId"), in_header("key.contentId")]
    values = [framed, b"x", framed, framed]
    assert listed(unframe(values, headers, BY_CONTENT)) == {CONTENT: [b"x"] * 3, GLOBAL: [framed]}
    assert listed(unframe(values, headers, BY_GLOBAL)) == {GLOBAL: [b"x", framed, b"x"], CONTENT: [b"x"]}
    of_key = Naming(of_key=True, framing=Framing.APICURIO)
    assert listed(unframe([b"x"], [in_header("key.contentId")], of_key)) == {
        SchemaKey(SchemaId(7), of_key=True): [b"x"]
    }
    assert [str(each) for each in sorted([GLOBAL, SchemaKey(SchemaId("global-10")), CONTENT])] == [
        *("7", "global-7", "global-10")
    ]


@pytest.mark.parametrize(
    ("value", "headers", "why"),
    [
        (b"\0\0\0\0\x07", None, "neither a zero byte and an id of eight bytes"),
        (b"\x01" + SEVEN, None, "neither a zero byte and an id of eight bytes"),
        (bytes(9) + b"x", None, "names schema 0"),
        (b"\0" + b"\xff" * 8, None, "no id of eight bytes"),
        (b"x", in_header("value.contentId", b"\x07"), "no id of eight bytes"),
        (b"x", in_header("value.globalId", None), "no id of eight bytes"),
        (b"{}", [("apicurio.value.encoding", b"JSON"), *in_header("value.globalId")], "Avro as JSON"),
    ],
)
def test_what_is_no_frame_of_apicurio_says_why(
    value: bytes, headers: list[tuple[str, bytes | None]] | None, why: str
) -> None:
    """A dead letter tells what was looked for."""
    if why == "Avro as JSON":
        headers = [each for each in headers or () if each[1] != b"BINARY"]
    assert why in unframe([value], [headers], BY_CONTENT).unframed[0]


GUID = UUID("89791762-2336-4186-9674-299b90a802e2")
GLUE = Naming(framing=Framing.GLUE)


@given(st.lists(st.tuples(st.uuids(), st.binary(max_size=9), st.booleans()), max_size=9))
def test_every_value_of_glue_is_found_under_its_uuid(written: list[tuple[UUID, bytes, bool]]) -> None:
    """Packed by zlib or plain, the same value."""
    values = [
        b"\3" + (b"\5" if packed else b"\0") + name.bytes + (zlib.compress(value) if packed else value)
        for name, value, packed in written
    ]
    framed = unframe(values, [None] * len(values), GLUE)
    found = {
        index: (key, value)
        for key, indices in framed.indices.items()
        for index, value in zip(indices.tolist(), framed.values[key], strict=True)
    }
    wanted = {at: (SchemaKey(SchemaId(str(name))), value) for at, (name, value, _) in enumerate(written)}
    assert (found, framed.unframed) == (wanted, {})


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (b"\3\0" + GUID.bytes[:15], "neither 3 and 0"),
        (b"\2\0" + GUID.bytes, "neither 3 and 0"),
        (b"\3\1" + GUID.bytes, "neither 3 and 0"),
        (b"\3\5" + GUID.bytes + b"xyz", "is not packed by zlib"),
        (b"\3\5" + GUID.bytes + zlib.compress(b"xyz")[:-1], "cut short"),
        (b"\3\5" + GUID.bytes + zlib.compress(b"xyz") + b"x", "followed by more"),
        (b"\3\5" + GUID.bytes + zlib.compress(bytes(1 << 20), 9), "more than 100 times its size"),
    ],
)
def test_what_is_no_frame_of_glue_says_why(value: bytes, why: str) -> None:
    """Also a value that would fill the memory of its task."""
    assert why in unframe([value], [None], GLUE).unframed[0]


@given(st.integers(1, (1 << 63) - 1))
def test_a_global_id_is_read_back_from_its_text(number: int) -> None:
    """As tables and the store of schemas keep it."""
    key = SchemaKey(SchemaId(f"global-{number}"))
    assert SchemaKey.parse(str(key)) == key
