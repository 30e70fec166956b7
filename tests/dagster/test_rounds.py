"""Rounds: which pipelines share a run, what a run of several is worth to each, and when it ends early."""

from __future__ import annotations

import json
import threading
import time
from contextlib import nullcontext
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from dagster import DagsterInstance, DagsterRunStatus, materialize
from dagster._core.storage.dagster_run import DagsterRun, RunOpConcurrency

from assets import rounds
from assets.pipeline_asset import DRAIN, pool_of, table_key
from assets.tables import table_asset
from orchestration import backlog_sensor
from orchestration.backlog_sensor import drains, topic_observations
from orchestration.run_requests import RunHistory, should_drain
from resources.sluice import Sluice
from spark_jobs.config.settings import CatalogSettings, PipelineConfig, SluiceConfig, SparkSettings
from spark_jobs.drain import drain as drain_module
from spark_jobs.drain.drain import DrainResult
from spark_jobs.monitoring.survey import Surveyed, TableState
from spark_jobs.protocol.batch import Pause
from spark_jobs.protocol.progress import Progress
from spark_jobs.protocol.source import SourceState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dagster import RunRequest

SLUICE = Sluice(SluiceConfig(home="/nowhere", state="/nowhere/log", catalog=CatalogSettings(properties={})))
JOB_OF_MATERIALIZE = "__ephemeral_asset_job__"


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with nothing else to do."""
    monkeypatch.setattr(rounds, "load_per_core", lambda: 0.1)


@pytest.fixture
def instance() -> Iterator[DagsterInstance]:
    """An instance in memory."""
    with DagsterInstance.ephemeral() as ephemeral:
        yield ephemeral


def pipeline_of(name: str) -> PipelineConfig:
    """A pipeline whose topic and table have its name."""
    return PipelineConfig(name=name, topic=name, table=f"lake.{name}")


def look(name: str, records: int = 5, paused: Pause | None = None) -> Surveyed:
    """A pipeline with a backlog; without a table unless it is paused."""
    source = SourceState(name, "id", "cluster", low={0: 0}, end={0: records})
    table = TableState("uuid", Progress(name, 0, {0: 0}, paused=paused), 0, {}) if paused else None
    return Surveyed(pipeline_of(name), source, table)


def asked(instance: DagsterInstance, *looks: Surveyed, rounds: int = 2) -> list[RunRequest]:
    """What a tick asks for."""
    requests, _ = drains(looks, instance, SLUICE, should_drain, rounds=rounds)
    return requests


def names(request: RunRequest) -> set[str]:
    """The pipelines of a request."""
    return {key.path[-1] for key in request.asset_selection or ()}


def begin(instance: DagsterInstance, request: RunRequest, **of_run: Any) -> DagsterRun:
    """A run under way, as the daemon makes it from a request."""
    selection = frozenset(request.asset_selection or ())
    of_run = {"job_name": "drain", "asset_selection": selection, "tags": dict(request.tags)} | of_run
    return instance.add_run(DagsterRun(status=DagsterRunStatus.STARTED, **of_run))


def test_small_backlogs_share_runs_and_large_ones_do_not(instance: DagsterInstance) -> None:
    """Twenty pipelines are two runs, one with a full batch and one with many records have their own."""
    small = [look(f"p{n}") for n in range(20)]
    alone, much, *shared = asked(instance, look("full", 2_000_000), look("many", 100_000), *small)
    assert [names(alone), names(much)] == [{"full"}, {"many"}]
    assert alone.run_key.startswith("full:")
    assert [len(names(each)) for each in shared] == [10, 10]
    assert names(shared[0]) | names(shared[1]) == {each.pipeline.name for each in small}


def test_each_pipeline_may_have_a_run_of_its_own(instance: DagsterInstance) -> None:
    """Without rounds nothing is shared, and one small pipeline alone makes no round either."""
    each = asked(instance, look("a"), look("b"), rounds=0)
    assert [request.tags["sluice/pipeline"] for request in each] == ["a", "b"]
    (alone,) = asked(instance, look("a"))
    assert alone.run_key == each[0].run_key


def test_no_more_rounds_are_under_way_than_allowed(instance: DagsterInstance) -> None:
    """Pipelines of a round that is queued or runs are not asked for again; others wait for its end."""
    first = asked(instance, *(look(f"p{n}") for n in range(40)))
    assert [len(names(each)) for each in first] == [16, 16]
    begin(instance, first[0])
    begin(instance, first[1])
    assert not asked(instance, *(look(f"p{n}") for n in range(40)))
    assert [names(each) for each in asked(instance, look("full", 2_000_000))] == [{"full"}]


@pytest.mark.parametrize(("cores", "most"), [(1, 2), (2, 4), (16, 6)])
def test_rounds_leave_runs_of_the_queue_to_others(
    cores: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By default there are two a core, since a round waits half of its time; the queue starts ten runs."""
    monkeypatch.setattr(backlog_sensor.os, "cpu_count", lambda: cores)
    config = SLUICE.config.model_copy(update={"spark": SparkSettings(remote="sc://spark:15002")})
    assert backlog_sensor.rounds_of(config) == most


