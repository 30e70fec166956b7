"""The demo: tables filled by the sensor's own runs and exact, and again on a second run, with formats."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cli.stand.run_record import read_up

if TYPE_CHECKING:
    from tests.cli.conftest import Sluice

README = (Path(__file__).resolve().parents[2] / "README.md").read_text(encoding="utf-8")
NUMBER, ANY_NUMBER = re.compile(r"[0-9][0-9,.]*(?: m?s\b)?"), "[0-9,.]+(?: m?s)?"
EXPECTED = {"flights": 336_776, "weather": 26_115}
FORMATS = {"planes": 3_322, "airports": 1_458}
CHANGES, OF_CHANGES = {"customers": 100, "customers_log": 100}, {"customers": 28, "customers_log": 89}


@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.timeout(1800)
def test_demo_twice(sluice: Sluice, tmp_path: Path) -> None:
    """Every record is there once, nothing is produced or drained twice, and no server is left.

    The first runs in an empty home and prints the lines of README, with other figures. One more record
    is seen before its drain and after it, in each run. What the second run adds is read by schemas of a
    registry that begins with nothing: their ids are those of any run. A mirror follows a change that comes
    last, and commands know the tables afterwards.
    """
    home = tmp_path / "home"
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")  # packages and jars: no download
    first = sluice("demo", "--json", home=home, HOME=str(tmp_path), XDG_CACHE_HOME=cache)
    assert first.returncode == 0, first.stdout + first.stderr
    assert [line for line in readme_lines() if not re.search(line, first.stdout, re.MULTILINE)] == []
    second = sluice("demo", "--json", "--formats", "--cdc", home=home)
    assert second.returncode == 0, second.stdout + second.stderr
    more = {"weather": EXPECTED["weather"] + 1}
    for done, expected in ((first, EXPECTED), (second, EXPECTED | more | FORMATS | CHANGES)):
        pipelines = json.loads(done.stdout.splitlines()[-1])["pipelines"]
        assert {p["pipeline"]: p["records"] for p in pipelines} == expected
        rows = {name: OF_CHANGES.get(name, records) for name, records in expected.items()}
        assert {p["pipeline"]: p["rows"] for p in pipelines} == rows
        assert all(p[name] == 0 for p in pipelines for name in ("missing", "duplicates", "lag"))
        assert "rows replaced by the same rows" in done.stdout
        assert "audit after both: every record is in the table once, unchanged" in done.stdout
        assert "checks of flights: complete, " in done.stdout
        assert re.search(r"before its drain: 1 row, not in the table, watermark 1.0/0:", done.stdout)
        assert re.search(
            r"after its drain: +1 row, in the table since \d{4}-.+, watermark 1.0/0:", done.stdout
        )
    assert re.search(r"compaction: [\d,]+ files became [\d,]+", first.stdout)
    assert "already there" in second.stdout
    assert "row 4: its score was 104, in the mirror it is 5000000000" in second.stdout
    asked = sluice("query", "customers", "SELECT score FROM customers WHERE id = 4", "--csv", home=home)
    assert (asked.returncode, asked.stdout) == (0, "score\n5000000000\n"), asked.stderr
    kept = sorted(file.name.partition("-")[0] for file in (home / "log" / "schemas" / "main").iterdir())
    assert kept == ["1", "2", "3", "4"]
    assert "mean_delay_minutes" in second.stdout
    assert read_up(str(home)) is None
    assert {path.name for path in (home / "run").iterdir()} <= {"up.lock", "endpoints.lock", "sockets"}


def readme_lines() -> list[str]:
    """Return the lines of the demo's output in README, as patterns with any numbers."""
    (shown,) = re.findall(r"^```text\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
    return [f"^{ANY_NUMBER.join(map(re.escape, NUMBER.split(line)))}$" for line in shown.splitlines()]
