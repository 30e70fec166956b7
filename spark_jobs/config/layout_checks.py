"""What is in force of a mirror without a word, and what a layout cannot have said of it. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from spark_jobs.config.columns import ColumnSettings, FieldForm, Incompatible
from spark_jobs.config.problems import Finding
from spark_jobs.config.sections import CdcSettings, Envelope, MirrorSettings, RouteSettings
from spark_jobs.config.settings import PipelineSettings, SchemaSettings
from spark_jobs.config.value_format import KeySettings, Layout, ValueFormat, ValueSettings

_OWN_NAMES = "_cdc_"


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


def check_archive(entry: PipelineSettings, rejecting: Collection[str]) -> Finding | None:
    """Return what an archive cannot have; ``rejecting`` are suites that make dead letters of rows."""
    if entry.layout is not Layout.ARCHIVE:
        return None
    is_not_said, gates = "is not said of an archive", ", ".join(rejecting)
    for path, is_said, told, hint in (
        ("columns", entry.columns, "are not declared of an archive", "Leave them out, or layout: archive."),
        (
            "partition_by",
            entry.partition_by,
            is_not_said,
            "Leave it out: an archive is partitioned by _kafka_partition.",
        ),
        (
            "sort_by",
            entry.sort_by,
            is_not_said,
            "Leave it out: an archive's rows stand in the order of their offsets.",
        ),
        (
            "quality",
            rejecting,
            f"has a gate that takes rows out of an archive: {gates}",
            "Write on_failure: hold: an archive has every record.",
        ),
        (
            "key.as",
            "column" in entry.record_key.model_fields_set,
            is_not_said,
            "Leave it out: the column is `key`.",
        ),
    ):
        if is_said:
            return Finding(tuple(path.split(".")), told, hint)
    return None


def check_changes(entry: PipelineSettings, own: CdcSettings) -> Finding | None:
    """Return what neither a table of changes nor a mirror can have; ``own`` is what its own entry says."""
    if not entry.layout.is_of_events:
        if own.envelope is None:
            return None
        hint = "Add layout: changes or mirror, or leave it out."
        return Finding(("cdc",), f"is said of a pipeline of layout {entry.layout}", hint)
    if finding := _check_formats(entry.cdc.envelope or Envelope.DEBEZIUM, entry.value, entry.record_key):
        return finding
    return next(filter(None, (_check_column(*column) for column in entry.columns.items())), None)


def _check_formats(envelope: Envelope, value: ValueSettings, key: KeySettings) -> Finding | None:
    is_debezium = envelope is Envelope.DEBEZIUM
    if value.format is ValueFormat.AVRO and is_debezium:
        if key.format is not ValueFormat.AVRO:
            hint = "Add key: {format: avro, registry: NAME}: keys are read as values are."
            return Finding(
                ("key", "format"), f"keys beside events in Avro are not read as {key.format}", hint
            )
        if "column" in key.model_fields_set:
            hint = "Leave it out: a row has the key's columns."
            return Finding(("key", "as"), "is not said of change events", hint)
        return None
    for part, place in (("value", value), ("key", key)):
        if place.format.has_schema or (part == "value" and place.format is not ValueFormat.JSON):
            known = "JSON (JsonConverter), best with schemas, or values and keys in Avro"
            hint = f"Have the connector write {known}." if is_debezium else "They are JSON."
            told = f"change events ({envelope}) are not read as {place.format}"
            return Finding((part, "format"), told, hint)
    return None


def _check_column(name: str, column: ColumnSettings) -> Finding | None:
    if name.startswith(_OWN_NAMES):
        hint = "Leave it out: it says something of the event."
        return Finding(("columns", name), "is a column that every table of changes has", hint)
    if column.written_as is FieldForm.NUMBER:
        told = "is made of the document, and that is an event around a row"
        return Finding(("columns", name), told, "Write sql: over the row's columns.")
    return None
