"""``./sluice init``: a valid, commented file for the chosen topics; nothing is ever overwritten unasked."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from cli.app import main, sluice
from cli.commands.init import choose_topics
from spark_jobs.config.file import load_config


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """An empty working directory, without a configuration from elsewhere."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SLUICE_HOME", raising=False)
    # --config sets the variable for child processes: monkeypatch takes it back.
    monkeypatch.setenv("SLUICE_CONFIG", "")
    return tmp_path


def test_named_topics_need_no_broker(folder, capsys):
    """With --topic the file is written at once and loads."""
    arguments = ["init", "--bootstrap-servers", "b:9092", "--topic", "orders", "--topic", "page.views"]
    assert main([*arguments, "--namespace", "raw", "--property", "sasl.password=${P}"]) == 0
    config = load_config(folder / "sluice.yaml")
    assert config.kafka == {"bootstrap.servers": "b:9092", "sasl.password": "${P}"}
    assert [(p.topic, p.table) for p in config.pipelines] == [
        ("orders", "raw.orders"),
        ("page.views", "raw.page_views"),
    ]
    assert "./sluice validate" in capsys.readouterr().out


def test_an_existing_file_stays(folder, capsys):
    """Refused without --force, replaced with it."""
    file = folder / "sluice.yaml"
    file.write_text("mine")
    assert main(["init", "--topic", "a"]) == 78
    assert file.read_text() == "mine"
    assert "--force" in capsys.readouterr().err
    assert main(["init", "--topic", "a", "--force"]) == 0
    assert [p.name for p in load_config(file).pipelines] == ["a"]


def test_the_file_of_the_config_option_is_written(folder):
    """--config names the file to write, folders included."""
    assert main(["init", "--config", "team/new.yaml", "--topic", "a"]) == 0
    assert os.environ["SLUICE_CONFIG"] == str(folder / "team" / "new.yaml")
    assert Path("team/new.yaml").exists()


def test_options_that_make_mistakes_write_nothing(folder, capsys):
    """A namespace that is none is refused before a file exists."""
    assert main(["init", "--topic", "a", "--namespace", "x y"]) == 78
    assert not (folder / "sluice.yaml").exists()
    assert "not a table name" in capsys.readouterr().err


def test_a_secret_is_not_written(folder, capsys):
    """A literal password on the command line is refused with the reference to use, and not shown."""
    assert main(["init", "--topic", "a", "--property", "sasl.password=hunter2"]) == 78
    said = capsys.readouterr().err
    assert "sasl.password=${NAME}" in said
    assert "hunter2" not in said
    assert not (folder / "sluice.yaml").exists()


def test_without_a_broker_the_file_has_an_example(folder):
    """--yes asks nothing; before the embedded broker runs there is nothing to offer."""
    assert main(["init", "--yes"]) == 0
    config = load_config(folder / "sluice.yaml")
    assert config.pipelines == ()
    assert not config.has_broker


def test_the_broker_is_asked_for(folder):
    """An empty answer means the embedded broker."""
    result = CliRunner().invoke(sluice, ["init"], input="\n")
    assert result.exit_code == 0
    assert "Broker (host:port" in result.output
    assert (folder / "sluice.yaml").exists()


@pytest.mark.parametrize(
    ("answer", "expected"), [("all", ("a", "b", "c")), ("2 a", ("b", "a")), ("1,3,1", ("a", "c"))]
)
def test_topics_are_chosen_by_number_or_name(answer, expected):
    """Numbers and names may be mixed; each topic counts once."""
    assert choose_topics(answer, ("a", "b", "c")) == expected
