"""The bounded audit behind the check ``complete``, at most once an hour, and the note it leaves.

Comparing with Kafka costs a read of every record, so each pass looks at the newest offsets only; whatever was
drained since the pass before is among them unless more than a million records come in an hour. `./sluice
audit` compares all. The note is a small file of the state folder, which the command line, the checks and the
metrics read alike; losing it costs one more audit.
"""

from __future__ import annotations

import dataclasses
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING

from spark_jobs.checks.facts import AuditNote
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.protocol.json_codec import JsonCodec
from spark_jobs.storage.state_files import write_whole

if TYPE_CHECKING:
    from spark_jobs.connections.connect import Connections

NEWEST_OFFSETS = 1_000_000
AUDIT_EVERY_MS = 3600 * 1000
_NOTE = JsonCodec(AuditNote)


def read_note(home: str, pipeline: str, table_uuid: str) -> AuditNote | None:
    """Return the last note about this very table; None when there is none."""
    try:
        text = _path(home, pipeline).read_text(encoding="utf-8")
        return _NOTE.from_json(text) if json.loads(text)["table_uuid"] == table_uuid else None
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


def is_due(note: AuditNote | None, now_ms: int) -> bool:
    """True if an hour has passed since the last one, or it found something that may be mended by now."""
    if note is None or not note.is_clean:
        return True
    return now_ms - note.audited_at_ms >= AUDIT_EVERY_MS


def audit_newest(home: str, pipeline: PipelineConfig, connections: Connections, table_uuid: str) -> AuditNote:
    """Audit the newest offsets and leave the note. Raises what the audit raises."""
    from spark_jobs.audit.audit import audit  # noqa: PLC0415  (pyiceberg, Kafka, numpy: never at import)

    found = audit(pipeline, connections, newest_offsets=NEWEST_OFFSETS)
    note = AuditNote(
        audited_at_ms=int(time.time() * 1000),
        offsets=found.records + found.missing + found.removed,
        missing=found.missing,
        duplicates=found.duplicates,
        differing=found.differing,
        removed=found.removed,
        rounded=found.rounded,
        mends=tuple(column.mend(pipeline.name) for column in found.rounded_columns),
        examples=found.examples,
    )
    text = json.dumps({"table_uuid": table_uuid, **dataclasses.asdict(note)})
    write_whole(_path(home, pipeline.name), text)
    return note


def _path(home: str, pipeline: str) -> Path:
    return Path(home) / "checks" / f"{pipeline}.json"
