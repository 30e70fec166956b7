"""What values that cannot be read are said to be."""

from __future__ import annotations

import gzip
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prove.lab.debezium_events import TIME, Column, Source
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.config.value_format import ValueSettings
from spark_jobs.formats.avro.schema import avro_schema
from spark_jobs.kafka.chunks import Chunk
from spark_jobs.protocol.offsets import SchemaId, SchemaKey
from spark_jobs.protocol.work import Layout, layout_named
from spark_jobs.records.appearance import appearance, first_batch_unreadable, frequent_reason
from spark_jobs.records.reading_plan import JSON, format_of
from spark_jobs.schema.column_source import KnownSchemas
from spark_jobs.schema.writer_schema import Language, SchemaText

_NANOS = json.dumps(
    {
        "type": "record",
        "name": "R",
        "fields": [{"name": "at", "type": {"type": "long", "logicalType": "timestamp-nanos"}}],
    }
)
_FRAMED = b"\0\0\0\0\x07\x02"  # a nanosecond before 1970
_ZONED = Source({"id": Column("int32", optional=False), "at": Column("string", f"{TIME}ZonedTimestamp")})
_EVENT = _ZONED.event("c", {"id": 1, "at": "2024-02-29T12:00:00.123456789Z"})

ORDERS = PipelineConfig(name="orders", topic="shop.orders", table="shop.orders")


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([b"\0\0\0\0\x07\x02abc"] * 500, "all 500 inspected values are framed by a schema registry"),
        ([b"\0\0\0\0\x07x", b"\0\0\0\0\x0cy"], "(schema id 7, 12)"),
        ([b"\0" + n.to_bytes(4) + b"x" for n in range(9)], "(schema id 0, 1, 2, 3, 4, 4 more)"),
        ([b"Obj\x01\x04"], "all 1 inspected values are Avro files"),
        ([gzip.compress(b"{}")], "compressed by gzip"),
        ([b"<order/>"], "XML"),
        ([b"a,b,c", b"1,2,3"], "all 2 inspected values are text that is not JSON"),
        ([b"[1]", b"[]"], "JSON arrays; only objects can become rows"),
        ([b"\xef\xbb\xbf{}"], "text with a byte order mark"),
        ([bytes(8) + b"\x07\x02abc"], "framed by Apicurio's own serializers"),
        ([b"\x03\x00" + bytes(range(16)) + b"x"], "framed by AWS Glue's serializers"),
        ([b"\xc3\x01" + bytes(range(8)) + b"x"], "Avro single objects"),
        ([b'"{}"'], "JSON, but strings"),
        ([b"7", b"true", b"null"], "JSON numbers, booleans or null"),
        ([b"", b" "], "empty"),
        ([b"\xff\xfe\xfa", b"\x08\x96\x01", b"\0\x9c1234567"], "neither text nor a known format"),
        ([b"x", b"x", b"\0\0\0\0\x07x"], "2 of 3 are text that is not JSON; 1 of 3 are framed by"),
    ],
)
def test_values_are_told_by_what_they_look_like(values: list[bytes], said: str) -> None:
    """Registry framing with its ids, archives, compressions, text, JSON that is no object: most first."""
    assert said in appearance(values)


@pytest.mark.parametrize(
    ("value", "values", "advice"),
    [
        ({"format": "json"}, b"\0\0\0\0\x07x", "Only the registry knows"),
        ({"format": "avro", "registry": "r"}, b"\x02x", "without a schema id set `framing: none`"),
        (
            {"format": "avro", "registry": "r", "framing": "none"},
            b"\0\0\0\0\x07x",
            "Remove `framing: none`",
        ),
        (
            {"format": "avro", "registry": "r", "framing": "none"},
            b"\x02x",
            "Correct the schema under `value:`",
        ),
        ({"format": "avro", "registry": "r"}, b"\0\0\0\0\x07x", "Correct the schema under `value:`"),
    ],
)
def test_a_frame_that_is_said_and_not_there_or_there_and_not_said(
    value: dict[str, str], values: bytes, advice: str
) -> None:
    """Nothing is guessed; what to write is told."""
    pipeline = ORDERS.model_copy(update={"value": ValueSettings.model_validate(value)})
    assert advice in first_batch_unreadable(pipeline, 1, [values], has_keys=True).hint


