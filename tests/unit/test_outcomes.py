"""What a task counts and hands back, across the border between Spark and the driver."""

from __future__ import annotations

import hashlib
from threading import Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.drain.split_task import Tally
from spark_jobs.kafka.chunks import Chunk
from spark_jobs.protocol.batch import (
    Balance,
    OutcomeKind,
    SplitOutcome,
    Written,
    WrittenFile,
    outcome_from_json,
)
from spark_jobs.protocol.errors import ConfigError, error_from_json, error_to_json
from spark_jobs.protocol.work import layout_named
from spark_jobs.schema.column_source import ignored_notes
from tests.support.log_entries import written_file

COUNTS = st.integers(0, 2**53)
TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
FILES = st.lists(st.builds(WrittenFile, path=TEXT), max_size=2).map(tuple)
BALANCES = st.builds(
    Balance,
    st.dictionaries(TEXT, COUNTS, max_size=2),
    rows=COUNTS,
    dead_letters=COUNTS,
    tombstones=COUNTS,
    gaps=COUNTS,
)
WRITTEN = st.builds(
    Written,
    balances=st.dictionaries(st.integers(0, 999), BALANCES),
    data_files=FILES,
    dead_letter_files=FILES,
    bytes_read=COUNTS,
    max_timestamp_ms=st.dictionaries(st.integers(0, 999), COUNTS),
    cpu_us=st.dictionaries(TEXT, COUNTS),
    peak_task_rss_bytes=COUNTS,
)
OUTCOMES = st.builds(
    SplitOutcome,
    split_id=COUNTS,
    kind=st.sampled_from(OutcomeKind),
    written=WRITTEN,
    evidence=st.none() | TEXT,
    error=st.none() | st.dictionaries(TEXT, TEXT),
    failed_tries=COUNTS,
)


def _chunk(offsets: list[int], timestamps_ms: list[int], record_bytes: int = 10) -> Chunk:
    count = len(offsets)
    chunk = Chunk(
        partition=2,
        offsets=offsets,
        timestamps_ms=timestamps_ms,
        keys=[None] * count,
        values=[b"{}"] * count,
        headers=[None] * count,
    )
    chunk.record_bytes = record_bytes
    return chunk


@given(OUTCOMES)
def test_outcomes_survive_the_border(outcome: SplitOutcome) -> None:
    """Numbers, files, errors and text of any kind arrive as they left."""
    assert outcome_from_json(outcome.to_json()) == outcome


def test_a_failed_outcome_is_the_same_error_again() -> None:
    """Kind, code, hint and coordinates."""
    error = ConfigError("no", code="c", hint="h", topic="t", partition=3)
    back = outcome_from_json(SplitOutcome(1, OutcomeKind.FAILED, error=error_to_json(error)).to_json())
    assert back.error is not None
    again = error_from_json(back.error)
    assert (type(again), str(again)) == (ConfigError, str(error))


def test_every_offset_that_holds_no_record_is_a_gap() -> None:
    """Before the first record, between records, and after the last one of a range."""
    tally = Tally()
    position = tally.follow(_chunk([3, 4, 7], [-1, -1, -1]), 0)
    assert position == 8
    tally.count(2, Balance(rows=2, dead_letters=1))
    tally.skip(2, 10 - position)
    rows, dead_letters = written_file("rows", rows=2), written_file("dead-letters", rows=1)
    written = tally.result([rows], [dead_letters])
    assert written.balances == {2: Balance(rows=2, dead_letters=1, gaps=7)}
    assert written.balances[2].offsets == 10
    assert (written.data_files, written.dead_letter_files) == ((rows,), (dead_letters,))


def test_the_newest_time_of_a_partition_is_kept() -> None:
    """Chunks arrive in offset order, not in order of time; -1 is no time at all."""
    tally = Tally()
    for chunk in (_chunk([0, 1], [50, 90]), _chunk([2], [70]), _chunk([3], [-1])):
        tally.follow(chunk, chunk.offsets[0])
    written = tally.result([], [])
    assert written.max_timestamp_ms == {2: 90}
    assert written.bytes_read == 30
    nothing = Tally()
    nothing.follow(_chunk([0], [-1]), 0)
    assert nothing.result([], []).max_timestamp_ms == {}


def test_processor_time_is_charged_by_step_also_when_the_step_fails() -> None:
    """A step entered twice adds up under one name."""
    tally = Tally()
    for _ in range(2):
        with tally.step("decode"):
            sum(range(200_000))
    with pytest.raises(OSError, match="disk"), tally.step("write"):
        raise OSError("disk full")
    cpu_us = tally.result([], []).cpu_us
    assert set(cpu_us) == {"decode", "write", "threads"}
    assert cpu_us["decode"] > 0


def test_what_other_threads_do_during_a_step_is_not_charged_to_it() -> None:
    """The client reads ahead while a chunk is decoded."""
    burn = Thread(target=hashlib.pbkdf2_hmac, args=("sha256", b"", b"", 200_000))
    tally = Tally()
    with tally.step("decode"):
        burn.start()
        burn.join()
    cpu_us = tally.result([], []).cpu_us
    assert cpu_us["threads"] > 10_000 > 2 * cpu_us["decode"]


def test_a_time_of_kafka_s_that_no_table_shows_is_no_value_without_a_column() -> None:
    """It is told by what became of it; `schema.new_fields` has no say in that."""
    fields, times = ignored_notes({"a.b": 2, "_kafka_timestamp": 1})
    assert fields == "values without a column were ignored (schema.new_fields), by field: a.b 2"
    assert times == "1 record with a Kafka time outside the years 1 to 9999: null in _kafka_timestamp"
    assert ignored_notes({"_kafka_timestamp": 1200}) == [times.replace("1 record", "1,200 records", 1)]
    assert ignored_notes({"a": 1}, layout_named("archive").unread) == [
        "unreadable values are stored as bytes only, by field: a 1"
    ]
    assert ignored_notes({}) == []
