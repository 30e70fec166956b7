"""The metadata of a drain in the UI: Dagster's standard table metadata, counts, offsets and batches."""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import TYPE_CHECKING, Any

from dagster import MetadataValue, TableColumn, TableRecord, TableSchema

from spark_jobs.protocol.commit_summary import CommitSummary
from spark_jobs.recovery.decide import RecoveryResult
from spark_jobs.schema.iceberg_types import type_text

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata

    from spark_jobs.drain.drain import DrainResult

# The list is stored in Dagster's database, so a run with many batches lists only the newest.
BATCHES_SHOWN = 20


def drain_metadata(result: DrainResult) -> dict[str, Any]:
    """Return the metadata of the run's materialization."""
    described = _described(result.table, result.metadata) if result.metadata else {}
    return described | _figures(result) | _lists(result)


def _described(table: str, metadata: TableMetadata) -> dict[str, Any]:
    snapshot = metadata.current_snapshot()
    totals = snapshot.summary.additional_properties if snapshot and snapshot.summary else {}
    columns = [
        TableColumn(name=field.name, type=type_text(field.field_type), description=field.doc)
        for field in metadata.schema().fields
    ]
    return {
        "dagster/table_name": table,
        "dagster/row_count": CommitSummary(totals).live_rows,
        "dagster/column_schema": MetadataValue.table_schema(TableSchema(columns)),
        "dagster/uri": MetadataValue.url(metadata.location),
        "snapshot_id": str(snapshot.snapshot_id) if snapshot else "none",
    }


def _figures(result: DrainResult) -> dict[str, Any]:
    durations: Counter[str] = Counter()
    for batch in result.batches:
        durations.update(batch.durations_ms)
    valid_through = result.valid_through_ms
    return {
        **dict(result.balance.items()),
        "bytes_read": sum(batch.counts.bytes_read for batch in result.batches),
        "data_files": sum(batch.counts.data_files for batch in result.batches),
        "file_bytes": sum(batch.counts.file_bytes for batch in result.batches),
        "batches": len(result.batches),
        "stopped": result.stopped,
        **({"dead_letter_phases": phases} if (phases := result.dead_letter_phases) else {}),
        **({"filtered_reasons": reasons} if (reasons := result.filtered_reasons) else {}),
        **({"routed_tables": routed} if (routed := result.routed_tables) else {}),
        **({"ignored_fields": ignored} if (ignored := result.ignored) else {}),
        **({"held": result.held[0].tell(result.pipeline)} if result.held else {}),
        **_lag_or_pause(result),
        "recovery": _recovery(result.recovery),
        **({"valid_through": MetadataValue.timestamp(valid_through / 1000)} if valid_through else {}),
        **{f"{step}_ms": total for step, total in durations.items()},
    }


def _recovery(recovery: RecoveryResult) -> dict[str, Any]:
    fields = dataclasses.asdict(recovery)
    for kind in ("adopted", "held"):
        fields[kind] = tuple(batch.shown() for batch in getattr(recovery, kind))
    return fields


def _lag_or_pause(result: DrainResult) -> dict[str, Any]:
    paused = result.paused
    if paused is not None:
        return {"paused": f"by {paused.actor}: {paused.reason}"}
    return {"lag_records": result.lag_records}


def _lists(result: DrainResult) -> dict[str, Any]:
    shown = result.batches[-BATCHES_SHOWN:]
    return {
        "next_offsets": {str(p): offset for p, offset in sorted(result.next_offsets.items())},
        "newest_batches": MetadataValue.table(
            [
                TableRecord(
                    {
                        "batch": batch.batch.batch_id,
                        "snapshot": str(batch.snapshot_id),
                        "offsets": str(batch.batch.ranges),
                        "rows": batch.counts.balance.rows,
                        "dead_letters": batch.counts.balance.dead_letters,
                        "ms": sum(batch.durations_ms.values()),
                    }
                )
                for batch in shown
            ],
            schema=TableSchema.from_name_type_dict(
                {"batch": "string", "snapshot": "string", "offsets": "string"}
                | dict.fromkeys(("rows", "dead_letters", "ms"), "int")
            ),
        ),
    }