def test_a_round_waits_for_no_pool(instance: DagsterInstance) -> None:
    """Compaction of a mirror has the pool of its drains: it would hold all others of the round."""
    pools = RunOpConcurrency(
        root_key_counts={},
        all_pools={pool_of(pipeline_of("b"), DRAIN)},
        has_unconstrained_root_nodes=False,
    )
    instance.add_run(DagsterRun("upkeep", status=DagsterRunStatus.STARTED, run_op_concurrency=pools))
    assert [names(each) for each in asked(instance, look("a"), look("b"), look("c"))] == [{"b"}, {"a", "c"}]


def test_a_paused_pipeline_has_no_place_in_a_round(instance: DagsterInstance) -> None:
    """The others of the tick are drained."""
    paused = look("b", paused=Pause("the broker moves", "ada@box", 1))
    assert [names(each) for each in asked(instance, look("a"), paused, look("c"))] == [{"a", "c"}]


def test_a_tick_observes_few_topics_and_the_next_one_others() -> None:
    """The daemon writes them one by one before it starts runs: a thousand would take a minute."""
    looks, sluice = [look(f"p{n}") for n in range(15)], Sluice(SLUICE.config)
    first, second, third = (topic_observations(looks, sluice, now) for now in (1e9, 1e9 + 5, 1e9 + 10))
    assert [len(first), len(second), len(third)] == [10, 5, 0]
    assert len({str(each.asset_key) for each in (*first, *second)}) == 15


class NoServers:
    """The resource ``sluice`` of drains that ask nobody."""

    def connections(self, *_args: object, **_of_run: object) -> nullcontext[None]:
        return nullcontext()


def run_round(
    instance: DagsterInstance,
    monkeypatch: pytest.MonkeyPatch,
    request: RunRequest,
    drain_b: Callable[[], None],
    limit_seconds: float = 100.0,
) -> tuple[DagsterRun, list[str]]:
    """Run a round of a, b and c, whose drains change nothing; return it and the names of those drained."""
    drained = []

    def drain(pipeline: PipelineConfig, *_args: object, **_asked: object) -> DrainResult:
        if pipeline.name == "b":
            drain_b()
        drained.append(pipeline.name)
        return DrainResult(pipeline.name, pipeline.table, "caught-up", None)

    monkeypatch.setattr(drain_module, "drain", drain)
    monkeypatch.setattr(rounds, "STEP_LIMIT_SECONDS", limit_seconds)
    result = materialize(
        [table_asset(pipeline_of(name)) for name in "abc"],
        instance=instance,
        resources={"sluice": NoServers(), "spark": object()},
        tags=dict(request.tags),
        raise_on_error=False,
    )
    run = instance.get_run_by_id(result.run_id)
    assert run is not None
    return run, drained


def hang() -> None:
    """Take longer than any test."""
    time.sleep(60)


def fail() -> None:
    """Fail as a bug does."""
    raise ValueError("b is broken")


