"""The bounded audit of the check ``complete``, at most once an hour, and its stored result.

An audit reads every record from Kafka, so each pass compares only the newest offsets. They include all that
was drained since the last pass, up to a million records an hour. `./sluice audit` compares all. The note is
stored under ``state:`` next to the log, where the command line, checks and metrics of every machine read it;
if it is lost, the audit runs again.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from spark_jobs.checks.facts import AuditNote
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.protocol.errors import RetryableError
from spark_jobs.protocol.texts import JsonCodec
from spark_jobs.storage.latest import read_latest, write_latest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_jobs.audit.findings import Finding
    from spark_jobs.connections.connect import Connections
    from spark_jobs.storage.create_only import CreateOnlyStore

NEWEST_OFFSETS = 1_000_000
AUDIT_EVERY_MS = 3600 * 1000
UNREADABLE = "data-file-unreadable"
_NOTE = JsonCodec(AuditNote)
_AS_FOUND = (
    *("missing", "duplicates", "differing", "removed", "rounded", "outdated", "foreign"),
    "examples",
)


def read_note(store: CreateOnlyStore, table_uuid: str) -> AuditNote | None:
    """Return the last readable note about this table, by its uuid, or None."""
    try:
        return _NOTE.from_json(read_latest(store, _folder(table_uuid)) or "")
    except ValueError:
        return None


def is_due(note: AuditNote | None, now_ms: int) -> bool:
    """True if the last note is older than an hour, has no offset, or has a finding to fix."""
    if note is None or not note.offsets or not note.is_clean:
        return True
    if note.source_events is not None and (note.source_events.gaps or note.source_events.doubles):
        return True
    return now_ms - note.audited_at_ms >= AUDIT_EVERY_MS


def audit_newest(pipeline: PipelineConfig, connections: Connections, table_uuid: str) -> AuditNote:
    """Audit the files of new commits, by their footers, and the newest offsets; store the note.

    If one of these files is no longer readable, all files of the metadata are checked. Raises the errors of
    an audit, and ``ConfigError`` (``registry-changed``) if a registry has another text for a schema that rows
    were decoded with.
    """
    from spark_jobs.audit.metadata import audit_metadata, damage_since  # noqa: PLC0415  (pyiceberg, too)
    from spark_jobs.connections.connect import load_drained  # noqa: PLC0415  (pyiceberg)
    from spark_jobs.lake.tables import progress_of  # noqa: PLC0415  (pyiceberg)

    if pipeline.has_schemas:
        progress = progress_of(load_drained(pipeline, connections))
        connections.schemas(pipeline).ask_again(progress)
    now_ms = int(time.time() * 1000)
    store = connections.txlog.store
    earlier = read_note(store, table_uuid)
    # While there is damage nothing since then is known to be whole.
    since_ms = 0 if earlier is None or earlier.damaged else earlier.audited_at_ms
    damage = damage_since(pipeline, connections, since_ms)
    try:
        note = _note_of_damage(damage, now_ms) or _note_of_rows(pipeline, connections, now_ms)
    except RetryableError as error:
        # A file that was whole an hour ago. What else is damaged is worth the footers of all.
        damage = audit_metadata(pipeline, connections).findings if error.code == UNREADABLE else []
        note_of_all = _note_of_damage(damage, now_ms)
        if note_of_all is None:
            raise
        note = note_of_all
    write_latest(store, _folder(table_uuid), _NOTE.to_json(note))
    return note


def _note_of_damage(found: Sequence[Finding], now_ms: int) -> AuditNote | None:
    """Return the note of unreadable files, or None; rows are not compared then."""
    if not found:
        return None
    damaged = tuple(f"{each.what}: {each.where}" for each in found)
    return AuditNote(now_ms, 0, 0, 0, 0, 0, damaged=damaged, mends=tuple(each.mend for each in found))


def _note_of_rows(pipeline: PipelineConfig, connections: Connections, now_ms: int) -> AuditNote:
    from spark_jobs.audit.audit import audit  # noqa: PLC0415  (pyiceberg, Kafka, numpy: never at import)
    from spark_jobs.monitoring.source_events import source_events  # noqa: PLC0415  (DuckDB, too)

    found = audit(pipeline, connections, newest_offsets=pipeline.layout.newest_audited)
    events = source_events(pipeline, connections, NEWEST_OFFSETS) if pipeline.has_source_events else None
    mends = [column.mend(pipeline.name, pipeline.layout) for column in found.rounded_columns]
    mends += [found.outdated_mend(pipeline.name)] if found.outdated else []
    return AuditNote(
        audited_at_ms=now_ms,
        offsets=found.records + found.missing + found.removed,
        mends=tuple(mends),
        source_events=events,
        **{name: getattr(found, name) for name in _AS_FOUND},
    )


def _folder(table_uuid: str) -> str:
    return f"audits/{table_uuid}"
