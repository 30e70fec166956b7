"""What is in force of a mirror without a word, and what cannot be said of one. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from spark_jobs.config.cdc import CdcSettings, Envelope
from spark_jobs.config.columns import ColumnSettings
from spark_jobs.config.mirror import MirrorSettings
from spark_jobs.config.new_fields import Incompatible
from spark_jobs.config.problems import Finding
from spark_jobs.config.routes import RouteSettings
from spark_jobs.config.settings import PipelineSettings, SchemaSettings
from spark_jobs.config.value_format import Layout


def schema_of(layout: Layout, schema: SchemaSettings) -> SchemaSettings:
    """Return what is in force: a mirror stops at a type that does not fit, unless something else is written.

    A column beside the old one would leave rows with the value in either.
    """
    if layout is not Layout.MIRROR or "incompatible" in schema.model_fields_set:
        return schema
    return schema.model_copy(update={"incompatible": Incompatible.STOP})


def check_mirror(
    entry: PipelineSettings, own: MirrorSettings, sources: Collection[str], rejecting: Collection[str]
) -> Iterator[Finding]:
    """Yield what a mirror cannot have.

    ``own`` is what its own entry says, ``rejecting`` are suites that make dead letters of rows.
    """
    if entry.layout is not Layout.MIRROR:
        if own.model_fields_set:
            hint = "Add layout: mirror, or leave it out."
            yield Finding(("mirror",), f"is said of a pipeline of layout {entry.layout}", hint)
        return
    yield from _check_rows(entry)
    yield from _check_columns(entry.columns)
    if rejecting:
        told = f"has a gate that takes rows out of a mirror: {', '.join(rejecting)}"
        yield Finding(("quality",), told, "Write on_failure: hold: without its newest change a row is wrong.")
    yield from _check_source(entry.mirror, entry.cdc, sources)


def _check_rows(entry: PipelineSettings) -> Iterator[Finding]:
    view = "Leave it out: a view, or a pipeline of layout: changes, can have"
    for name, is_said, hint in (
        ("filter", entry.filter is not None, f"{view} some rows alone."),
        ("route", entry.route != RouteSettings(), "Leave it out: the rows of a key would be in two tables."),
        ("sort_by", bool(entry.sort_by), "Leave it out: compaction sorts its rows by key."),
        (
            "partition_by",
            bool(entry.partition_by),
            "Leave it out: a change would take its row from one partition to another.",
        ),
        ("hot", entry.hot is not None, "Write hot: false: what Kafka has beyond it changes rows in it."),
    ):
        if is_said:
            yield Finding((name,), "is not said of a mirror", hint)


def _check_columns(columns: Mapping[str, ColumnSettings]) -> Iterator[Finding]:
    for name, column in columns.items():
        if column.sql is not None:
            hint = "Compute it in a view over the mirror, or in a pipeline of layout: changes."
            told = "is computed of a change, and that need not tell a row's every value"
            yield Finding(("columns", name, "sql"), told, hint)


def _check_source(mirror: MirrorSettings, cdc: CdcSettings, sources: Collection[str]) -> Iterator[Finding]:
    if mirror.source is None:
        return
    if cdc.envelope is Envelope.UPSERT:
        told = "is said of changes without a position at their source"
        yield Finding(("mirror", "source"), told, "Leave it out, or have Debezium's own events sent.")
    elif mirror.source not in sources:
        known = ", ".join(sorted(sources)) or "none"
        hint = f"`sources` has {known}."
        yield Finding(("mirror", "source"), f"names no source: {mirror.source}", hint)