def cancel(instance: DagsterInstance) -> None:
    """Cancel the only run as the UI does."""
    (run,) = instance.get_runs()
    instance.report_run_canceling(run)
    raise KeyboardInterrupt


@pytest.mark.parametrize("ending", ["hangs", "is canceled"])
def test_who_was_not_reached_is_asked_for_again_at_once(
    instance: DagsterInstance, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    """Of a round that ends in b, a and b were attempts, which pause; c was none. Only b's hanging is kept."""
    looks = [look(name) for name in "abc"]
    (request,) = asked(instance, *looks)
    end = hang if ending == "hangs" else lambda: cancel(instance)
    run, drained = run_round(instance, monkeypatch, request, end, 0.2 if ending == "hangs" else 100.0)
    assert run.status is (DagsterRunStatus.FAILURE if ending == "hangs" else DagsterRunStatus.CANCELED)
    assert drained == ["a"]
    states = json.loads(request.tags[".dagster/sluice-state"])
    later = RunHistory(instance, JOB_OF_MATERIALIZE, time.time())
    later.recall(states.items(), in_rounds=True)
    assert [later.attempts(name, states[name]) for name in "abc"] == [1, 1, 0]
    assert [
        later.request(table_key(pipeline_of(name)), name, states[name], "") is None for name in "abc"
    ] == [
        True,
        True,
        False,
    ]
    assert later.over_limit("abc") == ({"b"} if ending == "hangs" else set())


def test_a_failure_ends_no_round(instance: DagsterInstance, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others go on, and the asset that failed is asked for alone with its next attempt after a pause."""
    (request,) = asked(instance, *(look(name) for name in "abc"))
    run, drained = run_round(instance, monkeypatch, request, fail)
    assert (run.status, drained) == (DagsterRunStatus.FAILURE, ["a", "c"])
    state = json.loads(request.tags[".dagster/sluice-state"])["b"]
    later = RunHistory(instance, JOB_OF_MATERIALIZE, time.time() + 11)
    later.recall([("b", state)], in_rounds=True)
    alone = later.request(table_key(pipeline_of("b")), "b", state, "")
    assert alone is not None
    assert alone.run_key == f"b:{state}:1"


def test_a_step_that_hears_nothing_ends_with_its_process(
    instance: DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What hangs in a C library cannot be interrupted: the process ends, and Dagster sees it is gone."""
    (request,) = asked(instance, *(look(name) for name in "abc"))
    gone = threading.Event()
    ended: list[int] = []
    monkeypatch.setattr(rounds, "INTERRUPTED_STEP_SECONDS", 0.1)
    monkeypatch.setattr(rounds.os, "_exit", lambda code: (ended.append(code), gone.set()))

    def hear_nothing() -> None:
        try:
            hang()
        except BaseException:
            gone.wait(30)
            raise

    run_round(instance, monkeypatch, request, hear_nothing, 0.2)
    assert ended == [1]


@pytest.mark.parametrize("connecting", [True, False], ids=["Spark starts", "the machine is busy"])
def test_waiting_for_others_is_nobodys_fault(monkeypatch: pytest.MonkeyPatch, *, connecting: bool) -> None:
    """While Spark starts the limit stands still for a while, a busy machine stretches it; no tag is left."""
    monkeypatch.setattr(rounds, "is_connecting", lambda: connecting)
    monkeypatch.setattr(rounds, "load_per_core", lambda: 0.1 if connecting else 4.0)
    monkeypatch.setattr(rounds, "STEP_LIMIT_SECONDS", 0.1)
    monkeypatch.setattr(rounds, "CONNECTING_SECONDS", 0.3)
    tags: list[object] = []
    context: Any = SimpleNamespace(
        run=SimpleNamespace(tags={rounds.TAG_ROUND: rounds.IS_ROUND}, run_id="r"),
        instance=SimpleNamespace(add_run_tags=lambda *added: tags.append(added)),
        log=SimpleNamespace(error=lambda *_: None),
    )
    with rounds.step_limit(context, "a"):
        time.sleep(0.2)
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt), rounds.step_limit(context, "a"):
        hang()
    assert time.monotonic() - began >= 0.4
    assert not tags
