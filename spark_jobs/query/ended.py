"""Why a query was ended that began: its time, its memory, or the files behind it."""

from __future__ import annotations

from spark_jobs.config.settings import PipelineConfig
from spark_jobs.protocol import mends
from spark_jobs.protocol.errors import ConfigError, RetryableError


def out_of_time(pipeline: PipelineConfig) -> RetryableError:
    """Return the error of a query whose time is over, or whose server ends."""
    return RetryableError(
        "the query was ended: it took longer than it may",
        code="query-timeout",
        hint="Ask for less at once, as by a condition on a partitioned column, or raise"
        " `serve.query_timeout` and what the request allows.",
        pipeline=pipeline.name,
    )


def out_of_memory(why: str, pipeline: PipelineConfig) -> ConfigError:
    """Return the error of a query that needs more memory than it may have."""
    return ConfigError(
        f"the query was ended: {why}",
        code="query-too-large",
        hint="Ask for less at once; where `serve` answers, ask it alone, or raise `serve.query_memory`.",
        pipeline=pipeline.name,
    )


def files_away(error: Exception, pipeline: PipelineConfig) -> RetryableError:
    """Return the error of a table whose manifests or data files could not be read."""
    return RetryableError(
        f"the table's files could not be read: {first_line(error)}",
        code="table-unreadable",
        hint="Try again; when it stays,"
        f" {mends.command('audit', pipeline.name, '--metadata')} names the files that are gone.",
        table=pipeline.table,
    )


def first_line(error: Exception) -> str:
    """Return what DuckDB or Arrow says, without where in its code."""
    return str(error).split(". Detail: ")[0].splitlines()[0]
