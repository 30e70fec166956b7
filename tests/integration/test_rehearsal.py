"""A schema that nobody writes with yet: what it would do to the table, by the topic's newest records."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from cli.commands import preview
from cli.commands.preview import command
from prove.lab.pipeline_lab import configure
from prove.lab.registry_stand_in import RegistryStandIn
from spark_jobs.config.value_format import ValueFormat
from spark_jobs.preview import rehearsal
from spark_jobs.preview.rehearsal import Rehearsal, rehearse
from tests.integration.test_drain_by_schema import FIRST, SECOND, by_registry, framed, order

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.new_lab import NewLab

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

CHEAP = {"expect_column_values_to_be_between": {"column": "total", "max_value": 2}}
TOTAL_AS_TEXT = [SECOND[0], {"name": "total", "type": ["null", "double", "string"], "default": None}]


def rehearsed(lab: Any, **which: Any) -> Rehearsal:
    """Return the rehearsal over all records of the lab's topic."""
    with lab.connections() as connections:
        return rehearse(lab.pipeline, connections, max_records=100, **which)


def test_a_version_of_an_avro_schema_is_rehearsed_before_anybody_writes_it(
    new_lab: NewLab, tmp_path: Path
) -> None:
    """By its number or from a file: columns, gates, records it cannot hold; no table changes."""
    with RegistryStandIn() as registry:
        lab = by_registry(new_lab, registry.url, [])
        subject = f"{lab.pipeline.topic}-value"
        old = registry.register(subject, order(FIRST))
        totals = (1.5, None, 2.5)
        new_lab.produce(
            lab, [framed(old, order(FIRST), {"id": at, "total": t}) for at, t in enumerate(totals)]
        )
        lab.drain()
        before = lab.table().metadata
        registry.register(subject, order(SECOND))
        seen = rehearsed(lab, version=2)
        assert (seen.is_safe, seen.seen.added, seen.seen.balance.rows, seen.left_out) == (
            True,
            ("note",),
            3,
            {},
        )

        file = tmp_path / "next.avsc"
        file.write_text(order(TOTAL_AS_TEXT))
        assert rehearsed(lab, file=str(file)).seen.added == ("total_2",)
        file.write_text(order([*FIRST[1:], {"name": "paid", "type": "boolean"}]))
        unfit = rehearsed(lab, file=str(file))
        ((why, count),) = unfit.left_out.items()
        assert ("paid" in why, count, unfit.is_safe) == (True, 3, False)
        typed = CliRunner(env={"SLUICE_CONFIG": str(lab.path)})
        done = typed.invoke(command, ["orders", "--schema", str(file)], standalone_mode=False)
        assert done.return_value == 65
        assert done.output.endswith("the schema can hold none of the records\n")

        configure(
            lab, "pipelines/orders", {"quality": [{"name": "cheap", "when": "gate", "expectations": [CHEAP]}]}
        )
        failing = rehearsed(lab, version=2)
        assert (failing.is_safe, len(failing.failed_gates)) == (False, 1)
        done = typed.invoke(command, ["orders", "--version", "2"], standalone_mode=False)
        assert done.return_value == 65
        assert "a batch of these records would be held: suite cheap" in done.output
        assert lab.table().metadata == before


def test_records_that_would_become_dead_letters_are_those_that_are_none_today(
    new_lab: NewLab, tmp_path: Path
) -> None:
    """JSON Schema and Protobuf read the same bytes by it."""
    today, later = tmp_path / "today.json", tmp_path / "later.json"
    for file, kind in ((today, ["integer", "string"]), (later, "integer")):
        file.write_text(json.dumps({"type": "object", "properties": {"id": {"type": kind}}}))
    lab = new_lab([b'{"id":1}', b'{"id":"a"}', b"["], value={"format": "json_schema", "file": "today.json"})
    (lab.path.parent / "today.json").write_text(today.read_text())
    seen = rehearsed(lab, file=str(later))
    assert [each.offset for each in seen.dead_letters] == [1]
    assert (seen.is_safe, seen.seen.balance.rows) == (False, 1)
    done = CliRunner(env={"SLUICE_CONFIG": str(lab.path)}).invoke(command, ["orders", "--version", "2"])
    assert "a rehearsal needs a registry" in done.output


def test_a_mirrors_gates_are_said_to_be_unjudged(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Who reads the rehearsal must not take them for met."""
    value = SimpleNamespace(format=ValueFormat.AVRO, registry="main")
    mirror: Any = SimpleNamespace(value=value, gates=("cheap",), layout=SimpleNamespace(keeps_newest=True))
    found = SimpleNamespace(fits_none=True, left_out={"no total": 1}, failed_gates=(), is_safe=False)
    monkeypatch.setattr(rehearsal, "rehearse", lambda *_, **__: found)
    connections: Any = None
    assert preview._rehearse(mirror, connections, None, 2, 10) == 65
    assert "gates were not judged" in capsys.readouterr().out
