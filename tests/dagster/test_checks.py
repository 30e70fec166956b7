"""The built-in checks as Dagster runs them, over a real broker, table and audit."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from dagster import AssetCheckSeverity, AssetKey, DagsterInstance, DagsterRunStatus, build_schedule_context
from pyiceberg.expressions import EqualTo

from orchestration.build import build_definitions
from orchestration.run_requests import RunHistory
from prove.lab.pipeline_lab import configure
from spark_jobs.checks.registry import CHECKS
from spark_jobs.connections.connect import open_log
from spark_jobs.kafka.admin import KafkaAdmin
from spark_jobs.monitoring.audit_notes import read_note
from tests.support.new_lab import NewLab, as_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from dagster import AssetCheckEvaluation

    from prove.lab.pipeline_lab import Lab

EVERY = {check.name for check in CHECKS if not check.only_with}
pytestmark = [pytest.mark.kafka, pytest.mark.spark]
TABLE_KEY = AssetKey(["lab", "orders"])


@pytest.fixture
def instance() -> Iterator[DagsterInstance]:
    """An instance in memory."""
    with DagsterInstance.ephemeral() as ephemeral:
        yield ephemeral


def evaluate(lab: Lab, instance: DagsterInstance) -> Mapping[str, AssetCheckEvaluation]:
    """One run of the job ``checks``; the evaluations by name."""
    result = build_definitions(lab.config).resolve_job_def("checks").execute_in_process(instance=instance)
    assert result.success
    return {evaluation.check_name: evaluation for evaluation in result.get_asset_check_evaluations()}


def test_a_drained_table_passes_every_check_and_is_audited_once_an_hour(
    new_lab: NewLab, instance: DagsterInstance
) -> None:
    """The job evaluates all checks with plotted numbers; a second run within the hour reads no records."""
    lab = new_lab(as_json(*({"id": n} for n in range(30))))
    lab.drain()
    before_ms = time.time() * 1000
    found = evaluate(lab, instance)
    assert set(found) == EVERY
    failed = {name: evaluation.description for name, evaluation in found.items() if not evaluation.passed}
    assert not failed
    numbers = {name: value.value for name, value in found["complete"].metadata.items()}
    assert (numbers["offsets"], numbers["audited_offsets"], numbers["missing"]) == (30, 30, 0)
    assert numbers["runbook"] == "/docs/runbook.md#check-complete"
    uuid = str(lab.table().metadata.table_uuid)
    store = open_log(lab.config).store
    note = read_note(store, uuid)
    assert note is not None
    assert note.audited_at_ms >= before_ms - 1
    evaluate(lab, instance)
    assert read_note(store, uuid) == note


def test_a_table_is_judged_in_the_run_that_first_fills_it_and_not_before(
    new_lab: NewLab, instance: DagsterInstance
) -> None:
    """Without a table nothing is evaluated, thus nothing passes; later drains leave it to the job."""
    lab = new_lab(as_json({"id": 0}))
    assert not evaluate(lab, instance)
    drain = build_definitions(lab.config).resolve_job_def("drain")
    first, second = (drain.execute_in_process(instance=instance) for _ in range(2))
    assert {each.check_name: each.passed for each in first.get_asset_check_evaluations()} == dict.fromkeys(
        EVERY, True
    )
    assert not second.get_asset_check_evaluations()


def test_one_look_is_at_all_tables_of_a_run(
    new_lab: NewLab, instance: DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kafka is asked once for their topics; a later run looks again."""
    lab = new_lab(as_json({"id": 0}))
    lab.drain()
    topic = lab.pipeline.topic
    more = {f"other_{n}": {"topic": topic, "table": f"lab.other_{n}"} for n in range(3)}
    configure(lab, "pipelines", more)
    asked: list[int] = []
    ask = KafkaAdmin.source_states
    monkeypatch.setattr(KafkaAdmin, "source_states", lambda *a, **k: (asked.append(1), ask(*a, **k))[1])
    evaluate(lab, instance)
    first, asked[:] = len(asked), []
    evaluate(lab, instance)
    assert (first, len(asked)) == (3, 1), "the first run also audits, and looks again after that"


