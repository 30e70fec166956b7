"""Expansion of ``topics_regex`` templates to one pipeline per matching topic."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

from spark_jobs.config.build import Claims, safe_name, settings_of, table_of
from spark_jobs.config.problems import Path, mistake
from spark_jobs.config.settings import PipelineConfig, PipelineSettings, PipelineTemplate, SluiceConfig

_Clash: TypeAlias = "tuple[PipelineTemplate, PipelineConfig, PipelineConfig]"


def expand(config: SluiceConfig, topics: Iterable[str]) -> SluiceConfig:
    """Replace the pipelines of templates by one for each topic that matches now.

    A topic that a pipeline of its own drains is left to it. Two topics whose safe names or tables are equal
    become a problem and only the first, in the order given, is drained. Idempotent.
    """
    kept, clashes = _expanded(config, topics)
    places = {(template.file, ".".join(_template_path(template))) for template in config.templates}
    problems = [problem for problem in config.problems if (problem.file, problem.key) not in places]
    for template, made, clash in clashes:
        topic, name, table, first = made.topic, made.name, made.table, clash.topic
        conflict = mistake(
            "topics-clash", _template_path(template), topic=topic, name=name, table=table, first=first
        )
        problems.append(conflict.at(template.file, template.line))
    return config.model_copy(update={"pipelines": tuple(kept), "problems": tuple(problems)})


def contested(config: SluiceConfig, topics: Iterable[str]) -> set[str]:
    """Return tables for which several topics compete by name or table."""
    return {pipeline.table for _, *pair in _expanded(config, topics)[1] for pipeline in pair}


def _expanded(config: SluiceConfig, topics: Iterable[str]) -> tuple[list[PipelineConfig], list[_Clash]]:
    from spark_jobs.expressions.regex import whole_matches  # noqa: PLC0415  (DuckDB, only where it is used)

    kept = [pipeline for pipeline in config.pipelines if pipeline.template is None]
    claims, clashes = Claims(kept), []
    own_topics = {pipeline.topic for pipeline in kept}
    free = [topic for topic in dict.fromkeys(topics) if topic not in own_topics and topic[:2] != "__"]
    for template in config.templates:
        made: list[PipelineConfig] = []
        for topic in whole_matches(template.topics_regex, free):
            pipeline = _from_template(template, topic, config.gateway.stream_of(topic))
            clash = claims.first_clash(pipeline)
            if clash is None:
                made.append(pipeline)
                claims.add(pipeline)
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


def _template_path(template: PipelineTemplate) -> Path:
    return "pipelines", template.name, "topics_regex"
