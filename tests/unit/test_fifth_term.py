"""A balance is a map by name: a term that nobody knew is written, kept and shown wherever the four are.

No line of the product names the term that these tests add; how the books keep it is in
``tests/contract/test_books.py``.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from cli import output
from spark_jobs.books.entries import entry_of
from spark_jobs.books.totals import Totals
from spark_jobs.drain.batch_run import BatchResult, committed_line
from spark_jobs.monitoring.metric_families import FAMILIES
from spark_jobs.monitoring.metrics import TableTotals, _add_totals, _family
from spark_jobs.protocol.batch import (
    Balance,
    BatchCounts,
    OutcomeKind,
    SplitOutcome,
    Written,
    outcome_from_json,
    total,
    unbalanced,
)
from spark_jobs.protocol.commit_summary import CommitSummary, counts_summary
from spark_jobs.txlog.entries import ParquetWritten, entry_to_json, fold
from tests.support.log_entries import TABLE_UUID, finished_phases, make_batch, parquet_written

if TYPE_CHECKING:
    from spark_jobs.txlog.entries import Attempt

FIVE = Balance(rows=5, dead_letters=1, gaps=1, filtered=3)


def _landed() -> Attempt:
    batch = make_batch()
    written = replace(parquet_written(batch), balances={0: FIVE})
    phases = finished_phases(batch)
    return fold(
        TABLE_UUID,
        batch.attempt,
        {
            f"{number}-{entry.phase}.json": entry_to_json(entry, batch, TABLE_UUID)
            for number, entry in enumerate((*phases[:3], written, *phases[4:]), start=1)
        },
    )


def test_it_accounts_for_offsets() -> None:
    """It balances a range and adds up, and what it counts are records."""
    batch = make_batch()
    assert unbalanced(batch.ranges, {0: FIVE}) == {}
    assert unbalanced(batch.ranges, {0: Balance(rows=5, dead_letters=1, gaps=1)}) == {0: 3}
    assert total([FIVE, Balance(rows=1), FIVE]) == Balance(rows=11, dead_letters=2, gaps=2, filtered=6)
    assert FIVE.records == 9


def test_tasks_and_the_log_hand_it_on() -> None:
    """Under its name beside the four, so that whoever adopts the batch commits the same counts."""
    outcome = SplitOutcome(1, OutcomeKind.WRITTEN, written=Written(balances={0: FIVE}))
    assert outcome_from_json(outcome.to_json()) == outcome
    written = _landed().entry(ParquetWritten)
    assert written is not None
    assert written.balances == {0: FIVE}


def test_the_summary_keeps_the_four_as_they_were() -> None:
    """What versions before read is a list of four; the rest has a key of its own, only when there is any."""
    balances = {0: FIVE, 3: Balance(rows=2)}
    said = counts_summary(make_batch(), balances, bytes_read=0, kafka={}, valid_through_ms=None)
    assert json.loads(said["sluice.balance"]) == {"0": [5, 1, 0, 1], "3": [2, 0, 0, 0]}
    assert json.loads(said["sluice.balance-terms"]) == {"0": {"filtered": 3}}
    assert CommitSummary(said).balances == (FIVE, Balance(rows=2))
    four = counts_summary(make_batch(), {3: Balance()}, bytes_read=0, kafka={}, valid_through_ms=None)
    assert "sluice.balance-terms" not in four


def test_it_is_counted_and_scraped() -> None:
    """The metrics have a series for each term, told or not told in advance."""
    entry = entry_of(_landed())
    assert entry is not None
    assert entry.counts.balance == FIVE
    totals = Totals()
    totals.add(entry)
    families = {name: _family(name) for name in FAMILIES}
    _add_totals(families, "p", TableTotals(totals, totals.counts, None))
    samples = families["sluice_offsets_total"].samples
    assert {sample.labels["term"]: sample.value for sample in samples} == FIVE


@pytest.mark.parametrize("balance", [FIVE, Balance(rows=1_200)])
def test_screens_show_it(balance: Balance) -> None:
    """The command line, Dagster's log and JSON name it beside the others, and nothing when there is none."""
    result = BatchResult(make_batch(), BatchCounts({0: balance}), 1, None, {"log": 3}, {}, 0)
    has_term = balance is FIVE
    assert output.counts(balance).endswith(", 3 filtered") is has_term
    assert (", 3 filtered in 3 ms" in committed_line(result)) is has_term
    assert json.loads(json.dumps(result.shown()))["balance"] == balance
    if not has_term:
        assert output.counts(balance) == "1,200 rows, 0 dead letters, 0 tombstones"
