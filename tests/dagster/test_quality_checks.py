"""Suites in Dagster: checks of the table, the runs that judge them, sensors that know of a held batch."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest
from dagster import (
    AssetCheckSeverity,
    DagsterInstance,
    Definitions,
    SensorResult,
    TableMetadataValue,
    build_sensor_context,
)

from assets.checks import TAG_SINCE
from orchestration.backlog_sensor import backlog_sensor
from orchestration.build import build_definitions
from resources.sluice import Sluice
from spark_jobs.acts.held_batches import publish

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dagster import AssetCheckEvaluation, TableRecord

    from prove.lab.pipeline_lab import Lab
    from tests.support.new_lab import NewLab

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

NOT_NULL = {"expect_column_values_to_not_be_null": {"column": "customer"}}
CHEAP = {"expect_column_values_to_be_between": {"column": "price", "max_value": 100}}
QUALITY: list[dict[str, Any]] = [
    {"name": "after", "severity": "warn", "expectations": [NOT_NULL]},
    {"name": "gate", "when": "gate", "expectations": [CHEAP]},
]


@pytest.fixture
def instance() -> Iterator[DagsterInstance]:
    """An instance of the test's own."""
    with DagsterInstance.ephemeral() as ephemeral:
        yield ephemeral


def _orders(first: int, *, price: float = 1.5, customer: str | None = "c") -> list[bytes]:
    return [
        json.dumps({"id": n, "customer": customer, "price": price}).encode() for n in range(first, first + 5)
    ]


def _tick(lab: Lab, instance: DagsterInstance, cursor: str | None) -> SensorResult:
    """One tick of the sensor that has suites judged."""
    definitions = build_definitions(lab.config)
    with build_sensor_context(
        instance=instance, cursor=cursor, resources={"sluice": Sluice(lab.config)}, definitions=definitions
    ) as context:
        result = definitions.resolve_sensor_def("quality_sensor")(context)
    assert isinstance(result, SensorResult)
    return result


def _judge(lab: Lab, instance: DagsterInstance, tags: dict[str, str]) -> dict[str, AssetCheckEvaluation]:
    """The run the sensor asked for."""
    job = build_definitions(lab.config).resolve_job_def("quality")
    result = job.execute_in_process(instance=instance, tags=tags)
    assert result.success
    return {each.check_name: each for each in result.get_asset_check_evaluations()}


def test_suites_are_checks_and_drains_do_not_run_them(new_lab: NewLab) -> None:
    """A check a suite, named apart from the built-in ones; the drain's job has none of them."""
    lab = new_lab(quality=QUALITY)
    definitions = build_definitions(lab.config)
    Definitions.validate_loadable(definitions)
    keys = {
        job: {key.name for key in definitions.resolve_job_def(job).asset_layer.asset_graph.asset_check_keys}
        for job in ("quality", "drain")
    }
    assert keys == {"quality": {"quality_after", "quality_gate"}, "drain": set()}


def test_committed_rows_are_judged_once(new_lab: NewLab, instance: DagsterInstance) -> None:
    """A run for every new commit, on exactly what came since the last; failing rows have coordinates."""
    lab = new_lab(_orders(0), quality=QUALITY)
    assert _tick(lab, instance, None).run_requests == []
    lab.drain()
    first = _tick(lab, instance, None)
    (request,) = first.run_requests or ()
    assert {key.name for key in request.asset_check_keys or ()} == {"quality_after", "quality_gate"}
    assert all(each.passed for each in _judge(lab, instance, request.tags).values())
    assert _tick(lab, instance, first.cursor).run_requests == []
    for number in (5, 10):
        new_lab.produce(lab, _orders(number, customer=None))
        lab.drain()
    (request,) = _tick(lab, instance, first.cursor).run_requests or ()
    assert json.loads(request.tags[TAG_SINCE]) == {"0": 5}
    judged = _judge(lab, instance, request.tags)["quality_after"]
    assert (judged.passed, judged.severity) == (False, AssetCheckSeverity.WARN)
    assert judged.metadata["rows"].value == 10
    assert judged.metadata["unexpected_rows"].value == 10
    (row,) = _rows(judged)
    assert row.data["failing_rows"] == ", ".join(f"0:{offset} (null)" for offset in range(5, 15))
    assert "./sluice replay orders" in str(judged.metadata["fix"].value)


def test_a_held_batch_fails_its_check_and_asks_for_no_drain(
    new_lab: NewLab, instance: DagsterInstance
) -> None:
    """While it is held the gate's check fails with its rows; drains are not asked for until it is settled."""
    lab = new_lab(_orders(0), quality=QUALITY, freshness="1s")
    lab.drain()
    before = _tick(lab, instance, None)
    new_lab.produce(lab, _orders(5, price=900.0))
    assert lab.drain().stopped == "held"
    (request,) = _tick(lab, instance, before.cursor).run_requests or ()
    judged = _judge(lab, instance, request.tags)["quality_gate"]
    assert (judged.passed, judged.severity) == (False, AssetCheckSeverity.ERROR)
    assert _rows(judged)[0].data["failing_rows"].startswith("0:5 (900.0)")
    assert str(judged.metadata["fix"].value) == "./sluice held list orders"
    time.sleep(1.1)  # until the freshness asked for is over
    waiting = _backlog(lab, instance)
    assert not waiting.run_requests
    assert "0:5-10 is held" in json.loads(waiting.cursor or "{}")["orders"]
    with lab.connections() as connections:
        publish(lab.pipeline, connections, reason="a sale")
    new_lab.produce(lab, _orders(10))
    time.sleep(1.1)
    assert len(_backlog(lab, instance).run_requests or ()) == 1


def _rows(evaluation: AssetCheckEvaluation) -> list[TableRecord]:
    told = evaluation.metadata["expectations"]
    assert isinstance(told, TableMetadataValue)
    return list(told.records)


def _backlog(lab: Lab, instance: DagsterInstance) -> SensorResult:
    with build_sensor_context(
        instance=instance,
        resources={"sluice": Sluice(lab.config)},
        definitions=build_definitions(lab.config),
    ) as context:
        result = backlog_sensor(context)
    assert isinstance(result, SensorResult)
    return result
