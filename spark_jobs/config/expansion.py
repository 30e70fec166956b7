"""A pipeline for each topic that a template matches."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from spark_jobs.config.problems import ConfigProblem
from spark_jobs.config.settings import PipelineConfig, PipelineSettings, PipelineTemplate, SluiceConfig
from spark_jobs.config.templates import first_clash, safe_name, settings_of, table_of


def expand(config: SluiceConfig, topics: Iterable[str]) -> SluiceConfig:
    """Replace what the templates gave before by one pipeline for each topic that matches now.

    A topic that a pipeline of its own drains is left to it. Two topics whose safe names or tables are equal
    become a problem and only the first, in the order of names, is drained. Idempotent.
    """
    from spark_jobs.expressions.regex import whole_matches  # noqa: PLC0415  (DuckDB, only where it is used)

    kept = [pipeline for pipeline in config.pipelines if pipeline.template is None]
    places = {(template.file, _template_key(template)) for template in config.templates}
    problems = [problem for problem in config.problems if (problem.file, problem.key) not in places]
    own_topics = {pipeline.topic for pipeline in kept}
    free = [topic for topic in sorted(set(topics) - own_topics) if not topic.startswith("__")]
    for template in config.templates:
        for topic in whole_matches(template.topics_regex, free):
            pipeline = _from_template(template, topic, config.gateway.stream_of(topic))
            clash = first_clash(pipeline, kept)
            if clash is None:
                kept.append(pipeline)
            elif clash.topic != topic:
                problems.append(_template_problem(template, pipeline, clash))
    return config.model_copy(update={"pipelines": tuple(kept), "problems": tuple(problems)})


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
