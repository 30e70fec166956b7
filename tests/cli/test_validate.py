"""``./sluice validate``: mistakes as lines a person and an editor can follow, else the pipelines."""

from __future__ import annotations

import json

import pytest

from cli.app import main


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Write sluice.yaml into an empty working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.delenv("SLUICE_CONFIG", raising=False)
    monkeypatch.delenv("SLUICE_HOME", raising=False)
    return (tmp_path / "sluice.yaml").write_text


GOOD = "version: 1\npipelines: {a: {topic: t, table: l.a, partition_by: day(at), freshness: 5m}}\n"
BAD = "version: 1\nkafka: {sasl.password: [hunter2]}\npipelines: {a: {topic: t, tabel: l.a}}\n"


def test_mistakes_are_one_line_each(write, capsys, tmp_path):
    """file:line key: message — hint, all of them, and the exit code for configuration errors."""
    write(BAD)
    assert main(["validate"]) == 78
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        f"{tmp_path}/sluice.yaml:2 kafka.sasl.password: must be text",
        f"{tmp_path}/sluice.yaml:3 pipelines.a.tabel: is not a key that Sluice knows — Did you mean table?",
        "",
        "2 mistakes",
    ]


def test_a_good_file_shows_its_pipelines(write, capsys):
    """One row a pipeline, exit code 0."""
    write(GOOD)
    assert main(["validate"]) == 0
    out = capsys.readouterr().out
    for cell in ("l.a", "earliest", "5m", "2,000,000 records, 1GiB", "day(at)", "1 pipeline, no mistakes"):
        assert cell in out


def test_json_is_one_object(write, capsys):
    """--json prints one object with problems and pipelines, without secrets."""
    write(GOOD)
    assert main(["validate", "--json"]) == 0
    good = json.loads(capsys.readouterr().out)
    assert [p["table"] for p in good["pipelines"]] == ["l.a"]
    assert good["problems"] == []
    write(BAD)
    assert main(["validate", "--json"]) == 78
    out = capsys.readouterr().out
    assert [p["line"] for p in json.loads(out)["problems"]] == [2, 3]
    assert "hunter2" not in out


def test_a_bad_team_file_is_shown_beside_the_good_pipelines(write, capsys, tmp_path):
    """What was left out and why, then what goes on; the exit code says that something is wrong."""
    (tmp_path / "team.yaml").write_text("pipelines: {b: {topic: b}}\n")
    write(GOOD + "include: [team.yaml]\n")
    assert main(["validate"]) == 78
    out = capsys.readouterr().out
    assert f"{tmp_path}/team.yaml:1 pipelines.b.table: is required" in out
    assert "l.a" in out


def test_topics_regex_without_a_broker_uses_the_last_list(write, capsys, tmp_path):
    """No broker is a note with its hint, not a mistake of the file."""
    write("version: 1\npipelines: {all: {topics_regex: '.*', table: 'l.{topic}'}}\n")
    assert main(["validate"]) == 0
    out = capsys.readouterr().out
    assert "last stored list" in out
    assert "./sluice up" in out
    assert "no listed topic matches" in out


def test_no_file_is_the_demo(write, capsys):
    """Without any file the defaults are shown as such."""
    assert main(["validate"]) == 0
    out = capsys.readouterr().out
    assert "lake.flights" in out
    assert "no sluice.yaml: the defaults" in out


def test_a_secret_in_plain_text_is_a_note_with_its_line(write, capsys, tmp_path):
    """Under a secret's name or inside an address; never the value, and no mistake."""
    write(
        "version: 1\nkafka:\n  sasl.username: me\n  sasl.password: hunter2\n  ssl.key.password: '${KEY}'\n"
        "catalog:\n  uri: postgresql://me:hunter2@db/lake\n"
        "spark:\n  conf:\n    spark.executorEnv.PGPASS: hunter2\n"
        "sources:\n  shop: postgresql://me:hunter2@db/shop\n"
        "  other: postgresql://db/shop?user=me&password=hunter2\n"
        "  third: postgresql://db/shop?user=me&password=${SHOP}&sslpassword=${KEY}\n"
        "pipelines:\n  a: {topic: a, table: l.a,\n"
        "    notify: {webhook: 'https://me:hunter2@hooks.example.com'}}\n"
    )
    assert main(["validate"]) == 0
    out = capsys.readouterr().out
    told = [line for line in out.splitlines() if "plain text" in line]
    assert [line.removeprefix(f"note: {tmp_path}/").partition(": ")[0] for line in told] == [
        "sluice.yaml:4 kafka.sasl.password",
        "sluice.yaml:7 catalog.uri",
        "sluice.yaml:10 spark.conf.spark.executorEnv.PGPASS",
        "sluice.yaml:12 sources.shop",
        "sluice.yaml:13 sources.other",
        "sluice.yaml:17 pipelines.a.notify.webhook",
    ]
    assert all("${NAME}" in line for line in told)
    assert "hunter2" not in out


OF_BEFORE = """\
version: 1
include: teams/*.yaml
pipelines:
  a:
    topic: t
    table: l.a
    quality:
      - name: s
        expectations:
          - expect_column_values_to_not_be_null: {column: id, row_condition: 'code == "x"'}  # why
"""


def test_what_an_earlier_version_read_otherwise_is_refused_and_written_by_fix(write, capsys, tmp_path):
    """In sluice.yaml and its team files, line by line; comments stay, and a second time nothing is fixed."""
    write(OF_BEFORE)
    team = tmp_path / "teams" / "team.yaml"
    team.parent.mkdir()
    _, _, pipelines = OF_BEFORE.partition("include: teams/*.yaml\n")
    team.write_text(pipelines.replace("a:", "b:").replace("l.a", "l.b"))
    assert main(["validate"]) == 78
    told = (
        f"{tmp_path}/sluice.yaml:10 pipelines.a.quality.0.expectations.0.expect_column_values_to_not_be_null"
    )
    assert capsys.readouterr().out.splitlines()[0] == (
        f"{told}.row_condition: would keep other rows than before: a row_condition is now SQL"
        " — ./sluice validate --fix writes: code = 'x'"
    )
    assert main(["validate", "--fix"]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[0] == f"""fixed {told}.row_condition: code == "x" is now code = 'x'"""
    assert "2 pipelines, no mistakes" in out
    for file in (tmp_path / "sluice.yaml", team):
        assert """row_condition: "code = 'x'"}  # why""" in file.read_text()
    assert main(["validate", "--fix", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["fixed"] == []
    write(OF_BEFORE)
    assert main(["validate", "--fix", "--json"]) == 0
    (fixed,) = json.loads(capsys.readouterr().out)["fixed"]
    assert (fixed["line"], fixed["was"], fixed["now"]) == (10, 'code == "x"', "code = 'x'")
