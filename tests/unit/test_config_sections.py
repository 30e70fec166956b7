"""The nested sections of a pipeline: ``upkeep`` and ``dead_letters``."""

from __future__ import annotations

import pytest

from spark_jobs.config.build import build_config
from spark_jobs.config.document import Document


def _build(defaults: dict, pipeline: dict):
    content = {
        "version": "1",
        "defaults": defaults,
        "pipelines": {"orders": {"topic": "orders", "table": "lake.orders", **pipeline}},
    }
    return build_config(Document("sluice.yaml", content), (), home="/home", folder="/folder")


def test_sections_merge_key_by_key() -> None:
    """A pipeline changes one key of a section and keeps the others of the defaults."""
    built = _build(
        {"upkeep": {"keep_snapshots": "7", "keep_snapshots_for": "2h"}, "dead_letters": {"stop_above": "5%"}},
        {"upkeep": {"keep_snapshots": "9"}},
    )
    assert not built.problems
    assert built.config is not None
    pipeline = built.config.pipelines[0]
    assert pipeline.upkeep.keep_snapshots == 9
    assert pipeline.upkeep.keep_snapshots_for_seconds == 7200
    assert pipeline.upkeep.compact_above == 20
    assert pipeline.dead_letters.stop_above == pytest.approx(0.05)


@pytest.mark.parametrize(
    ("section", "key", "told"),
    [
        ({"upkeep": {"keep_snapshot": "7"}}, "upkeep.keep_snapshot", "Did you mean keep_snapshots?"),
        ({"upkeep": {"orphans_older_than": "2h"}}, "upkeep.orphans_older_than", "At least 1d"),
        ({"dead_letters": {"stop_above": "500%"}}, "dead_letters.stop_above", "Write 5%"),
        ({"dead_letters": {"stop_above": "many"}}, "dead_letters.stop_above", "Write 5%"),
    ],
)
def test_mistakes_in_sections_are_named_with_their_key(section, key, told) -> None:
    """The dotted key, and what to write instead."""
    (problem,) = _build({}, section).problems
    assert problem.key == f"pipelines.orders.{key}"
    assert told in problem.hint


def test_a_webhook_is_a_url_that_is_shown_nowhere() -> None:
    """Not even in the mistake of one that is no URL."""
    built = _build({"notify": {"webhook": "https://hooks.example/T0/s3cr3t"}}, {})
    assert built.config is not None
    webhook = built.config.pipelines[0].notify.webhook
    assert webhook is not None
    assert webhook.get_secret_value() == "https://hooks.example/T0/s3cr3t"
    assert "s3cr3t" not in f"{built.config!r} {built.config.model_dump()} {built.config.model_dump_json()}"
    (problem,) = _build({}, {"notify": {"webhook": "hooks.example/s3cr3t"}}).problems
    assert problem.key == "pipelines.orders.notify.webhook"
    assert "s3cr3t" not in str(problem)


def test_an_empty_section_is_none() -> None:
    """A section whose lines are all commented out changes nothing."""
    built = _build({}, {"upkeep": None, "dead_letters": None})
    assert not built.problems


def test_checks_merge_down_to_severity_and_limit() -> None:
    """A pipeline changes the limit of a check and keeps the severity of the defaults."""
    built = _build(
        {"checks": {"fresh": {"severity": "warn", "limit": "5m"}, "schema": {"severity": "off"}}},
        {"checks": {"fresh": {"limit": "1h"}, "dead_letters": {"limit": "0%"}}},
    )
    assert not built.problems
    assert built.config is not None
    checks = built.config.pipelines[0].checks
    assert (checks["fresh"].severity, checks["fresh"].limit) == ("warn", 3600)
    assert checks["schema"].severity == "off"
    assert checks["dead_letters"].limit == 0


@pytest.mark.parametrize(
    ("checks", "key", "told"),
    [
        ({"frseh": {}}, "frseh", "Did you mean fresh?"),
        ({"fresh": {"limit": "7"}}, "fresh.limit", "30s"),
        ({"complete": {"limit": "7"}}, "complete.limit", "Known here: severity."),
        ({"schema": {"severity": "off", "limt": "1d"}}, "schema.limt", "Known here: severity."),
    ],
)
def test_mistakes_in_checks_are_named_with_their_key(checks, key, told) -> None:
    """Names, units and what a check does not have."""
    (problem,) = _build({}, {"checks": checks}).problems
    assert problem.key == f"pipelines.orders.checks.{key}"
    assert told in problem.hint


def test_metrics_are_served_at_a_port_or_not() -> None:
    """Left out, the usual port or a free one; 0 is off."""
    document = Document("sluice.yaml", {"version": "1", "metrics": {"port": "0", "host": "10.0.0.7"}})
    built = build_config(document, (), home="/home", folder="/folder")
    assert built.config is not None
    assert (built.config.metrics.port, built.config.metrics.host) == (0, "10.0.0.7")
    usual = build_config(Document("s", {"version": "1"}), (), home="/h", folder="/f").config
    assert usual is not None
    assert usual.metrics.port is None
