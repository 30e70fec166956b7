"""Rows of `layout: mirror` before they are folded: events as in a table of changes, each with a key."""

from __future__ import annotations

from typing import Any

import pytest

from prove.lab.debezium_events import Column, Source
from spark_jobs.config.sections import Envelope
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.protocol.cdc import Cdc
from spark_jobs.protocol.errors import BadRecord, ConfigError
from spark_jobs.protocol.work import layout_named
from spark_jobs.records.appearance import first_batch_unreadable
from spark_jobs.records.decoder import Phase
from spark_jobs.records.reading_plan import format_of
from spark_jobs.schema.iceberg_types import MIRROR_NAMES, SOURCE
from tests.support.change_rows import Table, chunk_of

PLAIN = Source()
TYPED = Source({"id": Column("int32", optional=False), "name": Column("string")})
MIRROR = PipelineConfig(name="a", topic="t", table="l.a", layout=layout_named("mirror"))


@pytest.mark.parametrize("source", [PLAIN, TYPED])
def test_a_change_without_a_key_is_bad_and_a_truncate_is_of_no_row(source: Source) -> None:
    """Deletes and changes have their key; a row says where the last commit stood where both are told."""
    row = {"id": 1, "name": "a"}
    records = [
        (source.key(1), source.event("c", row)),
        (None, source.event("c", row)),
        (source.key(1), source.event("d", None)),
        (None, source.event("t", None)),
        (source.key(2), source.event("r", row, sequence='[null,"3"]')),
        (source.key(2), source.event("r", row, sequence='["8","77"]')),
        (source.key(2), source.event("r", row, sequence='["8",null]')),
        (None, None),
    ]
    decoded = Table(layout=layout_named("mirror")).drain(records[:-1])
    (bad,) = decoded.bad
    assert (bad.index, bad.phase, "has no key" in bad.error) == (1, Phase.KEY, True)
    rows = decoded.table.to_pylist()
    assert rows[0].keys() >= MIRROR_NAMES
    one, two = '{"id":1}', '{"id":2}'
    assert [row["_cdc_row_id"] for row in rows] == [one, one, "", two, two, two]
    assert [row["_cdc_operation"] for row in rows] == ["c", "d", "t", "r", "r", "r"]
    assert [row["_cdc_commit_sequence"] for row in rows] == [90, 90, 90, None, 8, None]


def test_upserts_have_no_commit_and_their_keys_are_text_too() -> None:
    """A record without a value is the delete of its key; one without a key is bad."""
    records = [(b"k", b'{"id": 1}'), (b"k", None), (None, b'{"id": 2}')]
    decoded = Table(Envelope.UPSERT, layout_named("mirror")).drain(records)
    assert [each.index for each in decoded.bad] == [2]
    assert decoded.table.column("_cdc_row_id").to_pylist() == ["k", "k"]
    assert decoded.table.column("_cdc_commit_sequence").null_count == 2


def test_no_mirror_is_made_of_a_topic_without_keys() -> None:
    """Nothing of it is evidence of a column, and the error says why; with keys it says what values are."""
    values = [PLAIN.event("c", {"id": 1})] * 2
    seen = (
        Table(layout=layout_named("mirror"))
        .format()
        .decoder.observe(chunk_of([(None, value) for value in values]))
    )
    assert (seen.records, seen.undecodable) == (0, 2)
    error = first_batch_unreadable(MIRROR, 2, values, has_keys=False)
    assert isinstance(error, ConfigError)
    assert error.code == "mirror-without-key"
    assert isinstance(first_batch_unreadable(MIRROR, 2, values, has_keys=True), BadRecord)
    changes = MIRROR.model_copy(update={"layout": layout_named("changes")})
    assert isinstance(first_batch_unreadable(changes, 2, values, has_keys=False), BadRecord)


def test_a_change_of_another_source_adds_and_breaks_nothing() -> None:
    """A drain stops at it: of its row there is neither a new column nor a dead letter."""
    table = Table(layout=layout_named("mirror"))
    own = table.drain([(PLAIN.key(1), PLAIN.event("c", {"id": 1}))])
    (whose,) = own.table.column(SOURCE).to_pylist()
    rows: list[Any] = [{"id": 1, "more": 2}, {"id": "no number"}]
    foreign = chunk_of([(PLAIN.key(1), PLAIN.event("c", row, table="another")) for row in rows])
    decoder = format_of(table.pipeline, table.known, table.schema, table.bound, cdc=Cdc(source=whose)).decoder
    decoded = decoder.decode(foreign, table.columns)
    assert not decoded.new_fields
    assert not decoded.bad
    assert decoded.table.column("id").to_pylist() == [None, None]
