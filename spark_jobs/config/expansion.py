"""A pipeline for each topic that a template matches."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Any, TypeAlias

from spark_jobs.config.build import first_clash, safe_name, settings_of, table_of
from spark_jobs.config.problems import ConfigProblem
from spark_jobs.config.settings import PipelineConfig, PipelineSettings, PipelineTemplate, SluiceConfig

_Clash: TypeAlias = "tuple[PipelineTemplate, PipelineConfig, PipelineConfig]"


def expand(config: SluiceConfig, topics: Iterable[str]) -> SluiceConfig:
    """Replace what the templates gave before by one pipeline for each topic that matches now.

    A topic that a pipeline of its own drains is left to it. Two topics whose safe names or tables are equal
    become a problem and only the first, in the order given, is drained. Idempotent.
    """
    kept, clashes = _expanded(config, topics)
    places = {(template.file, _template_key(template)) for template in config.templates}
    problems = [problem for problem in config.problems if (problem.file, problem.key) not in places]
    problems += (_template_problem(*clash) for clash in clashes)
    return config.model_copy(update={"pipelines": tuple(kept), "problems": tuple(problems)})


def contested(config: SluiceConfig, topics: Iterable[str]) -> set[str]:
    """Return the tables of pipelines of which only one of several topics can have the name or the table."""
    return {pipeline.table for _, *pair in _expanded(config, topics)[1] for pipeline in pair}


def _expanded(config: SluiceConfig, topics: Iterable[str]) -> tuple[list[PipelineConfig], list[_Clash]]:
    from spark_jobs.expressions.regex import whole_matches  # noqa: PLC0415  (DuckDB, only where it is used)

    kept = [pipeline for pipeline in config.pipelines if pipeline.template is None]
    clashes = []
    own_topics = {pipeline.topic for pipeline in kept}
    free = [topic for topic in dict.fromkeys(topics) if topic not in own_topics and topic[:2] != "__"]
    for template in config.templates:
        made: list[PipelineConfig] = []
        for topic in whole_matches(template.topics_regex, free):
            pipeline = _from_template(template, topic, config.gateway.stream_of(topic))
            clash = first_clash(pipeline, chain(kept, made))
            if clash is None:
                made.append(pipeline)
            elif clash.topic != topic:
                clashes.append((template, pipeline, clash))
        kept += sorted(made, key=lambda each: each.topic)
    return kept, clashes


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
