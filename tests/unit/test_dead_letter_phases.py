"""Dead letters by the phase that they did not pass: from the task that met them to the metric."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
from pyiceberg.schema import Schema

from spark_jobs.books.entries import entry_of
from spark_jobs.books.totals import Totals
from spark_jobs.drain.write_splits import add_up
from spark_jobs.kafka.chunks import Chunk
from spark_jobs.monitoring.metric_families import FAMILIES
from spark_jobs.monitoring.metrics import TableTotals, _add_totals, _family
from spark_jobs.protocol.batch import Balance, OutcomeKind, SplitOutcome, Written, counts, outcome_from_json
from spark_jobs.protocol.commit_summary import CommitSummary, counts_summary
from spark_jobs.records.reading_plan import JSON
from spark_jobs.records.row_maker import RowMaker
from spark_jobs.records.shape import Origin
from spark_jobs.schema.arrow_schema import arrow_schema
from spark_jobs.schema.iceberg_types import dead_letter_schema, with_metadata_columns
from spark_jobs.txlog.entries import Attempt
from tests.support.log_entries import TABLE_UUID, finished_phases, make_batch, parquet_written

LETTERS = {0: Balance(rows=5, dead_letters=5)}


def test_each_dead_letter_is_counted_under_its_own() -> None:
    """A chunk's, and those of an operator's check; rows are under none."""
    schema = pa.schema([("id", pa.int64()), *arrow_schema(with_metadata_columns(Schema()))])
    maker = RowMaker(
        JSON.decoder, Origin("t", 0, 0), "b", schema, arrow_schema(dead_letter_schema()), {0: {1: "cheap"}}
    )
    values: list[bytes | None] = [b'{"id":1}', b'{"id":2}', b"x", b'{"id":3}', b'{"id":4}']
    chunk = Chunk(
        0, [*range(5)], [1, 1, 1, 1, 1 << 62], [None, None, None, b"\xff", None], values, [None] * 5
    )
    made = maker.make(chunk)
    assert made.dead_letter_phases == {"decode": 1, "key": 1, "quality": 1}
    assert made.balances[0] == Balance(rows=2, dead_letters=3)
    assert made.ignored == {"_kafka_timestamp": 1}


def test_tasks_counts_are_added_up() -> None:
    """Whatever way they came."""
    parts = [Written(dead_letter_phases=each) for each in ({"decode": 1}, {}, {"decode": 2, "schema": 1})]
    outcomes = [SplitOutcome(n, OutcomeKind.WRITTEN, part) for n, part in enumerate(parts)]
    read = [outcome_from_json(each.to_json()) for each in outcomes]
    assert add_up(read, has_strays=False).dead_letter_phases == {"decode": 3, "schema": 1}


def test_the_log_hands_them_on_in_the_summary() -> None:
    """Whoever adopts the batch commits the same; a summary without any is as it always was."""
    batch = make_batch()
    said = counts_summary(
        batch, LETTERS, bytes_read=0, kafka={}, phases={"schema": 1, "decode": 3}, valid_through_ms=None
    )
    assert said["sluice.dead-letter-phases"] == '{"decode":3,"schema":1}'
    assert CommitSummary(said).dead_letter_phases == {"decode": 3, "schema": 1}
    bare = counts_summary(batch, LETTERS, bytes_read=0, kafka={}, phases={}, valid_through_ms=None)
    assert bare.keys() == said.keys() - {"sluice.dead-letter-phases"}
    assert CommitSummary(bare).dead_letter_phases == {}


def test_what_was_not_counted_so_is_unknown() -> None:
    """So that the phases are all dead letters together; the series is there before the first."""
    batch = make_batch()
    phases = finished_phases(batch)
    written = replace(parquet_written(batch), balances=LETTERS)
    told = replace(written, summary={"sluice.dead-letter-phases": '{"decode":4,"key":1}'})
    totals = Totals()
    for each in (written, told):
        entry = entry_of(Attempt(TABLE_UUID, "a", batch, (*phases[:3], each, *phases[4:]), (), 6))
        assert entry is not None
        totals.add(entry)
    families = {name: _family(name) for name in FAMILIES}
    _add_totals(families, "p", TableTotals(totals, totals.counts, None))
    _add_totals(families, "q", TableTotals(Totals(), totals.counts, None))
    samples = families["sluice_dead_letters_by_phase_total"].samples
    assert {(s.labels["pipeline"], s.labels["phase"]): s.value for s in samples} == {
        ("p", "decode"): 4,
        ("p", "key"): 1,
        ("p", "unknown"): 5,
        ("q", "unknown"): 0,
    }


def test_people_are_told_them_where_there_are_any() -> None:
    """Behind their number."""
    assert (
        counts(LETTERS[0], {"key": 1, "decode": 4})
        == "5 rows, 5 dead letters (4 decode, 1 key), 0 tombstones"
    )
    assert counts(Balance(rows=1), {}) == "1 row, 0 dead letters, 0 tombstones"
    assert counts(Balance(rows=1, told_again=2)).endswith(", 2 repeated")