def test_a_lost_row_fails_complete_until_it_is_back(new_lab: NewLab, instance: DagsterInstance) -> None:
    """The audit behind the check finds it, with the command that mends; once it is back the check passes."""
    lab = new_lab(as_json(*({"id": n} for n in range(10))))
    lab.drain()
    row = lab.table().scan(row_filter=EqualTo("_kafka_offset", 4)).to_arrow()
    as_ours = {"sluice.attempt": "a defect"}
    lab.table().delete(EqualTo("_kafka_offset", 4), snapshot_properties=as_ours)
    complete = evaluate(lab, instance)["complete"]
    assert not complete.passed
    assert complete.severity is AssetCheckSeverity.ERROR
    assert complete.metadata["missing"].value == 1
    assert complete.metadata["fix"].value == "./sluice audit orders"
    lab.table().append(row, snapshot_properties=as_ours)
    assert evaluate(lab, instance)["complete"].passed


def test_rows_removed_by_another_writer_are_told_and_the_refused_drain_is_a_stall(
    new_lab: NewLab, instance: DagsterInstance
) -> None:
    """Nothing is missing, but a drain would stop, and `stall` says why and what to do."""
    lab = new_lab(as_json(*({"id": n} for n in range(10))))
    lab.drain()
    lab.table().delete(EqualTo("_kafka_offset", 4))
    found = evaluate(lab, instance)
    assert found["complete"].passed
    assert found["complete"].metadata["removed"].value == 1
    assert "another writer removed 1 row" in str(found["complete"].description)
    assert not found["stall"].passed
    assert "another program changed the table's rows" in str(found["stall"].description)


def test_limits_severities_and_what_is_off_come_from_the_configuration(
    new_lab: NewLab, instance: DagsterInstance
) -> None:
    """A backlog over the limit fails as severely as configured; a check that is off is not there."""
    lab = new_lab(as_json({"id": 0}))
    lab.drain()
    checks = {"warn": ["routes"], "off": ["schema"], "lag": 3}
    configure(lab, "pipelines/orders", {"checks": checks})
    new_lab.produce(lab, as_json(*({"id": n} for n in range(5))))
    found = evaluate(lab, instance)
    assert "schema" not in found
    assert not found["lag"].passed
    assert found["lag"].severity is AssetCheckSeverity.ERROR
    assert found["lag"].metadata["lag_records"].value == 5
    assert found["stall"].passed


def test_a_requested_drain_judges_nothing(new_lab: NewLab, instance: DagsterInstance) -> None:
    """The run that a sensor asks for has no check in it: every commit would wait for them."""
    request = RunHistory(instance, "drain", time.time()).request(TABLE_KEY, "orders", "state", "reason")
    assert request is not None
    job = build_definitions(new_lab().config).resolve_job_def("drain")
    asked = job.get_subset(
        asset_selection={*(request.asset_selection or ())},
        asset_check_selection=None if request.asset_check_keys is None else {*request.asset_check_keys},
    )
    assert [node.name for node in asked.nodes] == ["drain_orders"]


def test_the_schedule_waits_for_the_run_before(new_lab: NewLab, tmp_path: Path) -> None:
    """Slow checks do not pile up in their pools."""
    definitions = build_definitions(new_lab().config)
    checks, job = definitions.resolve_schedule_def("checks"), definitions.resolve_job_def("checks")
    repository = definitions.get_repository_def()
    with (
        DagsterInstance.local_temp(str(tmp_path)) as instance,
        build_schedule_context(instance=instance, repository_def=repository) as context,
    ):
        assert len(checks.evaluate_tick(context).run_requests or ()) == 1
        run = instance.create_run_for_job(job, status=DagsterRunStatus.STARTED)
        assert not checks.evaluate_tick(context).run_requests
        instance.report_run_canceled(run)
        assert len(checks.evaluate_tick(context).run_requests or ()) == 1
