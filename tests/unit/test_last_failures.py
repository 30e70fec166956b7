"""What the last runs failed of: kept, counted while alike, told by status and history."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from cli.commands.history import _why
from cli.commands.state_word import StateWord, judge
from spark_jobs.books.history import State
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.notices.failures import last_failures, work_failed, work_succeeded
from spark_jobs.notices.notice import Failure
from spark_jobs.protocol.errors import ConfigError, RetryableError, SluiceError
from tests.cli.test_state_word import NOW_MS, SEEN

if TYPE_CHECKING:
    from pathlib import Path

ORDERS = PipelineConfig(name="orders", topic="orders", table="lake.orders")
FULL = RetryableError("no space is left in /state", code="disk-full", hint="Make room.")
AWAY = RetryableError("no broker answers", code="broker-away", hint="Start it.")
GONE = ConfigError("no such topic", code="no-topic", hint="Make it.")


def failed(home: Path, *errors: SluiceError, work: str = "drain") -> Failure:
    """The failure that is kept after these."""
    for number, error in enumerate(errors):
        work_failed(str(home), ORDERS, work, error, attempt=f"attempt-{number}")
    return last_failures(str(home), "orders", None)[work]


def test_every_failure_is_kept_with_since_when_and_how_often(tmp_path: Path) -> None:
    """Also one that is tried again: alike ones are one, and another counts anew."""
    kept = failed(tmp_path, AWAY, FULL, FULL, FULL)
    assert (kept.code, kept.times, kept.attempt, kept.is_standing) == ("disk-full", 3, "attempt-3", True)
    assert kept.since_ms <= kept.at_ms
    assert "(3 times in a row since " in kept.sentence("drain")
    once = failed(tmp_path, AWAY)
    assert (once.times, once.is_standing) == (1, False)
    assert failed(tmp_path, GONE, AWAY).code == "no-topic"
    told = failed(tmp_path, ConfigError("No function matches.", code="x", hint="")).sentence("drain")
    assert told.endswith("No function matches"), "more may follow in the line"
    work_succeeded(str(tmp_path), ORDERS, "drain")
    assert last_failures(str(tmp_path), "orders", None) == {}


def test_a_commit_ends_what_a_drain_failed_of_and_no_upkeep(tmp_path: Path) -> None:
    """A drain that landed elsewhere is news to the one that failed here."""
    failed(tmp_path, GONE)
    at_ms = failed(tmp_path, FULL, work="upkeep").at_ms
    assert list(last_failures(str(tmp_path), "orders", at_ms + 1000)) == ["upkeep"]


@pytest.mark.parametrize(
    ("times", "lag", "word"),
    [(1, 5, StateWord.BEHIND), (3, 5, StateWord.FAILED), (1, None, StateWord.BEHIND)],
)
def test_status_tells_a_failure_that_is_tried_again(times: int, lag: int | None, word: StateWord) -> None:
    """Its reason and what to type stand there from the first time on; the third time a person is needed."""
    failure = Failure(
        "no space", "disk-full", "Make room.", NOW_MS, NOW_MS - 60_000, times, is_retryable=True
    )
    state = judge(replace(SEEN, lag=lag, failures={"drain": failure}))
    assert (state.word, state.next_step) == (word, "Make room.")
    assert "the last drain failed" in state.reason
    assert state.reason.endswith("no space")


def test_what_upkeep_failed_of_is_told_of_a_pipeline_that_is_caught_up() -> None:
    """It stops no drain, and needs its line all the same."""
    failure = Failure("no space", "disk-full", "Make room.", NOW_MS)
    state = judge(replace(SEEN, failures={"upkeep": failure}))
    assert (state.word, state.next_step) == (StateWord.CAUGHT_UP, "Make room.")
    assert state.reason.startswith("the last upkeep failed (at ")


@pytest.mark.parametrize("state", [State.UNFINISHED, State.LANDED])
def test_history_says_why_an_attempt_is_unfinished(state: State) -> None:
    """By the failure noted of that very attempt; without one, what can be said without it."""
    known: Any = SimpleNamespace(state=state, entry=SimpleNamespace(attempt="a"))
    unknown: Any = SimpleNamespace(state=state, entry=SimpleNamespace(attempt="b"))
    told = [_why(line, {"a": "no space is left"}) for line in (known, unknown)]
    under_way = "it is running, or its process ended or runs on another machine"
    assert told == (["no space is left", under_way] if state is State.UNFINISHED else ["", ""])
