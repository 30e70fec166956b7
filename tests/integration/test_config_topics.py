"""``init`` and ``validate`` ask a real broker: its topics on offer, and those that match an expression."""

from __future__ import annotations

import json

import pytest

from cli.app import main
from spark_jobs.config.file import load_config

pytestmark = pytest.mark.kafka


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SLUICE_CONFIG", "")
    return tmp_path


def test_init_offers_the_topics_of_the_broker(folder, kafka, topic_name):
    """--yes takes them all; the file loads."""
    kafka.create_topic(topic_name)
    assert main(["init", "--yes", "--bootstrap-servers", str(kafka)]) == 0
    config = load_config(folder / "sluice.yaml")
    assert topic_name in {pipeline.topic for pipeline in config.pipelines}
    assert not [pipeline for pipeline in config.pipelines if pipeline.topic.startswith("_")]


def test_validate_lists_topics_for_an_expression(folder, kafka, topic_name, capsys):
    """A matching topic is a pipeline at once, and stays one for later loads without a broker."""
    kafka.create_topic(topic_name)
    (folder / "sluice.yaml").write_text(
        f"version: 1\nkafka: {{bootstrap.servers: '{kafka}'}}\n"
        f"pipelines: {{some: {{topics_regex: '{topic_name}', table: 'l.{{topic}}'}}}}\n"
    )
    assert main(["validate", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert [pipeline["topic"] for pipeline in answer["pipelines"]] == [topic_name]
    assert answer["notes"] == []
    assert [pipeline.topic for pipeline in load_config(folder / "sluice.yaml").pipelines] == [topic_name]


def test_init_says_what_to_do_without_an_answer(capsys, folder):
    """No broker at that address: one error, a way round it, and no file."""
    assert main(["init", "--yes", "--bootstrap-servers", "127.0.0.1:1"]) != 0
    assert "--topic" in capsys.readouterr().err
    assert not (folder / "sluice.yaml").exists()
