"""Rows of a whole run that are kept over sessions: which count, what they cost, how they are shared out."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner

from prove import __main__ as command
from prove import stored_rows
from prove.catalogue import all_scenarios
from prove.scenario import Findings, Outcome, Scenario
from prove.stored_rows import (
    Row,
    append_row,
    covered_minutes,
    product_digest,
    read_rows,
    shard_of,
    write_rows,
)
from prove.workload import Testbed

FOUND = Findings("died; adopted 1", left=1, may_be_left=(0, 1), recovery_seconds=0.5)
SCENARIOS = {
    name: Scenario(name, "a drain, here", f"struck at {name}", "nothing lost", lambda _testbed: FOUND)
    for name in ("a", "b", "c", "d", "e")
}
ENDED = datetime(2026, 11, 28, 12, tzinfo=UTC)


def _row(name: str, digest: str = "one", *, minutes: float = 0.0, seconds: float = 60.0) -> Row:
    scenario = SCENARIOS[name]
    outcome = Outcome(name, scenario.group, scenario.title, scenario.promise, seconds, FOUND)
    return Row(digest, ENDED + timedelta(minutes=minutes), outcome)


def test_rows_are_read_as_they_were_written(tmp_path: Path) -> None:
    """Findings, times and all; the last row of a scenario is the one that counts."""
    path = tmp_path / "rows"
    write_rows(path, [_row("a"), _row("b")])
    append_row(path, _row("a", minutes=5))
    assert read_rows(path, "one", SCENARIOS) == {"a": _row("a", minutes=5), "b": _row("b")}


def test_rows_of_other_code_and_other_promises_do_not_count(tmp_path: Path) -> None:
    """A row proves what was run: neither later code nor what the scenario promises by now."""
    path = tmp_path / "rows"
    write_rows(path, [_row("a", "another"), _row("b"), _row("c")])
    promises_more = SCENARIOS | {"b": replace(SCENARIOS["b"], promise="nothing lost, nothing read again")}
    del promises_more["c"]
    assert read_rows(path, "one", promises_more) == {}


def test_a_row_that_a_kill_cut_off_is_made_again(tmp_path: Path) -> None:
    """The rows before it stay."""
    path = tmp_path / "rows"
    write_rows(path, [_row("a"), _row("b")])
    path.write_text(path.read_text()[:-20])
    assert list(read_rows(path, "one", SCENARIOS)) == ["a"]


def test_minutes_count_once_however_many_rows_were_made_in_them() -> None:
    """Two at a time take the time of one, and a pause between sessions takes none."""
    together = [_row("a"), _row("b"), _row("c", minutes=0.5)]
    assert covered_minutes(together) == pytest.approx(1.5)
    assert covered_minutes([*together, _row("d", minutes=600)]) == pytest.approx(2.5)


def test_the_digest_is_of_product_code_and_locks_alone(tmp_path: Path) -> None:
    """A page or a test changes nothing; a byte of the product, a name, or a lock does."""
    for name in ("spark_jobs/a.py", "servers/jars.lock", "tests/test_a.py", "docs/a.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("1")
    before = product_digest(tmp_path)
    (tmp_path / "tests/test_a.py").write_text("2")
    (tmp_path / "spark_jobs/__pycache__").mkdir()
    (tmp_path / "spark_jobs/__pycache__/a.pyc").write_text("2")
    assert product_digest(tmp_path) == before
    (tmp_path / "servers/jars.lock").write_text("2")
    after_lock = product_digest(tmp_path)
    (tmp_path / "spark_jobs/a.py").rename(tmp_path / "spark_jobs/b.py")
    assert len({before, after_lock, product_digest(tmp_path)}) == 3


def test_the_shards_of_a_run_have_every_scenario_once() -> None:
    """Whoever runs all parts has run all."""
    everything = list(all_scenarios().values())
    parts = [shard_of(everything, part, 3) for part in (1, 2, 3)]
    assert sorted(each.name for part in parts for each in part) == sorted(each.name for each in everything)


def test_a_run_that_is_resumed_makes_what_is_missing_and_then_the_page(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Two shards, of which the first met a broken row: it is made again, the page comes with the last one."""
    ran: list[str] = []
    is_broken = True

    def run(scenario: Scenario) -> Outcome:
        ran.append(scenario.name)
        lost = int(is_broken and scenario.name == "c")
        findings = replace(FOUND, lost=lost)
        return Outcome(scenario.name, scenario.group, scenario.title, scenario.promise, 1.0, findings)

    def run_scenarios(chosen: list[Scenario], *_: Testbed, on_outcome, **__: int) -> list[Outcome]:
        outcomes = [run(each) for each in chosen]
        for outcome in outcomes:
            on_outcome(outcome)
        return outcomes

    monkeypatch.setattr(command, "run_scenarios", run_scenarios)
    monkeypatch.setattr(command, "running_servers", lambda *_: command.tempfile.TemporaryDirectory())
    monkeypatch.setattr(command, "all_scenarios", lambda _seed: SCENARIOS)
    monkeypatch.setattr(command, "choose", lambda **_: list(SCENARIOS.values()))
    monkeypatch.setattr(command, "PAGE", tmp_path / "page.md")
    monkeypatch.setattr(stored_rows, "ROWS", tmp_path / "rows")
    (tmp_path / "page.md").write_text("# Reliability\n\n## Counts\n\nearlier counts\n")
    assert CliRunner().invoke(command.main, ["--resume", "--shard", "1/2"]).exit_code == 1
    assert ran == ["a", "c", "e"]
    assert "earlier" in (tmp_path / "page.md").read_text()
    is_broken = False
    ended = CliRunner().invoke(command.main, ["--resume"])
    assert (ended.exit_code, ran[3:]) == (0, ["b", "c", "d"]), ended.output
    page = (tmp_path / "page.md").read_text()
    assert page.startswith("# Reliability\n\n## Counts\n\n5 scenarios: 5 kept")
    assert f"product code {product_digest()}" in page
    assert "earlier" not in page
