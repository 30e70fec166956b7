"""A built-in check is one file: what shows, configures and judges checks finds it there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from spark_jobs.checks.registry import BY_NAME
from spark_jobs.spark.shipped import package_zip
from spark_jobs.upkeep import registry as upkeep

ROOT = Path(__file__).parents[2]
KINDS = upkeep.BY_NAME

ODD = """
from spark_jobs.checks.check import Check, LimitKind, Severity, Verdict

def judge(case):
    most = case.limit or 3
    waiting = case.facts.waiting
    return Verdict(waiting <= most, f"{waiting} wait", {"waiting": waiting}, "run")

CHECK = Check("odd", place=99, meaning="Little waits.", severity=Severity.WARN, judge=judge,
              limit_text="Limit: records.", limit=LimitKind.COUNT)
"""
# In a process of its own: the folder must hold the check before anything reads it.
PLAY = """
import sys
from pathlib import Path

from spark_jobs.checks import built_in
built_in.__path__.append(sys.argv[1])

from assets.checks import table_checks
from cli.commands.checks import command
from docs.pages.configuration import render_config_md
from spark_jobs.checks.facts import HealthFacts
from spark_jobs.config.file import load_config
from spark_jobs.health.judge import judge

pipeline, = load_config(Path(sys.argv[2])).pipelines
odd = judge(pipeline, HealthFacts(now_ms=0, lag={0: 7}))[-1]
assert (odd.name, odd.severity, odd.passed, odd.fact) == ("odd", "error", False, "7 wait"), odd
assert (odd.mend, odd.runbook) == ("run", "docs/runbook.md#check-odd")
assert "odd" in {key.name for each in table_checks([pipeline]) for key in each.check_keys}
assert ", odd:" in command.help
page = render_config_md()
assert "| `odd` | whole number |  | Little waits. Limit: records. |" in page
assert "routes, odd`" in page
"""
CONFIG = """
version: 1
pipelines:
  orders:
    topic: orders
    table: lake.orders
    checks: {warn: [], odd: 5}
"""


def test_one_file_makes_a_check(tmp_path: Path) -> None:
    """Its key, limit, severity, help, page, judgement and Dagster's spec come from the file alone."""
    folder, config = tmp_path / "checks", tmp_path / "sluice.yaml"
    folder.mkdir()
    (folder / "odd.py").write_text(ODD)
    config.write_text(CONFIG)
    done = subprocess.run(
        [sys.executable, "-c", PLAY, folder, config], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_checks_kinds_of_upkeep_and_lists_of_names_are_found_in_the_shipped_archive(tmp_path: Path) -> None:
    """Spark's workers get the code as one file, where folders cannot be listed as on a disk."""
    archive = package_zip(tmp_path)
    look = (
        "from spark_jobs.checks.registry import BY_NAME, __file__ as place\n"
        "from spark_jobs.config import sections, suites\n"
        "from spark_jobs.upkeep.registry import BY_NAME as KINDS\n"
        f"assert '{archive.name}' in place, place\n"
        "assert 'client.id' in sections.KAFKA_PROPERTY_NAMES and suites.LOOKS_AT\n"
        "print(*BY_NAME, *KINDS)"
    )
    done = subprocess.run(
        [sys.executable, "-c", look],
        cwd=tmp_path,
        env={"PYTHONPATH": str(archive)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == [*BY_NAME, *KINDS]
