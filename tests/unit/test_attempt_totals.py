"""What counters are made of."""

from __future__ import annotations

import copy
import json

from spark_jobs.books.entries import BookEntry
from spark_jobs.books.totals import Distribution, Totals
from spark_jobs.kafka.errors import ClientStatistics, figures_together
from spark_jobs.protocol.batch import Balance, BatchCounts
from spark_jobs.protocol.offsets import OffsetRange, OffsetRanges


def entry(*, kind: str = "drain", is_landed: bool = True, **durations_ms: int) -> BookEntry:
    """One finished attempt over ten offsets."""
    return BookEntry(
        pipeline="p",
        table="lake.p",
        table_uuid="u",
        kind=kind,
        batch_id="b",
        attempt="a",
        topic="t",
        generation=0,
        ranges=OffsetRanges((OffsetRange(0, 0, 10),)),
        is_landed=is_landed,
        counts=BatchCounts({0: Balance(rows=8, dead_letters=1, tombstones=1)}, 100, 50, 2, 1),
        snapshot_id=1,
        dead_letter_snapshot_id=None,
        durations_ms=durations_ms,
        reason="",
        actor="",
        run_id="",
        sluice_version="",
        started_at_us=0,
        finished_at_us=1,
        valid_through_ms=None,
    )


def test_buckets_are_cumulative_and_end_with_all() -> None:
    """A duration at a bound is within it."""
    distribution = Distribution((1.0, 2.0))
    for seconds in (0.5, 1.0, 1.5, 9.0):
        distribution.add(seconds)
    assert distribution.buckets() == [("1.0", 2), ("2.0", 3), ("+Inf", 4)]
    assert distribution.seconds == 12.0


def test_what_never_landed_adds_nothing_but_itself() -> None:
    """Rows and files of an attempt that was given up are in no table."""
    totals = Totals()
    totals.add(entry(commit=200, tasks=800))
    totals.add(entry(is_landed=False))
    totals.add(entry(kind="pause"))
    assert (totals.landed, totals.given_up) == ({"drain": 1, "pause": 1}, 1)
    assert (totals.batches.count, totals.batches.seconds, totals.commits.seconds) == (1, 1.0, 0.2)
    assert totals.balance.rows == 16


def test_a_copy_is_added_to_alone() -> None:
    """The sums of the books are kept while those of the log are added anew at every look."""
    kept = Totals()
    kept.add(entry(commit=1))
    copy.deepcopy(kept).add(entry(commit=1))
    assert (kept.landed["drain"], kept.batches.count, kept.balance.rows) == (1, 1, 8)


def test_figures_of_librdkafka_are_taken_from_its_last_words() -> None:
    """Bootstrap placeholders are no brokers; other words than expected are no figures and no error."""
    broker = {"nodeid": 1, "rxerrs": 1, "txerrs": 2, "req_timeouts": 3, "rtt": {"p99": 900}}
    statistics = ClientStatistics()
    assert statistics.latest == {}
    statistics("{}")
    assert statistics.latest == {}
    statistics(json.dumps({"rx_bytes": 5, "rxmsgs": 2, "brokers": {"a": broker, "b": {"nodeid": -1}}}))
    figures = {"received_bytes": 5, "received_messages": 2, "errors": 6, "rtt_p99_us": 900}
    assert statistics.latest == figures
    assert figures_together([figures, figures | {"rtt_p99_us": 100}, {}]) == {
        "received_bytes": 10,
        "received_messages": 4,
        "errors": 12,
        "rtt_p99_us": 900,
    }
