"""`./sluice prove` on servers of its own, and what it says of a promise that is not kept."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from prove import stored_rows
from prove.__main__ import COUNTS_HEADING, PAGE, main
from prove.catalogue import QUICK, all_scenarios, choose
from prove.checker import check
from prove.crash.jobs import DRAIN
from prove.crash.matrix import Cell
from prove.crash.nemeses import Kill
from prove.crash.promises import ADOPTED
from prove.lab.pipeline_lab import named_files
from prove.report import as_counts, as_html, complaint
from prove.scenario import Findings, Outcome
from prove.soak.events import EVENTS
from prove.soak.soak import Soak, drawn_events
from prove.workload import BATCH, Testbed

if TYPE_CHECKING:
    from prove.lab.kafka_server import KafkaBroker

ROOT = Path(__file__).resolve().parents[2]
MADE = "3 minutes, 2026-11-28, product code 0123"
KEPT = Outcome("sqlite/drain/kill-x", "a drain, here", "killed at x", "nothing", 1.0, Findings("died"))


def test_one_scenario_alone() -> None:
    """The command that a failure prints starts what it needs, runs that case and says so in JSON."""
    name = "sqlite/drain/kill-commit.before-swap"
    done = subprocess.run(
        [sys.executable, "-m", "prove", "--only", name, "--json"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    said = json.loads(done.stdout.splitlines()[-1])
    (scenario,) = said["scenarios"]
    assert (scenario["name"], scenario["failure"], said["totals"]["kept"]) == (name, "", 1)
    assert "adopted 1" in scenario["findings"]["happened"]


def test_an_unknown_scenario_is_refused() -> None:
    """A pattern that nothing matches starts no server."""
    ended = CliRunner().invoke(main, ["--only", "nothing"])
    assert ended.exit_code == 2
    assert "no scenario is named nothing" in ended.output


@pytest.mark.kafka
@pytest.mark.faults
def test_a_case_that_was_not_made_fails(kafka: KafkaBroker, tmp_path: Path) -> None:
    """A place that is never reached proves nothing, so the case must not pass."""
    nowhere = replace(DRAIN, points={"drain.nowhere": ADOPTED})
    scenario = Cell(nowhere, Kill("drain.nowhere"), "sqlite").scenario()
    with pytest.raises(AssertionError, match=r"drain\.nowhere was not reached"):
        scenario.run(Testbed(tmp_path, str(kafka)))


@pytest.mark.kafka
@pytest.mark.faults
def test_what_was_done_otherwise_breaks_the_promise(kafka: KafkaBroker, tmp_path: Path) -> None:
    """Files that are not there cannot be adopted: the range was read again, which is counted and named."""
    half = replace(DRAIN, points={"drain.after-tasks": ADOPTED})
    findings = Cell(half, Kill("drain.after-tasks"), "sqlite").scenario().run(Testbed(tmp_path, str(kafka)))
    assert not findings.is_kept
    assert (findings.read_again, findings.lost, findings.stray) == (BATCH, 0, 0)
    assert findings.unkept == "not done as promised: adopted 1"


@pytest.mark.kafka
def test_what_is_wrong_with_the_books_is_counted(kafka: KafkaBroker, tmp_path: Path) -> None:
    """An attempt that left the log and is not in the books, and a file that they do not name."""
    with Testbed(tmp_path, str(kafka)).workload("sqlite") as workload:
        workload.produce_batch()
        workload.run()
        workload.run("checkpoint")
        counts = check(workload)
        assert (counts.unreadable, counts.orphans, counts.examples) == (0, 0, ())
        books = workload.lab.books()
        assert books is not None
        data = Path(books.location().removeprefix("file://")) / "data"
        (data / "nobody.parquet").write_bytes(b"PAR1")
        books.delete()
        Path(next(iter(named_files(books))).removeprefix("file://")).unlink()
        counts = check(workload)
    assert (counts.orphans, counts.unreadable) == (1, 3), counts


@pytest.mark.kafka
def test_lost_doubled_and_stray_are_counted(kafka: KafkaBroker, tmp_path: Path) -> None:
    """What is not in the lake as produced, or lies there for nothing, shows in the counts."""
    with Testbed(tmp_path, str(kafka)).workload("sqlite") as workload:
        workload.produce_batch()
        workload.run()
        assert check(workload).examples == ()
        data = Path(workload.lab.table().location().removeprefix("file://")) / "data"
        (data / "nobody.parquet").write_bytes(b"PAR1")
        workload.lab.table().delete("_kafka_offset = 3")
        workload.contents.dead_letters -= 1
        counts = check(workload)
    assert (counts.lost, counts.doubled, counts.stray) == (2, 1, 1), counts


def test_every_quick_scenario_exists() -> None:
    """The selection is by name: one that was renamed would fall out of it in silence."""
    assert all(choose(only=pattern, is_quick=True) for pattern in QUICK)
    assert len(choose(only="sqlite/drain/*")) < len(choose(only="sqlite/*")) < len(all_scenarios())


@pytest.mark.parametrize(
    "findings",
    [
        Findings("died", lost=1),
        Findings("died", doubled=1),
        Findings("died", unreadable=1),
        Findings("died", stray=1),
        Findings("died", read_again=44),
        Findings("died", unkept="nothing was adopted"),
    ],
)
def test_a_broken_promise_is_named_with_its_command(findings: Findings) -> None:
    """Any count above what was promised breaks it."""
    broken = replace(KEPT, findings=findings)
    assert KEPT.is_kept
    assert not broken.is_kept
    assert "./sluice prove --only 'sqlite/drain/kill-x'" in complaint(broken)


def test_the_events_of_a_seed_are_always_the_same() -> None:
    """What happened before a failure can be made to happen again, whatever the events before did."""

    def events(seed: int, *, draws: int) -> list[tuple[str, float]]:
        drawn = ((name, [draw.random() for _ in range(draws)]) for name, draw in drawn_events(seed))
        return [(name, numbers[0]) for name, numbers in islice(drawn, 50)]

    assert events(7, draws=1) == events(7, draws=3)
    assert events(7, draws=1) != events(8, draws=1)
    assert {name for name, _ in islice(drawn_events(7), 500)} == set(EVENTS)


def test_a_soak_that_fails_names_its_seed() -> None:
    """Its name alone would run another one."""
    broken = replace(KEPT, findings=Findings("died", lost=1), again=Soak("soak", 7, 10.0).scenario().again)
    assert "./sluice prove --soak 10 --seed 7" in complaint(broken)


def test_the_report_has_a_row_for_each_scenario() -> None:
    """Those that could not be run have a reason instead of counts; texts cannot be markup."""
    left_out = replace(KEPT, findings=None, left_out="only root may")
    page = as_html([KEPT, left_out, replace(KEPT, title="<b>")], MADE)
    assert "3 scenarios: 2 kept, 0 broken, 1 left out" in page
    assert (
        page.count("<td>killed at x<td>nothing<td>kept<td>died<td>0<td>0<td>0<td>0<td>0<td>0<td>0.0 s") == 1
    )
    assert "only root may" in page
    assert "&lt;b&gt;" in page
    assert "<b>" not in page


def test_a_group_that_comes_twice_is_one_section() -> None:
    """Kills and answers of one job are in one table, wherever the catalogue lists them."""
    other = replace(KEPT, name="sqlite/fold/kill-x", group="a fold, here")
    page = as_html([KEPT, other, replace(KEPT, name="sqlite/drain/kill-y", title="killed at y")], MADE)
    assert page.count(">a drain, here</h2>") == 1
    assert page.index("killed at y") < page.index(">a fold, here</h2>")


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("sqlite/drain/kill-commit.before-swap", "kill -9"),
        ("sqlite/gateway/away-kill-after-begin", "kill -9"),
        ("rest/drain/landed-409", "a commit that is cut off"),
        ("sqlite/beside/asleep/publish", "a run that sleeps"),
        ("sqlite/fresh/drain-commit.after-swap", "queries that include Kafka"),
        ("rest/soak", "random events"),
        ("rest/lake/renamed", "hostile"),
    ],
)
def test_a_fault_is_counted_with_its_kind(name: str, kind: str) -> None:
    """By its scenario's name."""
    counts = as_counts([replace(KEPT, name=name)], MADE)
    assert counts.count(f"| {kind}") == 1
    assert counts.count(" | 1 | 1 | 0 | 0 | 0 | 0 | 0 | 0.0 s |") == 2


def test_the_page_has_the_counts_of_the_stored_rows() -> None:
    """Its last section is what the rows come to, whatever code they are of, which it names."""
    rows = stored_rows.all_rows(stored_rows.ROWS)
    counts = PAGE.read_text(encoding="utf-8").partition(COUNTS_HEADING)[2]
    assert counts == as_counts([row.outcome for row in rows], stored_rows.origin(rows))
    assert f"product code {rows[0].digest}." in counts


def test_the_report_is_written_from_the_stored_rows(tmp_path: Path) -> None:
    """As HTML that needs nothing from elsewhere and as JSON, with every row; nothing is run."""
    done = CliRunner().invoke(main, ["--report", str(tmp_path / "new")])
    assert done.exit_code == 0, done.output
    page = (tmp_path / "new/prove-report.html").read_text(encoding="utf-8")
    told = json.loads((tmp_path / "new/prove-report.json").read_text(encoding="utf-8"))
    rows = stored_rows.all_rows(stored_rows.ROWS)
    assert page.count("<tr><td>") == len(told["scenarios"]) == told["totals"]["scenarios"] == len(rows)
    assert "://" not in page
    refused = CliRunner().invoke(main, ["--report", str(tmp_path), "--quick"])
    assert refused.exit_code == 2
