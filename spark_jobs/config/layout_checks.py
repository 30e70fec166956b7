"""What is in force of a mirror without a word, and what a layout cannot have said of it. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from spark_jobs.config.columns import ColumnSettings, FieldForm, Incompatible
from spark_jobs.config.problems import Finding
from spark_jobs.config.sections import CdcSettings, Envelope, MirrorSettings, RouteSettings, SchemaSettings
from spark_jobs.config.settings import PipelineSettings
from spark_jobs.config.suites import OnFailure, When
from spark_jobs.config.value_format import KeySettings, Layout, ValueFormat, ValueSettings

_OWN_NAMES = "_cdc_"


def schema_of(layout: Layout, schema: SchemaSettings) -> SchemaSettings:
    """Return what is in force: a mirror stops at a type that does not fit, unless something else is written.

    A column beside the old one would leave rows with the value in either.
    """
    if layout is not Layout.MIRROR or "incompatible" in schema.model_fields_set:
        return schema
    return schema.model_copy(update={"incompatible": Incompatible.STOP})


_VIEW = "Leave it out: a view, or a pipeline of layout: changes, can have"
_EVERY_RECORD = "Leave it out: an archive has every record, and a pipeline of its own can have the rows."
# What a layout cannot have said of it, and what to do instead.
_NOT_SAID: dict[Layout, dict[str, str]] = {
    Layout.ARCHIVE: {
        "columns": "Leave it out: its columns are those of every archive.",
        "filter": _EVERY_RECORD,
        "route": _EVERY_RECORD,
        "partition_by": "Leave it out: an archive is partitioned by _kafka_partition.",
        "sort_by": "Leave it out: an archive's rows stand in the order of their offsets.",
        "hot": "Write hot: false: it says of each row when it came in, which nobody knows yet.",
    },
    Layout.MIRROR: {
        "filter": f"{_VIEW} some rows alone.",
        "route": "Leave it out: the rows of a key would be in two tables.",
        "partition_by": "Leave it out: a change would take its row from one partition to another.",
        "sort_by": "Leave it out: compaction sorts its rows by key.",
        "hot": "Write hot: false: what Kafka has beyond it changes rows in it.",
    },
}
_NO_ROW_MAY_GO = {
    Layout.ARCHIVE: "Write on_failure: hold: an archive has every record.",
    Layout.MIRROR: "Write on_failure: hold: without its newest change a row is wrong.",
}
_UNSAID = PipelineSettings()


def check_layout(
    entry: PipelineSettings, own: PipelineSettings, sources: Collection[str]
) -> Iterator[Finding]:
    """Yield what cannot be said of a pipeline of its layout; ``own`` is what its own entry says."""
    for name, hint in _NOT_SAID.get(entry.layout, {}).items():
        if getattr(entry, name) != getattr(_UNSAID, name):
            yield Finding((name,), f"is not said of {_called(entry.layout)}", hint)
    rejecting = [each.name for each in entry.quality if each.on_failure is OnFailure.DEAD_LETTERS]
    if rejecting and entry.layout in _NO_ROW_MAY_GO:
        told = f"has a gate that takes rows out of {_called(entry.layout)}: {', '.join(rejecting)}"
        yield Finding(("quality",), told, _NO_ROW_MAY_GO[entry.layout])
    if entry.layout is Layout.ARCHIVE and "column" in entry.record_key.model_fields_set:
        yield Finding(("key", "as"), "is not said of an archive", "Leave it out: the column is `key`.")
    yield from _check_hot(entry)
    yield from _check_route(entry.route, entry.layout)
    if finding := _check_changes(entry, own.cdc):
        yield finding
    if entry.layout is Layout.MIRROR:
        yield from _check_columns(entry.columns)
        yield from _check_source(entry.mirror, entry.cdc, sources)
    elif own.mirror.model_fields_set:
        hint = "Add layout: mirror, or leave it out."
        yield Finding(("mirror",), f"is said of a pipeline of layout {entry.layout}", hint)


def _called(layout: Layout) -> str:
    return f"{'an' if layout is Layout.ARCHIVE else 'a'} {layout}"


def _check_hot(entry: PipelineSettings) -> Iterator[Finding]:
    """Yield why a pipeline's records cannot be shown before they are drained."""
    gates = [each.name for each in entry.quality if each.when is When.GATE]
    if entry.hot is not None and gates:
        told = f"is said of a pipeline with a gate: {', '.join(gates)}"
        yield Finding(("hot",), told, "Write hot: false: nobody has judged the rows that it would show.")
    elif entry.hot is not None and entry.route != _UNSAID.route:
        hint = "Write hot: false: an answer is over one table, and its records become rows of several."
        yield Finding(("hot",), "is said beside route", hint)


def _check_route(route: RouteSettings, layout: Layout) -> Iterator[Finding]:
    """Yield what is wrong with it but for its expression."""
    if route == _UNSAID.route or layout is Layout.ARCHIVE:
        return
    if route.by is None:
        yield Finding(("route",), "has no by", 'Write by: "kind", an expression over one record.')
    elif not route.tables:
        yield Finding(("route",), "has no tables", "Write tables: {refund: sales.refunds}.")


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


def _check_changes(entry: PipelineSettings, own: CdcSettings) -> Finding | None:
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
