"""What a drain shows in the UI: Dagster's standard table metadata, and where the run took the table."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dagster import MetadataValue, TableColumn, TableRecord, TableSchema

from spark_jobs.drain.batch_run import BatchResult
from spark_jobs.recovery.recovered import RecoveryResult

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata

    from spark_jobs.drain.drain import DrainResult

# A run that caught up a long backlog lists its newest batches only: this is kept in Dagster's database.
BATCHES_SHOWN = 20


def batch_line(batch: BatchResult) -> str:
    """Return one line of the run's log."""
    balance = batch.counts.balance
    further = "".join(f", {offsets:,} {term}" for term, offsets in balance.further.items())
    return (
        f"committed {balance.rows:,} rows, {balance.dead_letters:,} dead letters, "
        f"{balance.tombstones:,} tombstones{further}"
        f" in {sum(batch.durations_ms.values()):,} ms: {batch.batch.ranges}"
    )


def drain_metadata(result: DrainResult) -> dict[str, MetadataValue]:
    """Return the metadata of the run's one materialization."""
    described = _described(result.table, result.metadata) if result.metadata else {}
    return described | _figures(result) | _lists(result)


def _described(table: str, metadata: TableMetadata) -> dict[str, MetadataValue]:
    snapshot = metadata.current_snapshot()
    summary = snapshot.summary if snapshot else None
    rows = summary["total-records"] if summary else None
    columns = [
        TableColumn(name=field.name, type=str(field.field_type), description=field.doc)
        for field in metadata.schema().fields
    ]
    return {
        "dagster/table_name": MetadataValue.text(table),
        "dagster/row_count": MetadataValue.int(int(rows) if rows else 0),
        "dagster/column_schema": MetadataValue.table_schema(TableSchema(columns)),
        "dagster/uri": MetadataValue.url(metadata.location),
        "snapshot_id": MetadataValue.text(str(snapshot.snapshot_id) if snapshot else "none"),
    }


def _figures(result: DrainResult) -> dict[str, MetadataValue]:
    durations: dict[str, int] = {}
    for batch in result.batches:
        for step, milliseconds in batch.durations_ms.items():
            durations[step] = durations.get(step, 0) + milliseconds
    valid_through = result.valid_through_ms
    return {
        **{term: MetadataValue.int(offsets) for term, offsets in result.balance.items()},
        "bytes_read": MetadataValue.int(sum(batch.counts.bytes_read for batch in result.batches)),
        "data_files": MetadataValue.int(sum(batch.counts.data_files for batch in result.batches)),
        "file_bytes": MetadataValue.int(sum(batch.counts.file_bytes for batch in result.batches)),
        "batches": MetadataValue.int(len(result.batches)),
        "stopped": MetadataValue.text(result.stopped),
        **_held(result),
        **_lag_or_pause(result),
        "recovery": MetadataValue.json(_recovery(result.recovery)),
        **({"valid_through": MetadataValue.timestamp(valid_through / 1000)} if valid_through else {}),
        **{f"{step}_ms": MetadataValue.int(total) for step, total in durations.items()},
    }


def _recovery(recovery: RecoveryResult) -> dict[str, Any]:
    fields = dataclasses.asdict(recovery)
    for kind in ("adopted", "held"):
        fields[kind] = tuple(batch.shown() for batch in getattr(recovery, kind))
    return fields


def _held(result: DrainResult) -> dict[str, MetadataValue]:
    return {"held": MetadataValue.text(result.held[0].tell(result.pipeline))} if result.held else {}


def _lag_or_pause(result: DrainResult) -> dict[str, MetadataValue]:
    paused = result.paused
    if paused is not None:
        return {"paused": MetadataValue.text(f"by {paused.actor}: {paused.reason}")}
    return {"lag_records": MetadataValue.int(result.lag_records)}


def _lists(result: DrainResult) -> dict[str, MetadataValue]:
    shown = result.batches[-BATCHES_SHOWN:]
    return {
        "next_offsets": MetadataValue.json(_by_partition(result.next_offsets)),
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


def _by_partition(offsets: Mapping[int, int]) -> dict[str, int]:
    return {str(partition): offset for partition, offset in sorted(offsets.items())}
