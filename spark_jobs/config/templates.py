"""A pipeline for each topic that a template matches, and which pipelines clash. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from spark_jobs.config.problems import ConfigProblem
from spark_jobs.config.settings import (
    DEAD_LETTERS_SUFFIX,
    PipelineConfig,
    PipelineSettings,
    PipelineTemplate,
    SluiceConfig,
)

_UNSAFE = re.compile(r"[^A-Za-z0-9_]")


def expand(config: SluiceConfig, topics: Iterable[str]) -> SluiceConfig:
    """Replace what the templates gave before by one pipeline for each topic that matches now.

    A topic that a pipeline of its own drains is left to it. Two topics whose safe names or tables are equal
    become a problem and only the first, in the order of names, is drained. Idempotent.
    """
    kept = [pipeline for pipeline in config.pipelines if pipeline.template is None]
    places = {(template.file, _template_key(template)) for template in config.templates}
    problems = [problem for problem in config.problems if (problem.file, problem.key) not in places]
    own_topics = {pipeline.topic for pipeline in kept}
    for template in config.templates:
        for topic in sorted(set(topics) - own_topics):
            if topic.startswith("__") or not re.fullmatch(template.topics_regex, topic):
                continue
            pipeline = _from_template(template, topic, config.gateway.stream_of(topic))
            clash = first_clash(pipeline, kept)
            if clash is None:
                kept.append(pipeline)
            elif clash.topic != topic:
                problems.append(_template_problem(template, pipeline, clash))
    return config.model_copy(update={"pipelines": tuple(kept), "problems": tuple(problems)})


def first_clash(pipeline: PipelineConfig, others: Iterable[PipelineConfig]) -> PipelineConfig | None:
    """Return a pipeline of the same name or that writes the same table."""
    tables = every_table(pipeline)
    same = (other for other in others if other.name == pipeline.name or tables & every_table(other))
    return next(same, None)


def every_table(pipeline: PipelineConfig) -> set[str]:
    """Return the tables of a pipeline and those that it routes rows to, in lower case."""
    return tables_written(pipeline.table).union(each.lower() for each in pipeline.routed_tables)


def settings_of(settings: Mapping[str, Any], topic: str) -> dict[str, Any]:
    """Return the settings of one of several topics: ``{topic}`` stands for it in routed tables too."""
    route = settings["route"]
    tables = {value: table_of(table, topic) for value, table in route.tables.items()}
    return {**settings, "route": route.model_copy(update={"tables": tables})}


def safe_name(topic: str) -> str:
    """Return the topic as a pipeline's name and as ``{topic}`` in a table's."""
    name = _UNSAFE.sub("_", topic)
    return f"_{name}" if name[0].isdigit() else name


def table_of(table: str, topic: str) -> str:
    """Return the table of a topic: ``{topic}`` stands for the topic, safe as a name."""
    return table.replace("{topic}", _UNSAFE.sub("_", topic))


def tables_written(table: str) -> set[str]:
    """Return the tables of a pipeline in lower case: some catalogs fold case, and would have one of two."""
    return {table.lower(), table.lower() + DEAD_LETTERS_SUFFIX}


def _from_template(template: PipelineTemplate, topic: str, stream: str | None) -> PipelineConfig:
    every = {key: getattr(template, key) for key in PipelineSettings.model_fields}
    settings = settings_of(every, topic)
    table = table_of(template.table, topic)
    places: dict[str, Any] = {"topic": topic, "table": table, "template": template.name, "stream": stream}
    return PipelineConfig(name=safe_name(topic), **places, **settings)


def _template_problem(
    template: PipelineTemplate, pipeline: PipelineConfig, clash: PipelineConfig
) -> ConfigProblem:
    return ConfigProblem(
        template.file,
        template.line,
        _template_key(template),
        f"topic {pipeline.topic} would be the pipeline {pipeline.name} into {pipeline.table},"
        f" which topic {clash.topic} is",
        "Give one of them a pipeline of its own with another name and table.",
    )


def _template_key(template: PipelineTemplate) -> str:
    return f"pipelines.{template.name}.topics_regex"
