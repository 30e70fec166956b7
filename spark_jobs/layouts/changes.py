"""A row a change of a database's table: its row after it, and what is told of the change."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from spark_jobs.config.columns import ColumnSettings, FieldForm
from spark_jobs.config.problems import Finding
from spark_jobs.config.sections import CdcSettings, Envelope
from spark_jobs.config.settings import PipelineSettings
from spark_jobs.config.value_format import KeySettings, ValueFormat, ValueSettings
from spark_jobs.layouts.flat import Flat
from spark_jobs.protocol.errors import SluiceError, fault
from spark_jobs.protocol.work import Above, Layout

_OWN_NAMES = "_cdc_"


class Changes(Flat):
    """Every event is a row."""

    __slots__ = ()
    stored = "changes"
    clash = "column-clash.of-events"
    rows = Above("records.layouts.changes.changes")
    sections = frozenset({"cdc"})
    refused = {**Layout.refused, "retype": lambda **at: fault("cannot-retype.events", **at)}

    def envelope(self, cdc: CdcSettings) -> Envelope | None:
        """Return what is around a row."""
        return cdc.envelope or Envelope.DEBEZIUM

    def findings(self, entry: PipelineSettings, sources: Collection[str]) -> Iterator[Finding]:
        """Yield the first that neither a table of changes nor a mirror can have."""
        envelope = entry.cdc.envelope or Envelope.DEBEZIUM
        found = (_check_column(*column) for column in entry.columns.items())
        of_formats = _check_formats(envelope, entry.value, entry.record_key)
        yield from [of_formats] if of_formats else list(filter(None, found))[:1]

    def unlike(self, *, name: str, own: str, there: str, kind: str, is_declared: bool) -> SluiceError:
        """See ``Flat``."""
        return fault("schema-incompatible.changes", name=name, own=own, there=there, kind=kind)


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


LAYOUT = Changes("changes")
