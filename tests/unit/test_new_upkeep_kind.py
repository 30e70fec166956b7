"""A kind of upkeep is one file: what asks for upkeep, does it and shows it finds it there."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

ODD = """
from spark_jobs.upkeep.kind import UpkeepKind, UpkeepOutcome

def find_reason(state):
    return "rows wait" if any(figures.rows > 5 for figures in state.figures) else None

def tidy(work):
    work.say(f"tidied {work.identifier}")
    return UpkeepOutcome({"odd_rows": 1})

KIND = UpkeepKind("odd", place=99, effect="counts rows", description="Odd rows of `{table}`.",
                  find_reason=find_reason, tidy=tidy, fail_points=())
"""
# In a process of its own: the folder must hold the kind before anything reads it.
PLAY = """
import sys
from types import SimpleNamespace
from spark_jobs.upkeep import kinds
kinds.__path__.append(sys.argv[1])

from assets.upkeep import upkeep_assets
from cli.commands.upkeep import command
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.upkeep import upkeep
from spark_jobs.upkeep.figures import TableFigures
from spark_jobs.upkeep.registry import BY_NAME, due_upkeep

pipeline = PipelineConfig(name="orders", topic="orders", table="lake.orders")
due, = due_upkeep([TableFigures(rows=6)], pipeline.upkeep, now_ms=0, seconds_since={"orphans": 0.0})
assert (due.kind, due.reason) == (BY_NAME["odd"], "rows wait")
specs = [spec for step in upkeep_assets(pipeline) for spec in step.specs]
(spec,) = [spec for spec in specs if spec.key.path[-1] == "odd_orders"]
assert spec.key.path == ["upkeep", "odd_orders"]
assert spec.description.startswith("Odd rows of `lake.orders`.")
assert "odd counts rows, log compacts" in command.help
assert command.params[1].type.choices[-2:] == ("odd", "log"), command.params[1].type.choices

upkeep.load_fresh = lambda connections, name: SimpleNamespace(name=name) if name == "lake.orders" else None
upkeep.load_routed = lambda load, table: {}
upkeep.check_anchor = lambda table: None
upkeep.table_figures = lambda table: TableFigures()
upkeep.TableWork.read_figures = lambda work: TableFigures()
lines = []
result = upkeep.run_upkeep(BY_NAME["odd"], pipeline, SimpleNamespace(), lines.append)
assert (result.kind, [table.done.counts for table in result.tables]) == ("odd", [{"odd_rows": 1}])
assert lines == ["tidied lake.orders"]
"""


def test_one_file_makes_a_kind_of_upkeep(tmp_path: Path) -> None:
    """Its rule, work, asset, option and help come from the file alone."""
    (tmp_path / "odd.py").write_text(ODD)
    done = subprocess.run([sys.executable, "-c", PLAY, tmp_path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
