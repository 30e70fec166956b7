"""What a person sees of many pipelines every half minute, under `up`."""

from __future__ import annotations

from cli.commands.state_word import PipelineFacts, PipelineState, StateWord, judge
from cli.commands.up import difference
from cli.commands.watch import look_lines
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.protocol.errors import RetryableError

AWAY = RetryableError("the broker does not answer", code="kafka-away", hint="Is it up?")


def pipeline(number: int, topic: str = "", freshness_seconds: float = 60) -> PipelineConfig:
    """One of many."""
    name = f"p{number}"
    return PipelineConfig(
        name=name, topic=topic or name, table=f"lake.{name}", freshness_seconds=freshness_seconds
    )


def seen(
    number: int, lag: int = 0, error: RetryableError | None = None
) -> tuple[PipelineFacts, PipelineState]:
    """A look at it, a second after a commit."""
    facts = PipelineFacts(pipeline(number), 10_000, True, lag=lag, committed_at_ms=9_000, error=error)
    return facts, judge(facts)


def test_fifty_pipelines_are_a_count_and_the_one_that_needs_a_person() -> None:
    """What goes its way has no line, also when it fell behind; one trouble is told once."""
    before = {f"p{number}": StateWord.CAUGHT_UP for number in range(50)}
    well = [*(seen(n) for n in range(40)), *(seen(n, lag=617) for n in range(40, 42))]
    lines = list(look_lines([*well, *(seen(n, error=AWAY) for n in range(42, 50))], before))
    assert lines == [
        "50 pipelines: 40 caught-up, 2 behind (1,234 records), 8 failed",
        f"  p42, p43, p44, p45, p46 and 3 more: caught-up, now failed: {AWAY.message}\n    {AWAY.hint}",
    ]


def test_who_needs_a_person_is_named_at_every_look_and_once_more_when_it_goes_well_again() -> None:
    """Why is told when it begins; the first look tells no changes: there is nothing before it."""
    assert list(look_lines([seen(1, error=AWAY)], {}))[1].startswith("  p1: failed: the broker")
    assert list(look_lines([seen(1, error=AWAY)], {"p1": StateWord.FAILED}))[1:] == [
        "  p1: still failed; see ./sluice status"
    ]
    assert list(look_lines([seen(1)], {"p1": StateWord.FAILED}))[1:] == ["  p1: failed, now caught-up"]
    assert list(look_lines([seen(1)], {})) == ["1 pipeline: 1 caught-up"]
    assert list(look_lines([], {})) == ["0 pipelines: none is configured"]


def test_a_changed_configuration_says_which_pipelines_came_went_and_read_another_topic() -> None:
    """Also what is otherwise set, without saying how: the file says it."""
    before = [pipeline(1), pipeline(2), pipeline(3), pipeline(4)]
    after = [pipeline(1, topic="other"), pipeline(3, freshness_seconds=5), pipeline(4), pipeline(5)]
    assert list(difference(before, after)) == [
        "new: p5",
        "removed: p2",
        "p1 reads other instead of p1",
        "changed settings: p3",
    ]
