"""``init`` and ``validate`` ask a real broker: its topics on offer, and those that match an expression."""

from __future__ import annotations

import json

import pytest
from pyiceberg.schema import Schema

from cli.app import main
from spark_jobs.commit.table_creation import create_table
from spark_jobs.config.file import load_config, write_topics
from spark_jobs.connections.broker_topics import refresh_topics
from spark_jobs.connections.connect import open_catalog
from spark_jobs.lake.catalog import released
from spark_jobs.protocol.progress import Progress

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


def test_who_fills_the_table_keeps_it(folder, kafka, topic_name, capsys):
    """A topic made later is left out by name, whatever sorts first; with the list lost the table tells."""
    first, second = f"{topic_name}.bills", f"{topic_name}-bills"
    (folder / "sluice.yaml").write_text(
        f"version: 1\nkafka: {{bootstrap.servers: '{kafka}'}}\n"
        f"pipelines: {{some: {{topics_regex: '{topic_name}.*', table: 'l.{{topic}}'}}}}\n"
    )

    def drained() -> list[str]:
        return [pipeline.topic for pipeline in refresh_topics(load_config()).pipelines]

    kafka.create_topic(first)
    assert drained() == [first]
    kafka.create_topic(second)
    assert drained() == [first]
    main(["status"])
    assert f"sluice.yaml:3 pipelines.some.topics_regex: topic {second} would" in capsys.readouterr().err
    config = load_config()
    (pipeline,) = config.pipelines
    with released(open_catalog(config)) as catalog:
        progress = Progress(first, 1, {0: 0}, cluster_id="c", topic_id="t", starts={0: 0})
        create_table(
            catalog,
            pipeline.table,
            Schema(),
            partition_by=(),
            properties={},
            progress=progress,
            dead_letters=False,
        )
    write_topics(config, [second, first])  # as versions before kept it: by name
    assert [pipeline.topic for pipeline in load_config().pipelines] == [second]
    assert drained() == [first]
    assert [pipeline.topic for pipeline in load_config().pipelines] == [first]


def test_init_says_what_to_do_without_an_answer(capsys, folder):
    """No broker at that address: one error, a way round it, and no file."""
    assert main(["init", "--yes", "--bootstrap-servers", "127.0.0.1:1"]) != 0
    assert "--topic" in capsys.readouterr().err
    assert not (folder / "sluice.yaml").exists()
