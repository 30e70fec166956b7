"""The dashboard and the alert rules: what they name exists, and Grafana and Prometheus can read them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from assets.checks import HOT
from cli.listing import COMMANDS
from gateway.gateway import GATEWAY_FAMILIES
from serving.service import SERVE_FAMILIES
from spark_jobs.checks.check import Severity
from spark_jobs.checks.registry import CHECKS
from spark_jobs.hot.tail_status import State
from spark_jobs.monitoring.metric_families import COUNTER, HISTOGRAM
from spark_jobs.monitoring.metric_families import FAMILIES as EXPORTED

FAMILIES = EXPORTED | SERVE_FAMILIES | GATEWAY_FAMILIES
DOCS = Path(__file__).resolve().parents[2] / "docs"
DASHBOARD = json.loads((DOCS / "monitoring" / "grafana-dashboard.json").read_text())
ALERTS = yaml.safe_load((DOCS / "monitoring" / "alerts.yaml").read_text())
RULES = [rule for group in ALERTS["groups"] for rule in group["rules"]]
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
EXPRESSIONS = [target["expr"] for panel in PANELS for target in panel["targets"]]


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings, as its readers' browsers make them."""
    headings = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


PAGE = (DOCS / "runbook.md").read_text(encoding="utf-8")
RUNBOOK = anchors(PAGE)


def section(anchor: str) -> str:
    """The text under the runbook's heading with that anchor, up to the next heading."""
    parts = re.split(r"^(#+ .+)$", PAGE, flags=re.MULTILINE)
    return next(
        text for heading, text in zip(parts[1::2], parts[2::2], strict=True) if anchor in anchors(heading)
    )


def samples() -> set[str]:
    """The names under which samples of all families are stored."""
    histograms = [f.name for f in FAMILIES.values() if f.kind == HISTOGRAM]
    return {*FAMILIES} | {f"{name}_{part}" for name in histograms for part in ("bucket", "count", "sum")}


@pytest.mark.parametrize("expression", [*EXPRESSIONS, *(rule["expr"] for rule in RULES)])
def test_every_metric_and_label_that_is_asked_for_exists(expression: str) -> None:
    """A typo would be an empty panel or an alert that never fires."""
    names = re.findall(r"sluice_\w+", expression)
    assert names
    assert set(names) <= samples()
    for name, matchers in re.findall(r"(sluice_\w+)\{([^}]*)\}", expression):
        family = FAMILIES.get(name) or FAMILIES[name.rpartition("_")[0]]
        labels = set(re.findall(r"(\w+)=", matchers))
        assert labels <= {"pipeline", "stream", *family.labels}
    assert expression.count("(") == expression.count(")")
    # A counter is only meaningful as a rate, a bucket only within a quantile.
    for name in names:
        if name in FAMILIES and FAMILIES[name].kind == COUNTER:
            assert "rate(" in expression


def test_the_dashboard_shows_every_family() -> None:
    """What is exported is worth a panel, or it is not worth exporting."""
    shown = {name for expression in EXPRESSIONS for name in re.findall(r"sluice_\w+", expression)}
    assert {family for family in FAMILIES if not any(name.startswith(family) for name in shown)} == set()


def test_grafana_can_import_the_dashboard() -> None:
    """Ids are unique, panels have a place and a target, and the data source is chosen when it is imported."""
    assert DASHBOARD["schemaVersion"] >= 36
    assert "id" not in DASHBOARD
    assert DASHBOARD["title"]
    variables = {variable["name"]: variable for variable in DASHBOARD["templating"]["list"]}
    assert (variables["datasource"]["type"], variables["datasource"]["query"]) == ("datasource", "prometheus")
    assert variables["pipeline"]["definition"] == "label_values(sluice_pipeline_readable, pipeline)"
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)
    for panel in PANELS:
        assert panel["datasource"]["uid"] == "${datasource}"
        assert panel["description"]
        assert [target["refId"] for target in panel["targets"]]
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
    cells = [
        (x, y)
        for p in (panel["gridPos"] for panel in DASHBOARD["panels"])
        for x in range(p["x"], p["x"] + p["w"])
        for y in range(p["y"], p["y"] + p["h"])
    ]
    assert len(set(cells)) == len(cells)


def test_every_check_has_an_alert_and_a_runbook_section() -> None:
    """No check is judged that nobody is told about, and none is told about without what to do."""
    for check in CHECKS:
        assert [rule for rule in RULES if f'check="{check.name}"' in rule["expr"]], check.name
        assert check.runbook.partition("#")[2] in RUNBOOK


@pytest.mark.parametrize("name", [*(check.name for check in CHECKS), HOT])
def test_every_check_has_a_symptom_and_what_to_type(name: str) -> None:
    """A section without a command, or a link to one, helps nobody at night."""
    text = section(f"check-{name}")
    assert text.count("**Symptom.**") == text.count("**Urgency.**") == 1
    assert "`./sluice " in text or "\n./sluice " in text or "](#check-" in text


def test_every_state_that_is_not_live_is_told() -> None:
    """A pipeline that answers nothing fresh does so for ever otherwise."""
    asked = (re.findall(r'sluice_hot_state\{state=~"([^"]*)"', rule["expr"]) for rule in RULES)
    told = {state for found in asked for text in found for state in text.split("|")}
    assert told == {*State} - {State.LIVE}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: str(rule["alert"]))
def test_every_alert_can_be_loaded_and_says_what_to_do(rule: dict[str, Any]) -> None:
    """Its keys are Prometheus', its runbook section exists, its command is one of ours."""
    assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
    assert re.fullmatch(r"Sluice[A-Za-z]+", rule["alert"])
    assert re.fullmatch(r"\d+[smhd]", rule.get("for", "1m"))
    assert rule["labels"]["severity"] in {*Severity, "{{ $labels.severity }}"}
    page, _, anchor = rule["annotations"]["runbook"].partition("#")
    assert page == "docs/runbook.md"
    assert anchor in RUNBOOK
    own = section(anchor)
    assert anchor.startswith("check-") or f"`{rule['alert']}`" in own
    assert "**Symptom.**" in own
    command = rule["annotations"]["command"].split()
    assert command[0] == "./sluice"
    assert command[1] in {entry.name for entry in COMMANDS} | {"query", "held"}
