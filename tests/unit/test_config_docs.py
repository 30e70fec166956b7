"""The committed reference and schema are what the models say."""

from __future__ import annotations

import json
import re

import pytest

from cli.commands.config_template import render_config
from docs.pages.configuration import DOCS, render_config_md, render_schema
from spark_jobs.config.build import build_config
from spark_jobs.config.file import parse_document
from spark_jobs.config.file_models import WrittenFile, WrittenPipeline
from spark_jobs.config.listener import CatalogServerSettings, MetricsSettings, UiSettings
from spark_jobs.config.sections import UpkeepSettings
from spark_jobs.config.settings import SparkSettings
from spark_jobs.config.suites import Suite


@pytest.mark.parametrize(
    ("name", "render"),
    [("reference/configuration.md", render_config_md), ("sluice.schema.json", render_schema)],
)
def test_committed_files_are_generated(name, render):
    """``python -m docs.pages.configuration`` would change nothing."""
    assert (DOCS / name).read_text(encoding="utf-8") == render()


def test_every_key_is_documented():
    """Each key of each section has a row with a sentence."""
    text = render_config_md()
    listeners = (UiSettings, MetricsSettings, CatalogServerSettings)
    for model in (WrittenFile, WrittenPipeline, SparkSettings, UpkeepSettings, *listeners, Suite):
        for name, field in model.model_fields.items():
            assert f"| `{field.alias or name}` |" in text
            assert field.description


def test_no_row_of_the_reference_breaks_its_table():
    """A row has two or four cells, and each key of the schema says what it is for."""
    rows = [line for line in render_config_md().splitlines() if line.startswith("| `")]
    assert [row for row in rows if len(re.split(r"(?<!\\)\|", row)) not in {4, 6}] == []
    sections = json.loads(render_schema())["$defs"]
    keys = {
        (name, key): value
        for name, each in sections.items()
        for key, value in each.get("properties", {}).items()
    }
    assert [place for place, value in keys.items() if not value.get("description")] == []


def test_the_schema_knows_the_same_keys_and_refuses_others():
    """An editor flags an unknown key, a missing table and two kinds of topic."""
    schema = json.loads(render_schema())
    pipeline = schema["$defs"]["WrittenPipeline"]
    assert schema["additionalProperties"] is False
    assert pipeline["additionalProperties"] is False
    keys = {field.alias or name for name, field in WrittenPipeline.model_fields.items()}
    assert set(pipeline["properties"]) == keys
    assert pipeline["required"] == ["table"]
    assert [option["required"] for option in pipeline["oneOf"]] == [["topic"], ["topics"], ["topics_regex"]]
    assert '"null"' not in json.dumps(schema)


@pytest.mark.parametrize("topics", [(), ("orders", "page.views", "null", "1.5", "page_views")])
@pytest.mark.parametrize("servers", [None, "a:9092,b:9092"])
def test_a_new_file_is_valid_as_written(topics, servers):
    """What init writes has no mistakes, whatever the topics are called."""
    text = render_config(bootstrap_servers=servers, topics=topics, properties={"sasl.password": "${P}"})
    document, problems = parse_document("sluice.yaml", text)
    built = build_config(document, (), home="/h/.sluice", folder="/h")
    assert [*problems, *built.problems] == []
    assert tuple(p.topic for p in built.config.pipelines) == topics
    assert built.config.kafka.get("bootstrap.servers") == servers


def test_every_commented_example_is_valid_too():
    """Taking the comment signs away, section by section, gives a file without mistakes."""
    text = render_config(bootstrap_servers="a:9092", topics=("orders",))
    lines = [
        line.removeprefix("# ") if line.startswith("# ") and line[2:7] in _SECTIONS else line
        for line in text.splitlines()
    ]
    lines = [line.replace("#   ", "  ", 1) if line.startswith("#   ") else line for line in lines]
    document, problems = parse_document("sluice.yaml", "\n".join(lines))
    built = build_config(document, (), home="/h/.sluice", folder="/h")
    assert [*problems, *built.problems] == []
    assert built.config.catalog.properties["type"] == "rest"
    assert built.config.state == "s3://bucket/sluice-log"
    assert built.config.spark.remote == "sc://spark:15002"
    assert built.config.pipelines[0].partition_by == ("day(_kafka_timestamp)",)


_SECTIONS = {section[:5] for section in ("catalog:", "state: ", "spark:", "include:")}
