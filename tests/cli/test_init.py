"""``./sluice init``: a valid, commented file for the chosen topics; nothing is ever overwritten unasked."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from cli.app import main
from cli.app import sluice as group
from cli.commands.config_template import pipeline_names
from cli.commands.init import choose_topics
from prove.lab.kafka_server import Record
from prove.lab.registry_stand_in import RegistryStandIn, basic
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
    assert "not a valid table name" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--property", "sasl.password=hunter2"], "sasl.password=${NAME}"),
        (["--registry-property", "auth.basic=me:hunter2"], "auth.basic=${NAME}"),
        (["--registry-property", "auth.basic=${USER}:hunter2"], "auth.basic=${NAME}"),
        (["--registry-property", "auth.bearer=hunter2"], "auth.bearer=${NAME}"),
        (["--registry", "http://me:hunter2@registry:8081"], "auth.basic"),
    ],
)
def test_a_secret_is_not_written(folder, capsys, arguments, told):
    """A literal password on the command line is refused with the reference to use, and not shown."""
    assert main(["init", "--topic", "a", "--registry", "http://registry:8081", *arguments]) == 78
    said = capsys.readouterr().err
    assert told in said
    assert "hunter2" not in said
    assert not (folder / "sluice.yaml").exists()


def test_a_registry_stands_in_the_file(folder):
    """With what was said of it; a property without a registry is a mistake."""
    properties = [
        "auth.basic=${USER}:${file:/run/password}",
        "cert=/etc/own.pem",
        "key=/etc/key.pem",
        "timeout=3s",
    ]
    given = [part for each in properties for part in ("--registry-property", each)]
    assert main(["init", "--topic", "a", *given]) == 78
    assert main(["init", "--topic", "a", "--registry", "http://registry:8081", *given]) == 0
    (registry,) = load_config(folder / "sluice.yaml").registries.values()
    assert registry.auth.basic.get_secret_value() == "${USER}:${file:/run/password}"
    assert (registry.url, registry.cert, registry.private_key) == (
        "http://registry:8081",
        "/etc/own.pem",
        "/etc/key.pem",
    )
    assert registry.timeout_seconds == 3


def test_named_topics_are_read_where_a_registry_is_named(folder, monkeypatch):
    """Its schemas explain their records; without it the file is written unseen."""
    asked = []
    monkeypatch.setattr(
        "spark_jobs.preview.prospects.prospects",
        lambda broker, topics, **_: asked.append((broker["bootstrap.servers"], topics)) or (),
    )
    monkeypatch.setattr("cli.commands.init._answers", lambda _: True)
    arguments = ["init", "--force", "--bootstrap-servers", "b:9092", "--topic", "a", "--topic", "b"]
    assert main(arguments) == 0
    assert asked == []
    assert main([*arguments, "--registry", "http://registry:8081"]) == 0
    assert asked == [("b:9092", ("a", "b"))]
    assert [pipeline.topic for pipeline in load_config(folder / "sluice.yaml").pipelines] == ["a", "b"]


def test_without_a_broker_the_file_has_an_example(folder):
    """--yes asks nothing; before the embedded broker runs there is nothing to offer."""
    assert main(["init", "--yes"]) == 0
    config = load_config(folder / "sluice.yaml")
    assert config.pipelines == ()
    assert not config.has_broker


def test_topics_whose_names_clash_are_spelled_out():
    """No two share a table or a dead-letter table, in a catalog that folds case either."""
    topics = (
        "shop-orders",
        "shop.orders",
        "shop_orders",
        "Clicks",
        "clicks",
        "ids",
        "ids_dead_letters",
        "1st",
    )
    assert pipeline_names(topics) == {
        "shop-orders": "shop_dash_orders",
        "shop.orders": "shop_dot_orders",
        "shop_orders": "shop_orders",
        "Clicks": "Clicks",
        "clicks": "clicks_2",
        "ids": "ids",
        "ids_dead_letters": "ids_dead_letters_2",
        "1st": "_1st",
    }


@pytest.mark.kafka
def test_topics_are_looked_at(folder, capsys, kafka, topic_name):
    """Proposals stand below their pipeline and hold when uncommented; an Avro topic is left out."""
    made = [f"{topic_name}-{kind}" for kind in ("json", "avro", "empty")]
    for topic in made:
        kafka.create_topic(topic)
    json_topic, avro_topic, empty_topic = made
    values = [
        {"id": n, "big: one": 1 << 64, "at": "2026-01-01T00:00:00Z", "tags": {f"k{n}": "red"}}
        for n in range(30)
    ]
    kafka.produce(json_topic, [Record(json.dumps(value).encode()) for value in values])
    kafka.produce(avro_topic, [Record(b"\0\0\0\0\7\2a")] * 5)
    choice = " ".join([*made, "no_such"])
    arguments = ["init", "--bootstrap-servers", str(kafka)]
    refused = CliRunner().invoke(group, arguments, input=f"{choice}\n")
    assert "no_such is neither" in refused.output
    done = CliRunner().invoke(group, arguments, input=" ".join(made) + "\n")
    assert done.exit_code == 0, done.output
    assert "left out: all 5 inspected values are framed by a schema registry" in done.output
    assert "30 records, 3 columns; see the proposals in the file" in done.output
    assert "2 pipelines" in done.output
    file = folder / "sluice.yaml"
    text = file.read_text()
    assert f"# Topic {avro_topic} is left out: all 5 inspected values" in text
    assert "red" not in text
    assert [pipeline.topic for pipeline in load_config(file).pipelines] == [json_topic, empty_topic]
    file.write_text(text.replace("\n#     ", "\n    "))
    (declared, empty) = load_config(file).pipelines
    assert [str(term) for term in declared.partition_by] == ["day(at)"]
    types = {name: column.type for name, column in declared.columns.items()}
    assert types == {"tags": "map<string, string>", "big: one": "decimal(38, 0)"}
    assert not empty.columns


@pytest.mark.kafka
def test_a_registry_says_what_framed_topics_are(folder, monkeypatch, kafka, topic_name, sluice):
    """Formats stand in the file, `preview` reads by them; who refuses us costs a line and the topics."""
    text = '{"type": "record", "name": "Order", "fields": [{"name": "key", "type": "long"}]}'
    avro, protobuf, plain = made = [f"{topic_name}-{kind}" for kind in ("avro", "protobuf", "json")]
    for topic in made:
        kafka.create_topic(topic)
    monkeypatch.setenv("REGISTRY_PASSWORD", "hunter2-Tr0ub4dor")
    with RegistryStandIn(wanted=basic("me", "hunter2-Tr0ub4dor")) as registry:
        order = b"\0" + registry.register("orders", text).to_bytes(4) + b"\x0e"
        click = registry.register("clicks", 'syntax = "proto3"; message Click { int64 id = 1; }', "PROTOBUF")
        kafka.produce(avro, [Record(order, key=order)] * 3)
        kafka.produce(protobuf, [b"\0" + click.to_bytes(4) + b"\0\x08\x07"] * 2)
        kafka.produce(plain, [b'{"id": 1}'])
        init = ["init", "--force", "--bootstrap-servers", str(kafka), "--registry", registry.url]
        names = " ".join(made) + "\n"
        refused = CliRunner().invoke(group, init, input=names)
        assert (refused.exit_code, "1 pipeline" in refused.output) == (0, True), refused.output
        assert (
            "the registry is not used: the registry main denied a request without credentials (HTTP 401)"
            in refused.output
        )
        assert f"# Topic {avro} is left out: all 3 inspected values" in (folder / "sluice.yaml").read_text()
        init += ["--registry-property", "auth.basic=me:${REGISTRY_PASSWORD}"]
        done = CliRunner().invoke(group, init, input=names)
        assert done.exit_code == 0, done.output
        assert "3 records, 1 column, keys avro, values avro" in done.output
        assert "hunter2" not in (folder / "sluice.yaml").read_text() + done.output
        pipelines = load_config(folder / "sluice.yaml").pipelines
        assert [str(each.value.format) for each in pipelines] == ["avro", "protobuf", "json"]
        seen = [sluice("preview", each.name).stdout for each in pipelines]
    assert "3 records read, 3 rows, 0 dead letters" in seen[0]
    assert [line.split()[:2] for line in seen[0].splitlines() if "record_key" in line] == [
        ["record_key", "struct<key:"]
    ]
    assert "2 records read, 2 rows, 0 dead letters" in seen[1]
    assert "1 record read, 1 row, 0 dead letters" in seen[2]


def test_the_broker_is_asked_for(folder):
    """An empty answer means the embedded broker."""
    result = CliRunner().invoke(group, ["init"], input="\n")
    assert result.exit_code == 0
    assert "Broker (host:port" in result.output
    assert (folder / "sluice.yaml").exists()


@pytest.mark.parametrize(
    ("answer", "expected"), [("all", ("a", "b", "c")), ("2 a", ("b", "a")), ("1,3,1", ("a", "c"))]
)
def test_topics_are_chosen_by_number_or_name(answer, expected):
    """Numbers and names may be mixed; each topic counts once."""
    assert choose_topics(answer, ("a", "b", "c")) == expected
