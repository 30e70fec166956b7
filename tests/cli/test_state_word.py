"""What ``status`` says about a pipeline."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cli.commands import status
from cli.commands.state_word import PipelineFacts, StateWord, judge
from cli.commands.status import _is_outdated, tell
from cli.output import Report
from spark_jobs.config.settings import CatalogSettings, PipelineConfig, SluiceConfig
from spark_jobs.config.value_format import ValueSettings
from spark_jobs.connections.connect import shape_digest
from spark_jobs.connections.endpoints import Endpoints, clear_endpoints, write_endpoints
from spark_jobs.monitoring.survey import Problem, Surveyed, Surveyor
from spark_jobs.protocol.batch import Pause
from spark_jobs.protocol.errors import RetryableError, SluiceError, SourceChanged
from spark_jobs.protocol.progress import Progress
from spark_jobs.protocol.progress_parts import ShapedSpan
from spark_jobs.protocol.source import SourceState
from spark_jobs.protocol.work import layout_named

SOURCE = SourceState("flights", None, None, {0: 0}, {0: 0})
NOW_MS = 1_800_000_000_000
PAUSE = Pause("the broker moves", "ada@box", NOW_MS - 5_000)
SEEN = PipelineFacts(
    pipeline=PipelineConfig(name="flights", topic="flights", table="demo.flights", freshness_seconds=60),
    now_ms=NOW_MS,
    is_running=True,
    lag=0,
    committed_at_ms=NOW_MS - 10_000,
)

LATE_ENOUGH = SEEN.pipeline.model_copy(update={"freshness_seconds": 120})


@pytest.mark.parametrize(
    ("facts", "word"),
    [
        (SEEN, StateWord.CAUGHT_UP),
        (replace(SEEN, committed_at_ms=NOW_MS - 10**9), StateWord.CAUGHT_UP),
        (replace(SEEN, lag=5), StateWord.BEHIND),
        (replace(SEEN, lag=5, committed_at_ms=NOW_MS - 301_000), StateWord.STALLED),
        (replace(SEEN, lag=5, committed_at_ms=NOW_MS - 301_000, pipeline=LATE_ENOUGH), StateWord.BEHIND),
        (
            replace(SEEN, lag=5, committed_at_ms=NOW_MS - 10**9, running_since_ms=NOW_MS - 9_000),
            StateWord.BEHIND,
        ),
        (
            replace(SEEN, lag=5, committed_at_ms=NOW_MS - 10**9, waiting_since_ms=NOW_MS - 5_000),
            StateWord.BEHIND,
        ),
        (replace(SEEN, lag=5, committed_at_ms=None), StateWord.NEW),
        (replace(SEEN, lag=5, committed_at_ms=None, running_since_ms=NOW_MS - 10**6), StateWord.STALLED),
        (replace(SEEN, error=SourceChanged("re-created", code="x", hint="Do y.")), StateWord.FAILED),
        (replace(SEEN, is_running=False, lag=None), StateWord.STOPPED),
        (
            replace(
                SEEN,
                lag=5,
                committed_at_ms=None,
                running_since_ms=NOW_MS - 10**6,
                waiting_since_ms=NOW_MS - 5_000,
            ),
            StateWord.NEW,
        ),
        (replace(SEEN, lag=5, paused=PAUSE), StateWord.PAUSED),
        (replace(SEEN, error=SourceChanged("moved", code="x", hint="y"), paused=PAUSE), StateWord.PAUSED),
    ],
)
def test_word(facts: PipelineFacts, word: StateWord) -> None:
    """An idle topic is caught up however old its last commit; a backlog is stalled only after a while."""
    assert judge(facts).word is word


NIGHTLY = replace(
    SEEN,
    pipeline=SEEN.pipeline.model_copy(update={"schedule": "0 8 * * *"}),
    lag=5,
    committed_at_ms=NOW_MS - 23 * 3_600_000,
)


def test_a_schedule_stalls_only_after_its_tick() -> None:
    """NOW is a tick at 08:00: before it the backlog waits, soon after it somebody has to look."""
    before, after = (replace(NIGHTLY, now_ms=NOW_MS + hours * 3_600_000) for hours in (-1, 1))
    assert judge(before).word is StateWord.BEHIND
    assert before.next_drain_ms == NOW_MS
    assert judge(after).word is StateWord.STALLED
    came_later = replace(after, waiting_since_ms=NOW_MS + 60_000)
    assert judge(came_later).word is StateWord.BEHIND
    assert SEEN.next_drain_ms is None


@pytest.mark.parametrize("word", StateWord)
def test_only_states_that_mend_themselves_need_nobody(word: StateWord) -> None:
    """New, caught-up, behind and paused are well; stalled, failed and stopped need a person."""
    well = {StateWord.NEW, StateWord.CAUGHT_UP, StateWord.BEHIND, StateWord.PAUSED}
    assert word.needs_person is (word not in well)


def test_every_state_that_needs_a_person_says_what_to_type() -> None:
    """No state that needs a person leaves them without a next step."""
    needing = [
        replace(SEEN, lag=5, committed_at_ms=NOW_MS - 10**9),
        replace(SEEN, error=SourceChanged("re-created", code="x", hint="Do y.")),
        replace(SEEN, is_running=False),
    ]
    assert all(judge(facts).next_step for facts in needing)


def test_one_trouble_of_many_is_told_once_and_only_commands_are_to_be_typed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A broker that is away has every pipeline fail of the same; an error's hint is a sentence."""
    away = RetryableError("the broker does not answer", code="broker-away", hint="Check the network.")
    several = [
        replace(SEEN, error=away, pipeline=SEEN.pipeline.model_copy(update={"name": name})) for name in "abc"
    ]
    several.append(replace(SEEN, lag=5, committed_at_ms=None))
    tell(Report(), [(facts, judge(facts)) for facts in several])
    *table, told, hint = capsys.readouterr().out.splitlines()[:-1]
    assert (told, hint) == ("a, b, c: the broker does not answer", "  Check the network.")
    assert [line.rstrip().split("  ")[-1].strip() for line in table[1:]] == [
        *["see below"] * 3,
        "./sluice preview flights",
    ]