@pytest.mark.parametrize(("value", "advice"), [(b"\0\0\0\0\x07x", "format: avro"), (b'{"id": 1}', "upsert")])
def test_what_is_no_event_of_debezium_says_what_it_may_be(value: bytes, advice: str) -> None:
    """Events in Avro, where JSON is said; rows whose envelope was taken off."""
    pipeline = ORDERS.model_copy(update={"layout": layout_named("changes")})
    assert advice in first_batch_unreadable(pipeline, 1, [value], has_keys=True).hint


@given(st.dictionaries(st.text(), st.one_of(st.none(), st.integers(), st.text()), max_size=5))
def test_a_json_object_is_never_told_as_something_else(value: dict[str, object]) -> None:
    """Whatever is in it: only values that were refused are asked about, and these words send people away."""
    assert appearance([json.dumps(value).encode()]) == "all 1 inspected values are JSON objects"


@given(st.lists(st.binary(max_size=40), max_size=20))
def test_any_bytes_are_told(values: list[bytes]) -> None:
    """No value stops the sentence that explains it."""
    error = first_batch_unreadable(ORDERS, len(values), values, has_keys=True)
    assert error.exit_code == 65
    assert "./sluice preview orders" in error.hint


@pytest.mark.parametrize(
    ("value", "said", "advice"),
    [
        (b'{"a": NaN}', "NaN", "Set their format"),
        (b"\xef\xbb\xbf{}", "byte order mark", "Set their format"),
        (bytes(8) + b"\x07\x02abc", "Apicurio", "`framing: apicurio_global` under `value:`"),
        (b"\x03\x00" + bytes(range(17)), "AWS Glue", "`framing: glue`"),
        (b"\xc3\x01" + bytes(range(17)), "single objects", "whose one schema"),
    ],
)
def test_the_most_frequent_reason_is_in_the_sentence(value: bytes, said: str, advice: str) -> None:
    """The decoder's own words beside what values look like; frames that are not read are refused by name."""
    values = [value, value, b"oops"]
    chunk = Chunk(0, [0, 1, 2, 3], [0] * 4, [None] * 4, [*values, None], [None] * 4)
    reason = frequent_reason(JSON.decoder, [chunk])
    assert reason
    error = first_batch_unreadable(ORDERS, 3, values, has_keys=False, reason=reason)
    assert said in error.message
    assert reason in error.message
    assert advice in error.hint


@pytest.mark.parametrize(
    ("layout", "value", "looks", "reason"),
    [
        (
            layout_named("changes"),
            _EVENT,
            "is an event (debezium): all 3 inspected values are events",
            "finer than a micro",
        ),
        (
            layout_named("flat"),
            _FRAMED,
            "be read as avro: all 3 inspected values are framed",
            "finer than a microsecond",
        ),
    ],
)
def test_events_and_frames_that_are_what_they_should_be_are_told_by_their_reason(
    layout: Layout, value: bytes, looks: str, reason: str
) -> None:
    """Each of them has a time with nanoseconds: that they look right explains nothing."""
    changed: dict[str, object] = {"layout": layout}
    if layout == "flat":
        changed["value"] = ValueSettings.model_validate({"format": "avro", "registry": "r"})
    pipeline = ORDERS.model_copy(update=changed)
    chunk = Chunk(0, [0, 1, 2], [0] * 3, [None] * 3, [value] * 3, [None] * 3)
    known = KnownSchemas({SchemaKey(SchemaId(7)): avro_schema(SchemaText(Language.AVRO, _NANOS))})
    said = frequent_reason(format_of(pipeline, known).decoder, [chunk])
    error = first_batch_unreadable(pipeline, 3, [value] * 3, has_keys=True, reason=said)
    assert looks in error.message
    assert reason in error.message.partition("Most frequent reason: ")[2]
