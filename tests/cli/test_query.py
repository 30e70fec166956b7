"""``query`` prints a table, CSV or one JSON object, and one line for what it does not run."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.support.lake import Lake

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Sluice

CONFIGURATION = """\
version: 1
kafka:
  bootstrap.servers: 127.0.0.1:1
catalog:
  type: sql
  uri: {uri}
  warehouse: {warehouse}
pipelines:
  flights: {{topic: flights, table: lake.t}}
"""
ROWS = 300


@pytest.fixture
def config(tmp_path: Path, sqlite_catalog_properties: dict[str, str]) -> str:
    """A landed table of 300 rows; there is no broker, and none is asked."""
    lake = Lake("sqlite", sqlite_catalog_properties, "lake")
    lake.make_table()
    lake.drain(0, ROWS, dead_letters=[5])
    path = tmp_path / "own.yaml"
    path.write_text(CONFIGURATION.format(**sqlite_catalog_properties))
    return str(path)


def test_three_ways_to_print(sluice: Sluice, config: str) -> None:
    """The same rows each time; plain output stops at 200 and says so, the others give all."""
    sql = "SELECT id, name, \"at\", {'k': [id]} AS nested, NULL AS nothing FROM t ORDER BY id"
    first = ["0", "n0", "2026-01-01T00:00:00+00:00", '{"k": [0]}', ""]
    as_csv = list(csv.reader(io.StringIO(_asked(sluice, config, sql, "--csv"))))
    assert as_csv[:2] == [["id", "name", "at", "nested", "nothing"], first]
    assert len(as_csv) == ROWS
    answer = json.loads(_asked(sluice, config, sql, "--json"))
    assert [column["name"] for column in answer["columns"]] == as_csv[0]
    assert answer["rows"][0] == [0, "n0", "2026-01-01T00:00:00+00:00", {"k": [0]}, None]
    assert len(answer["rows"]) == ROWS - 1
    plain = _asked(sluice, config, sql).splitlines()
    assert plain[1].split()[:2] == ["0", "n0"]
    assert plain[-1] == "... the first 200 rows; use --csv or --json for all"
    assert len(plain) == 202


def test_what_is_not_run_is_one_line(sluice: Sluice, config: str) -> None:
    """With a hint and an anchor; a moment that is none is named too."""
    refused = sluice("query", "flights", "SELECT nme FROM t", SLUICE_CONFIG=config)
    assert (refused.returncode, refused.stdout) == (78, "")
    lines = refused.stderr.splitlines()
    assert lines[0].startswith("error: the query was not run: Binder Error")
    assert [line.split(":")[0].strip() for line in lines] == ["error", "hint", "see"]
    refused = sluice("query", "flights", "FROM t", "--as-of", "yesterday", SLUICE_CONFIG=config)
    assert refused.returncode == 78
    assert "#unknown-moment" in refused.stderr


def test_what_is_asked_of_kafka_is_one_moment(sluice: Sluice, config: str) -> None:
    """Of a pipeline that says so; nobody connects before that is clear."""
    for options, code, told in (
        (("--fresh",), 78, "#hot-not-configured"),
        (("--at", "yesterday"), 78, "#unreadable-watermark"),
        (("--at", "1.0/0:5", "--after", "0:5"), 2, "cannot be combined with --fresh"),
    ):
        refused = sluice("query", "flights", "FROM t", *options, SLUICE_CONFIG=config)
        assert (refused.returncode, told in refused.stderr) == (code, True), refused.stderr


def test_a_reader_that_leaves_ends_it_quietly(config: str, tmp_path: Path) -> None:
    """As with `head`: no traceback, nothing on standard error."""
    command = [sys.executable, "-m", "cli", "--config", config, "query", "flights", "FROM t, t AS u", "--csv"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path
    )
    assert process.stdout is not None
    assert process.stdout.readline().startswith("id,name")
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == ""
    assert process.wait(60) == 1  # click says so for a closed pipe


def _asked(sluice: Sluice, config: str, sql: str, *options: str) -> str:
    done = sluice("query", "flights", sql, *options, SLUICE_CONFIG=config)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout
