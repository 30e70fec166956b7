"""Whether a drain would be refused: one judgement, asked alike wherever it is told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spark_jobs.protocol.errors import OffsetsUnavailable, RetryableError
from spark_jobs.protocol.progress import Progress
from spark_jobs.protocol.source import SourceState, drain_refusal, has_new_leader

PROGRESS = Progress("orders", 0, {0: 5, 1: 8}, "cluster-1", "id-1", leader_epochs={0: (5, 3), 1: (8, 3)})
SOURCE = SourceState("orders", "id-1", "cluster-1", {0: 0, 1: 0}, {0: 9, 1: 9}, {0: 3, 1: 4})
CUT = OffsetsUnavailable("cut", code="log-truncated", hint="none")


@pytest.mark.parametrize(
    ("source", "code"),
    [
        (replace(SOURCE, topic_id="id-2", low={0: 7, 1: 0}), "topic-recreated"),
        (replace(SOURCE, low={0: 7, 1: 0}), "retention-passed"),
        (replace(SOURCE, end={0: 4, 1: 9}), "log-truncated"),
    ],
)
def test_what_offsets_and_ids_show_is_judged_before_anybody_is_asked(source: SourceState, code: str) -> None:
    """The source's identity comes first, then next offsets that Kafka does not hold; no leader is asked."""
    refusal = drain_refusal(PROGRESS, source, table="t", ask_leader=pytest.fail)
    assert refusal is not None
    assert refusal.code == code


def test_a_cut_that_a_leader_tells_of_refuses_the_drain() -> None:
    """It is the refusal of a source that is right in all else; unasked leaders refuse nothing."""
    answers = {0: None, 1: CUT}
    assert drain_refusal(PROGRESS, SOURCE, table="t", ask_leader=answers.get) is CUT
    assert drain_refusal(PROGRESS, SOURCE, table="t", ask_leader=lambda _partition: None) is None
    assert drain_refusal(PROGRESS, SOURCE, table="t", ask_leader=None) is None


def test_what_asking_meets_is_the_refusal() -> None:
    """A leader that does not answer would stop the drain as well."""
    away = RetryableError("away", code="kafka-away", hint="none")

    def ask_leader(_partition: int) -> None:
        raise away

    assert drain_refusal(PROGRESS, SOURCE, table="t", ask_leader=ask_leader) is away


def test_leaders_are_new_where_epochs_differ_and_records_wait() -> None:
    """One epoch that nobody knows, or nothing to read, leaves nothing to ask."""
    assert [has_new_leader(PROGRESS, SOURCE, partition) for partition in (0, 1)] == [False, True]
    assert not has_new_leader(PROGRESS, replace(SOURCE, end={0: 9, 1: 8}), 1)
    assert not has_new_leader(PROGRESS, replace(SOURCE, leader_epochs={}), 1)
    assert not has_new_leader(replace(PROGRESS, leader_epochs={}), SOURCE, 1)
