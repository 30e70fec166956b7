"""``validate``: every mistake in the configuration with line and key, or its pipelines."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from functools import partial

import click

from cli.output import Report, count, reported
from spark_jobs.config.file import ENVIRONMENT_TEXT, config_files, read_config, with_listed_topics
from spark_jobs.config.problems import ConfigProblem
from spark_jobs.config.quantities import format_duration, format_size
from spark_jobs.config.rewriting import Change, rewrite
from spark_jobs.config.settings import PipelineConfig, SluiceConfig
from spark_jobs.connections.broker_topics import refresh_topics
from spark_jobs.protocol.errors import ConfigError, SluiceError


@click.command(name="validate")
@click.option(
    "--fix", "is_fix", is_flag=True, help="Rewrite settings of earlier versions and print each change."
)
@partial(reported, shows="Print one JSON object: file, problems, pipelines, fixed, notes.")
def command(report: Report, *, is_fix: bool) -> int:
    """List every mistake in sluice.yaml and its team files with line and key.

    Connects to the broker only to list topics for topics_regex. --fix rewrites settings that an earlier
    version read differently, and keeps comments and layout.
    """
    fixed, unwritten = _fix() if is_fix else ([], [])
    for change in fixed:
        report.say(f"fixed {change}")
    reading = read_config()
    config = reading.config
    notes = [str(note) for note in reading.notes]
    if config is not None and config.templates and not reading.problems:
        config, listing_notes = _list_topics(config)
        notes += listing_notes
    left_out = config.problems if config else ()
    problems = (*unwritten, *reading.problems, *left_out, *_quality_problems(config))
    report.add(file=config.source if config else None, problems=problems, fixed=fixed, notes=[*notes])
    report.add(pipelines=[each.model_dump(mode="json") for each in config.pipelines] if config else [])
    _tell(report, config, problems, notes, is_usable=not reading.problems)
    return ConfigError.exit_code if problems else 0


def _fix() -> tuple[list[Change], list[ConfigProblem]]:
    files = config_files()
    done = [rewrite(file, files[0] if number else None) for number, file in enumerate(files)]
    return [each for changes, _ in done for each in changes], [each for _, left in done for each in left]


def _quality_problems(config: SluiceConfig | None) -> Iterator[ConfigProblem]:
    """Yield invalid arguments of expectations; the library takes seconds to load."""
    suites = [(each.name, suite) for each in (config.pipelines if config else ()) for suite in each.quality]
    if config is None or not suites:
        return
    from spark_jobs.quality.judge import mistakes

    for pipeline, suite in suites:
        for mistake in mistakes(suite):
            key = f"pipelines.{pipeline}.quality.{suite.name}"
            yield ConfigProblem(config.source or "", None, key, mistake, "See the expectation's own page.")


def _list_topics(config: SluiceConfig) -> tuple[SluiceConfig, list[str]]:
    """Refresh the list of topics; an unavailable broker or store is not a mistake of the file."""
    try:
        return refresh_topics(config), []
    except SluiceError as error:
        with suppress(SluiceError):
            config = with_listed_topics(config)
        return config, [f"topics_regex uses the last stored list of topics: {error.message}. {error.hint}"]


def _tell(
    report: Report,
    config: SluiceConfig | None,
    problems: tuple[ConfigProblem, ...],
    notes: list[str],
    *,
    is_usable: bool,
) -> None:
    for problem in problems:
        report.say(str(problem))
    if config is not None and is_usable:
        if problems:
            report.say("\nPipelines of the other files are not affected:")
        report.table(
            ("pipeline", "topic", "table", "start", "freshness", "batch", "partitioned by"),
            [_row(pipeline) for pipeline in config.pipelines],
        )
        notes += [
            f"{template.name}: no listed topic matches {template.topics_regex}"
            for template in config.templates
            if not any(pipeline.template == template.name for pipeline in config.pipelines)
        ]
    for note in notes:
        report.say(f"note: {note}")
    if problems:
        report.say(f"\n{count(len(problems), 'mistake')}")
    elif config is not None:
        unnamed = ENVIRONMENT_TEXT if os.environ.get(ENVIRONMENT_TEXT) else "no sluice.yaml: the defaults"
        source = config.source or unnamed
        report.say(f"\n{source}: {count(len(config.pipelines), 'pipeline')}, no mistakes")


def _row(pipeline: PipelineConfig) -> tuple[str, ...]:
    return (
        pipeline.name,
        pipeline.topic,
        pipeline.table,
        str(pipeline.start.kind),
        pipeline.schedule or format_duration(pipeline.freshness_seconds),
        f"{pipeline.max_batch_records:,} records, {format_size(pipeline.max_batch_bytes)}",
        ", ".join(pipeline.table_partition_by) or "-",
    )
