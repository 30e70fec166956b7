"""Requests of the sensors against a real instance's history of runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from dagster import AssetKey, DagsterInstance, DagsterRunStatus
from dagster._core.storage.tags import TagType, get_tag_type

from orchestration.run_requests import RunHistory, Wanted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dagster import DagsterRun, RunRequest

FAILED = DagsterRunStatus.FAILURE
KEY = AssetKey(["lake", "orders"])


@pytest.fixture
def instance() -> Iterator[DagsterInstance]:
    """An instance in memory."""
    with DagsterInstance.ephemeral() as ephemeral:
        yield ephemeral


def request(instance: DagsterInstance, now: float = 9e9, state: str = "s1") -> RunRequest | None:
    """What a tick at ``now`` would ask for."""
    return RunHistory(instance, "drain", now).request(KEY, "orders", state, "because")


def record(instance: DagsterInstance, asked: RunRequest | None, status: DagsterRunStatus) -> DagsterRun:
    """A run as the daemon makes it from a request."""
    assert asked is not None
    return instance.create_run(
        job_name="drain",
        run_id=None,
        run_config={},
        status=status,
        tags=dict(asked.tags),
        root_run_id=None,
        parent_run_id=None,
        step_keys_to_execute=None,
        execution_plan_snapshot=None,
        job_snapshot=None,
        parent_job_snapshot=None,
        asset_selection=frozenset([KEY]),
        asset_check_selection=None,
        resolved_op_selection=None,
        op_selection=None,
        remote_job_origin=None,
        job_code_origin=None,
        asset_graph=None,
    )


def test_a_failed_run_is_followed_by_another_key(instance: DagsterInstance) -> None:
    """Dagster skips a key it has seen: the next attempt from the same state has the next number."""
    keys = []
    for _ in range(3):
        asked = request(instance)
        keys.append(asked and asked.run_key)
        record(instance, asked, DagsterRunStatus.FAILURE)
    assert keys == ["orders:s1:0", "orders:s1:1", "orders:s1:2"]


def test_a_failure_is_paused_after_and_a_changed_state_is_not(instance: DagsterInstance) -> None:
    """Right after a failure nothing is asked from the same state; moved offsets are drained at once."""
    run = record(instance, request(instance), DagsterRunStatus.FAILURE)
    (stored,) = instance.get_run_records()
    now = stored.create_timestamp.timestamp()
    assert run.tags[".dagster/sluice-attempt"] == "0"
    assert request(instance, now + 1) is None
    assert request(instance, now + 11) is not None
    changed = request(instance, now + 1, state="s2")
    assert changed is not None
    assert changed.run_key == "orders:s2:0"


def test_the_memory_is_shown_to_nobody_and_that_of_before_is_found(instance: DagsterInstance) -> None:
    """Dagster hides state and attempt; runs with the visible tags of earlier versions count as well."""
    asked = request(instance)
    assert asked is not None
    visible = {tag for tag in asked.tags if get_tag_type(tag) is not TagType.HIDDEN}
    assert visible == {"sluice/pipeline", "sluice/reason"}
    earlier = {"sluice/pipeline": "orders", "sluice/state": "s1", "sluice/attempt": "3"}
    record(instance, asked.with_replaced_attrs(tags=earlier), DagsterRunStatus.FAILURE)
    following = request(instance)
    assert following is not None
    assert following.run_key == "orders:s1:4"


def test_the_attempts_of_all_are_read_by_queries_that_do_not_grow(
    instance: DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hundred pipelines cost as many queries as one, and each has the attempts of its own state."""
    names = [f"p{n}" for n in range(100)]
    for name in names[:3]:
        for _ in range(4):
            history = RunHistory(instance, "drain", 9e9)
            record(instance, history.request(KEY, name, f"s-{name}", "because"), DagsterRunStatus.FAILURE)
    asked: list[int] = []
    read = instance.get_run_records
    monkeypatch.setattr(instance, "get_run_records", lambda *a, **k: (asked.append(1), read(*a, **k))[1])
    history = RunHistory(instance, "drain", 9e9)
    states = [(name, f"s-{name}") for name in names]
    history.recall(states)
    requests = [history.request(KEY, name, f"s-{name}", "because") for name in names]
    assert [each and each.run_key for each in requests[:4]] == [
        "p0:s-p0:4",
        "p1:s-p1:4",
        "p2:s-p2:4",
        "p3:s-p3:0",
    ]
    assert len(asked) == 2, "without rounds nobody asks for past ones"
    history.recall(states, in_rounds=True)
    assert len(asked) == 5


def test_who_ran_rarely_is_found_behind_many_runs_of_others(instance: DagsterInstance) -> None:
    """Its next key is a new one: Dagster would skip a key that it has seen, for ever."""
    record(instance, RunHistory(instance, "drain", 9e9).request(KEY, "rare", "s-rare", ""), FAILED)
    for _ in range(20):
        history = RunHistory(instance, "drain", 9e9)
        record(instance, history.request(KEY, "often", "s-often", "because"), FAILED)
    both = [Wanted(KEY, name, f"s-{name}", "because") for name in ("rare", "often")]
    keys = [each.run_key for each in RunHistory(instance, "drain", 9e9).requests(both)]
    assert keys == ["rare:s-rare:1", "often:s-often:20"]


def test_a_failure_of_a_time_to_come_pauses_nothing(instance: DagsterInstance) -> None:
    """After a clock was set back a run that seems to end tomorrow would hold its pipeline until then."""
    record(instance, request(instance), DagsterRunStatus.FAILURE)
    (stored,) = instance.get_run_records()
    assert request(instance, stored.create_timestamp.timestamp() - 3600) is not None


@pytest.mark.parametrize("status", [DagsterRunStatus.NOT_STARTED, DagsterRunStatus.STARTED])
def test_a_run_under_way_is_seen_whoever_started_it(
    instance: DagsterInstance, status: DagsterRunStatus
) -> None:
    """Runs are matched by asset, not by our tags, and only while they are not finished."""
    record(instance, request(instance), DagsterRunStatus.SUCCESS)
    assert not RunHistory(instance, "drain", 0).is_under_way(KEY)
    record(instance, request(instance), status)
    history = RunHistory(instance, "drain", 0)
    assert history.is_under_way(KEY)
    assert not history.is_under_way(AssetKey(["lake", "other"]))
