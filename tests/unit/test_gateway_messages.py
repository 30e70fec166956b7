"""What clients of a gateway send: read whole, or refused with the field that is wrong."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.messages import MOST_EVENTS, RefusedError, parse, parse_lines, read_batch
from gateway.tokens import WINDOW_BYTES, Bucket, Pace, Token, Tokens
from spark_jobs.config.gateway import GatewaySettings, StreamEnvelope, StreamSettings
from spark_jobs.protocol.errors import ConfigError, RetryableError

PLAIN = StreamSettings(topic="t")
KEYED = StreamSettings(topic="t", key="user")
ENVELOPE = StreamSettings(topic="t", envelope=StreamEnvelope.SLUICE)


def batch(text: str, stream: StreamSettings = PLAIN) -> list[tuple[bytes | None, bytes | None]]:
    """The records that events of this text become."""
    message = parse(f'{{"sequenceNumber": 1, "events": [{text}]}}')
    return [(event.key, event.value) for event in read_batch(message, "s", stream, 0).events]


def test_a_value_keeps_every_digit() -> None:
    """Numbers that no float has go on as they were written, in keys too."""
    value = '{"a":0.10000000000000000001,"b":123456789012345678901234567890,"c":1e400,"d":[-1.50]}'
    assert batch(f'{{"key": 12345678901234567890, "value": {value}}}') == [
        (b"12345678901234567890", value.encode())
    ]


def test_a_key_is_the_events_own_or_a_field_of_its_value() -> None:
    """Text as it is, anything else as JSON; without a value the record is a tombstone."""
    assert batch('{"key": "ä", "value": {}}') == [("ä".encode(), b"{}")]
    assert batch('{"key": {"id": 1}}') == [(b'{"id":1}', None)]
    assert batch('{"key": "own", "value": {"user": "u"}}, {"key": "own", "value": {}}', KEYED) == [
        (b"u", b'{"user":"u"}'),
        (b"own", b"{}"),
    ]


def test_an_envelope_has_the_whole_event() -> None:
    """Its operation, key, value, time and sequence; the gateway refuses one that could become no row."""
    ((key, value),) = batch('{"operation": "u", "key": "k", "value": {"a": 1.0}, "timestamp": 5}', ENVELOPE)
    assert (key, value) == (b"k", b'{"operation":"u","key":"k","value":{"a":1.0},"timestamp":5,"sequence":1}')
    for text, field in (
        ('{"operation": "x", "key": "k", "value": {}}', "events[0].operation"),
        ('{"operation": "u", "value": {}}', "events[0].key"),
        ('{"operation": "u", "key": "k"}', "events[0].value"),
        ('{"operation": "d", "key": "k", "timestamp": "2026-01-01T00:00:00"}', "events[0].timestamp"),
    ):
        with pytest.raises(RefusedError) as refused:
            batch(text, ENVELOPE)
        assert refused.value.field == field


@pytest.mark.parametrize(
    ("message", "field"),
    [
        ({"events": {}}, "events"),
        ({"events": [1]}, "events[0]"),
        ({"events": [{"id": ""}]}, "events[0].id"),
        ({"events": [{"id": "x" * 257}]}, "events[0].id"),
        ({"events": [{"value": "\ud800"}]}, "events[0]"),
        ({"events": [], "sequenceNumber": 0}, "sequenceNumber"),
        ({"events": [], "sequenceNumber": 2**53}, "sequenceNumber"),
        ({"events": [], "sequenceNumber": True}, "sequenceNumber"),
        ({"events": [], "batchId": "\n"}, "batchId"),
        ({"events": [], "sourceId": "other"}, "sourceId"),
        ({"events": [{}] * (MOST_EVENTS + 1)}, "events"),
    ],
)
def test_what_is_no_batch_is_refused_by_its_field(message: dict[str, Any], field: str) -> None:
    """Nothing of it is taken."""
    with pytest.raises(RefusedError) as refused:
        read_batch(parse(json.dumps(message)), "s", PLAIN, 0)
    assert refused.value.field == field


@given(st.text() | st.binary())
def test_noise_is_refused(noise: str | bytes) -> None:
    """Whatever a frame holds, it is a document or a refusal."""
    try:
        read = parse(noise)
    except RefusedError:
        return
    if type(read) is dict:
        with pytest.raises(RefusedError):
            read_batch(read, "s", PLAIN, 0)


def test_deep_and_broken_lines_are_refused() -> None:
    """Of lines each is a document."""
    assert parse_lines(b'{"a": 1}\n\n{"b": 2}\r\n') == [{"a": 1}, {"b": 2}]
    for text in ("[" * 100_000, '{"a": NaN}', "{} {}"):
        with pytest.raises(RefusedError):
            parse(text)


def test_a_bucket_takes_what_flows_in_and_says_when() -> None:
    """A batch larger than a second's share waits once; refused in one bucket nothing is taken of another."""
    now = [0.0]
    bucket, other = Bucket(100, lambda: now[0]), Bucket(1_000, lambda: now[0])
    limits = Token(None, bucket, other, None)
    assert limits.wait_ms(250, 250) == 0
    assert limits.wait_ms(1, 500) == 1501
    now[0] = 1.51
    assert limits.wait_ms(1, 900) == 0
    assert other.wait_ms() == 0