def test_an_outdated_table_is_named_with_what_makes_it_anew() -> None:
    """An expression that was edited changes no row by itself: nobody would know."""
    flat = judge(replace(SEEN, is_outdated=True))
    assert (flat.word, flat.next_step) == (
        StateWord.CAUGHT_UP,
        './sluice replay flights --all --reason "..."',
    )
    assert flat.reason.startswith("the table has rows of an earlier configuration: ")
    mirror = SEEN.pipeline.model_copy(update={"layout": layout_named("mirror")})
    assert judge(replace(SEEN, pipeline=mirror, is_outdated=True)).next_step.startswith("./sluice rebuild ")


def test_rows_that_another_configuration_made_are_found_by_their_spans() -> None:
    """As long as Kafka has their records: what is gone cannot be made anew. No schema file is read for it."""
    source = SourceState("flights", None, None, {0: 5}, {0: 9})
    today = shape_digest(SEEN.pipeline, {})

    def found(*spans: ShapedSpan, **value: str) -> bool:
        progress = Progress("flights", 0, {0: 9}, shaped_by=spans)
        told = SEEN.pipeline.model_copy(update={"value": ValueSettings.model_validate(value)})
        return _is_outdated(Surveyed(told, source, None), progress)

    assert found(ShapedSpan("other", {0: 0}), format="avro", registry="main")
    assert not found(ShapedSpan("other", {0: 0}), format="avro", file="orders.avsc")
    assert found(ShapedSpan("other", {0: 0}))
    assert not found(ShapedSpan(today, {0: 0}))
    assert not found(ShapedSpan("other", {0: 0}), ShapedSpan(today, {0: 5}))
    assert not found()


@pytest.mark.parametrize(
    ("refusal", "said"),
    [
        (None, "spark-connect of `./sluice up` stops again and again"),
        (SourceChanged("moved", code="x", hint="Do y."), "moved"),
    ],
)
def test_a_server_that_goes_on_ending_is_red_in_status(
    refusal: SluiceError | None, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where nothing waits, with its log; what a drain is refused for comes first."""
    config = SluiceConfig(
        home=str(tmp_path),
        state=str(tmp_path / "log"),
        kafka={"bootstrap.servers": "127.0.0.1:1"},
        catalog=CatalogSettings(properties={}),
        pipelines=(SEEN.pipeline,),
    )
    seen = Problem(SEEN.pipeline, refusal) if refusal else Surveyed(SEEN.pipeline, SOURCE, None)
    monkeypatch.setattr(Surveyor, "survey", lambda _: [seen])
    monkeypatch.setattr(Surveyor, "refusals", lambda *_: [refusal])
    ((_, before),) = status.look(config)
    write_endpoints(config.home, Endpoints(failing={"serve": "/s.log", "spark-connect": "/c.log"}))
    ((_, state),) = status.look(config)
    clear_endpoints(config.home)
    assert before.word is (StateWord.FAILED if refusal else StateWord.NEW)
    assert state.word is StateWord.FAILED
    assert state.reason.startswith(said)
    assert state.next_step == ("Do y." if refusal else "Read its log: /c.log.")
