"""The changes layout: a row per change of a database table, with the row after it and its metadata."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from spark_jobs.config.columns import ColumnSettings, FieldForm
from spark_jobs.config.problems import Finding, mistake
from spark_jobs.config.sections import CdcSettings, Envelope
from spark_jobs.config.settings import PipelineSettings
from spark_jobs.config.value_format import KeySettings, ValueFormat, ValueSettings
from spark_jobs.layouts.flat import Flat
from spark_jobs.protocol.errors import SluiceError, fault
from spark_jobs.protocol.work import Above, Layout

_OWN_NAMES = "_cdc_"


class Changes(Flat):
    """Every change event is a row."""

    __slots__ = ()
    stored = "changes"
    clash = "column-clash.of-events"
    rows = Above("records.layouts.changes.changes")
    sections = frozenset({"cdc"})
    refused = {**Layout.refused, "retype": lambda **at: fault("cannot-retype.events", **at)}

    def envelope(self, cdc: CdcSettings) -> Envelope | None:
        """Return the envelope around a row."""
        return cdc.envelope or Envelope.DEBEZIUM

    def findings(self, entry: PipelineSettings, sources: Collection[str]) -> Iterator[Finding]:
        """Yield problems shared by a table of changes and a mirror."""
        envelope = entry.cdc.envelope or Envelope.DEBEZIUM
        found = (_check_column(*column) for column in entry.columns.items())
        of_formats = _check_formats(envelope, entry.value, entry.record_key)
        yield from [of_formats] if of_formats else list(filter(None, found))[:1]

    def unlike(self, *, name: str, own: str, there: str, kind: str, is_declared: bool) -> SluiceError:
        """See ``Flat``."""
        return fault("schema-incompatible.changes", name=name, own=own, found=there, kind=kind)


def _check_formats(envelope: Envelope, value: ValueSettings, key: KeySettings) -> Finding | None:
    is_debezium = envelope is Envelope.DEBEZIUM
    if value.format is ValueFormat.AVRO and is_debezium:
        if key.format is not ValueFormat.AVRO:
            return mistake("keys-beside-avro", ("key", "format"), format=key.format)
        if "column" in key.model_fields_set:
            return mistake("key-column-of-changes", ("key", "as"))
        return None
    for part, place in (("value", value), ("key", key)):
        if place.format.has_schema or (part == "value" and place.format is not ValueFormat.JSON):
            return mistake(
                "format-of-debezium" if is_debezium else "format-of-changes",
                (part, "format"),
                envelope=envelope,
                format=place.format,
            )
    return None


def _check_column(name: str, column: ColumnSettings) -> Finding | None:
    if name.startswith(_OWN_NAMES):
        return mistake("column-of-changes", ("columns", name))
    if column.written_as is FieldForm.NUMBER:
        return mistake("column-of-the-event", ("columns", name))
    return None


LAYOUT = Changes("changes")
