"""What the pipelines of several topics are called, and which pipelines clash. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from spark_jobs.config.settings import DEAD_LETTERS_SUFFIX, PipelineConfig

_UNSAFE = re.compile(r"[^A-Za-z0-9_]")


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