def test_a_token_is_known_by_its_hash_and_sends_its_streams() -> None:
    """No line says the token; what is no line is refused without being quoted."""
    digest = hashlib.sha256(b"secret").hexdigest()
    tokens = Tokens([f"# ours\n{digest} clicks,orders 1000 1MiB 2\n"])
    token = tokens.find("secret")
    assert token is not None
    assert (token.may_send("clicks"), token.may_send("other")) == (True, False)
    assert (token.events.rate, token.bytes.rate, token.most_connections) == (1000, 1 << 20, 2)
    assert tokens.find("other") is None
    assert tokens.find(None) is None
    assert Tokens([]).find(None) is not None
    lines = [
        "hunter2 * - - -",
        *(f"{digest} * {limits}" for limits in ("- -", "x - -", "- 5 -", "0 - -", "- - -1")),
    ]
    # With all of them taken out nobody is let in.
    for text in (*lines, "", "# hunter2 * - - -\n"):
        with pytest.raises(ConfigError, match="gateway-tokens-unreadable") as refused:
            Tokens([text])
        assert "hunter2" not in str(refused.value)
    with pytest.raises(ConfigError, match=r"line 2 of gateway\.tokens\.0: BYTES/S is 'lots'"):
        Tokens([f"# ours\n{digest} * - lots -"])


def test_slots_are_written_as_a_range_of_eight() -> None:
    """All of them where nothing is written."""
    assert GatewaySettings().sources == tuple(range(8))
    settings = GatewaySettings.model_validate({"sources": "4-7/8", "event_ids": "0"})
    assert (settings.sources, settings.sources_text, settings.event_ids_seconds) == ((4, 5, 6, 7), "4-7/8", 0)
    for text in ("0-8/8", "3-2/8", "0-3/4", "x"):
        with pytest.raises(ValueError, match="is not a range of slots"):
            GatewaySettings.model_validate({"sources": text})


def test_the_pace_of_before_an_outage_comes_back() -> None:
    """However long it was: it halves down to a bound, not to nothing, and doubles with each that is soon."""
    now = [0.0]
    pace = Pace(clock=lambda: now[0])
    for _ in range(40):
        with pytest.raises(RetryableError), pace.measure(WINDOW_BYTES):
            raise RetryableError("no answer", code="broker-away", hint="")
    assert pace.most_bytes == 64 << 10
    with pace.measure(1):
        now[0] = 2.0
    assert pace.most_bytes == 64 << 10
    for _ in range(9):
        with pace.measure(1):
            pass
    assert pace.most_bytes == WINDOW_BYTES
