"""Valid-through never promises more than what is in the table."""

from __future__ import annotations

from spark_jobs.drain.write_splits import valid_through_ms
from spark_jobs.protocol.source import SourceState

NOW = 1_000_000


def test_a_partition_read_to_its_end_counts_as_plan_time() -> None:
    """Without a backlog the table is complete up to the moment the batch was planned."""
    assert (
        valid_through_ms(
            next_offsets={0: 5, 1: 0},
            end_offsets={0: 5, 1: 0},
            max_timestamp_ms={0: 17},
            previous_ms=None,
            planned_at_ms=NOW,
        )
        == NOW
    )


def test_what_a_transaction_holds_back_is_not_promised() -> None:
    """A batch that was read to the last stable offset is not at the end while a transaction is open."""
    source = SourceState("t", None, None, {0: 0, 1: 0}, {0: 5, 1: 5}, high={0: 5, 1: 9})
    assert source.undecided == {1: 4}
    through = valid_through_ms(
        next_offsets={0: 5, 1: 5},
        end_offsets={**source.end, **source.high},
        max_timestamp_ms={1: 400},
        previous_ms=100,
        planned_at_ms=NOW,
    )
    assert through == 400


def test_the_partition_furthest_behind_decides() -> None:
    """One partition with a backlog holds the whole table back to its own largest record time."""
    assert (
        valid_through_ms(
            next_offsets={0: 5, 1: 3},
            end_offsets={0: 5, 1: 9},
            max_timestamp_ms={0: 900, 1: 400},
            previous_ms=100,
            planned_at_ms=NOW,
        )
        == 400
    )


def test_a_backlog_the_batch_did_not_touch_keeps_the_previous_value() -> None:
    """Nothing is promised for a partition of which nothing was read."""
    facts = {"next_offsets": {0: 5, 1: 3}, "end_offsets": {0: 5, 1: 9}, "max_timestamp_ms": {0: 900}}
    assert valid_through_ms(**facts, previous_ms=100, planned_at_ms=NOW) == 100
    assert valid_through_ms(**facts, previous_ms=None, planned_at_ms=NOW) is None


def test_a_record_dated_in_the_future_does_not_make_the_table_fresher_than_now() -> None:
    """A producer's clock cannot push valid-through past plan time."""
    assert (
        valid_through_ms(
            next_offsets={0: 5},
            end_offsets={0: 9},
            max_timestamp_ms={0: NOW * 5},
            previous_ms=None,
            planned_at_ms=NOW,
        )
        == NOW
    )


def test_it_never_goes_back() -> None:
    """Late records do not make a table less complete than it was."""
    assert (
        valid_through_ms(
            next_offsets={0: 5},
            end_offsets={0: 9},
            max_timestamp_ms={0: 50},
            previous_ms=100,
            planned_at_ms=NOW,
        )
        == 100
    )
