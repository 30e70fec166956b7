"""What a proof says of files that nothing names: broken, or left to orphan removal where that is promised."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from prove.crash.matrix import crash_cells
from prove.crash.removal import judge_removal
from prove.lab.fault_proxy import Fault
from prove.report import as_html, as_json, line
from prove.scenario import LEFT, Findings, Outcome

MACHINE = {"processors": 2, "system": "a system", "python": "3.11"}
LEAVING = Findings("went on by itself", left=1, may_be_left=(1,))
KILL = "kill-act.before-swap"
ROW = Outcome("rest/compaction/cut-before", "a compaction", "cut", "left", 1.0, LEAVING)


@pytest.mark.parametrize(
    "findings",
    [
        Findings("died", stray=1),
        Findings("died", left=1),
        replace(LEAVING, left=0),
        replace(LEAVING, left=2),
        replace(LEAVING, stray=1),
        replace(LEAVING, lost=1),
        replace(LEAVING, unkept="a.parquet was not taken by orphan removal"),
    ],
)
def test_only_what_was_promised_is_left(findings: Findings) -> None:
    """A stray file breaks every other promise; nothing left, more left or a record lost breaks this one."""
    assert ROW.verdict == LEFT
    assert replace(ROW, findings=findings).verdict == "BROKEN"


def test_every_report_shows_the_verdict() -> None:
    """People on the terminal, machines and the page see what a kept promise leaves behind."""
    kept = replace(ROW, findings=Findings("died"))
    assert LEFT in line(ROW, 1, of=2)
    assert LEFT not in line(kept, 2, of=2)
    said = json.loads(as_json([ROW, kept], MACHINE))
    assert [each["verdict"] for each in said["scenarios"]] == [LEFT, "kept"]
    assert (said["totals"]["kept"], said["totals"]["broken"], said["totals"]["left"]) == (2, 0, 1)
    page = as_html([ROW, kept], "3 minutes")
    assert f"<td>cut<td>left<td>{LEFT}<td>went on by itself<td>0<td>0<td>0<td>0<td>1<td>0<td>0.0 s" in page
    assert f"{LEFT} 1;" in page


def test_orphan_removal_takes_what_was_left_and_nothing_else() -> None:
    """The manifests of a commit that never landed may go with its data file; all else is told."""
    assert judge_removal({"a.parquet"}, {"a.parquet", "a.avro"}, {"a.parquet", "a.avro"}).unkept == ()
    wrong = judge_removal({"a.parquet", "foreign.parquet"}, {"a.parquet"}, {"foreign.parquet", "b.avro"})
    assert wrong.unkept == (
        "foreign.parquet is not what the struck work wrote",
        "a.parquet was not taken by orphan removal",
        "b.avro was taken by orphan removal, too",
        "foreign.parquet was taken by orphan removal, too",
    )


def test_only_a_compaction_that_never_landed_may_leave_data_files() -> None:
    """Every outcome of its commit is a row but one, which is a hostile lake's; eight of them leave a file."""
    cells = tuple(crash_cells())
    faults = {cell.nemesis.name for cell in cells if cell.name.startswith("rest/compaction/")}
    assert faults == {fault.name.lower().replace("_", "-") for fault in Fault} - {"landed-401"} | {KILL}
    unknown = ("refused-500", "refused-502", "refused-503", "refused-504")
    cut = ("cut-before", "half-refusal", "no-answer", "late-504")
    leaving = {cell.name for cell in cells if cell.job.may_leave}
    assert leaving == {f"rest/compaction/{name}" for name in (*unknown, *cut)}
    assert not any(promise.strays for cell in cells for promise in cell.job.points.values())
