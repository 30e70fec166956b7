"""Columns of the batch history table, and entries as rows of it and back."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BooleanType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
)

from spark_jobs.books.entries import BookEntry
from spark_jobs.protocol.batch import TERMS, Balance, BatchCounts
from spark_jobs.protocol.offsets import OffsetRange, OffsetRanges
from spark_jobs.schema.arrow_schema import arrow_schema

if TYPE_CHECKING:
    from pyiceberg.table import Table

STARTED_AT = "started_at"
PHASES = "dead_letter_phases"
REASONS = "filtered_reasons"
ROUTED = "routed_tables"
BY_NAME = (PHASES, REASONS, ROUTED)
PARTITION_BY = (f"month({STARTED_AT})",)
_AS_IN_ENTRY = (
    *("pipeline", "table_uuid", "kind", "batch_id", "attempt", "topic", "generation"),
    *("snapshot_id", "dead_letter_snapshot_id", "reason", "actor", "run_id", "sluice_version"),
)


_COUNTED = ("bytes_read", "file_bytes", "data_files", "dead_letter_files")


def _list_of_structs(first_id: int, *names: str) -> IcebergType:
    # The ids only have to differ from each other and the columns' until the catalog numbers them.
    fields = (
        NestedField(first_id + n, name, IntegerType() if name == "partition" else LongType(), required=False)
        for n, name in enumerate(names, 1)
    )
    return ListType(first_id, StructType(*fields), element_required=False)


def _numbers_by_name(first_id: int) -> IcebergType:
    return MapType(first_id, StringType(), first_id + 1, LongType(), value_required=False)


COLUMNS: tuple[tuple[str, IcebergType, str], ...] = (
    ("pipeline", StringType(), "the pipeline's name"),
    ("table_name", StringType(), "the table's identifier"),
    ("table_uuid", StringType(), "distinguishes a table from a later one of the same name"),
    ("kind", StringType(), "drain, replay, or the operator's act: skip, discard, pause, ..."),
    ("batch_id", StringType(), "id of the work: the same for every attempt at the same ranges"),
    ("attempt", StringType(), "id of one attempt at it; one row each"),
    ("topic", StringType(), "Kafka topic"),
    ("generation", IntegerType(), "the source's generation, as in _kafka_generation"),
    ("ranges", _list_of_structs(1000, "partition", "start", "end"), "offsets by partition, ends exclusive"),
    (
        "balance",
        _list_of_structs(1100, "partition", *TERMS),
        "counts of the offsets by outcome and partition",
    ),
    ("landed", BooleanType(), "true if its commit is in the table; false for an abandoned attempt"),
    ("offsets", LongType(), "offsets covered; equal to the sum of the outcomes if landed"),
    ("rows", LongType(), "rows written"),
    ("dead_letters", LongType(), "records that became dead letters"),
    (
        PHASES,
        _numbers_by_name(1300),
        "dead letters by failed step; empty for batches of early versions",
    ),
    (REASONS, _numbers_by_name(1310), "records that a filter left out, by reason"),
    (ROUTED, _numbers_by_name(1320), "rows by the table that they were routed to"),
    ("tombstones", LongType(), "records without a value"),
    ("gaps", LongType(), "offsets without a readable record"),
    ("skipped", LongType(), "offsets that an operator skipped"),
    ("bytes_read", LongType(), "bytes of keys and values read from Kafka"),
    ("file_bytes", LongType(), "bytes of the files written"),
    ("data_files", LongType(), "data files written"),
    ("dead_letter_files", LongType(), "files of dead letters written"),
    ("snapshot_id", LongType(), "the table's snapshot; null if it had expired before it was recorded"),
    ("dead_letter_snapshot_id", LongType(), "the dead-letter table's snapshot; null without dead letters"),
    (
        "durations_ms",
        _numbers_by_name(1200),
        "milliseconds by step; empty for an attempt finished by recovery",
    ),
    ("reason", StringType(), "the operator's reason; empty for runs of the sensor"),
    ("actor", StringType(), "actor: dagster, or user@host"),
    ("run_id", StringType(), "run that began it"),
    ("sluice_version", StringType(), "version that began it"),
    (STARTED_AT, TimestamptzType(), "time at which its ranges were planned"),
    ("finished_at", TimestamptzType(), "time at which its last phase was logged"),
    ("valid_through", TimestamptzType(), "record time up to which the table was complete with it"),
)


def books_schema() -> Schema:
    """Return the schema: a row per finished attempt; provisional field ids, which the catalog reassigns."""
    return Schema(
        *(
            NestedField(n, name, kind, required=False, doc=doc)
            for n, (name, kind, doc) in enumerate(COLUMNS, 1)
        )
    )


def further_columns(entries: Iterable[BookEntry]) -> list[tuple[tuple[str, ...], IcebergType]]:
    """Return the columns that older tables get with their first entry that has a value.

    Columns of the dead letters' phases, the filter's reasons and the routed tables, and one below
    ``balance`` for each term beside the four.
    """
    counts = [entry.counts for entry in entries]
    said = {name for name in BY_NAME if any(getattr(each, name) for each in counts)}
    terms = sorted({term for each in counts for term in each.balance.further})
    return [
        *(((name,), kind) for name, kind, _ in COLUMNS if name in said),
        *((("balance", "element", term), LongType()) for term in terms),
    ]


def further_terms(table: Table) -> tuple[str, ...]:
    """Return the table's outcome counts beyond the standard four."""
    balance = table.schema().find_type("balance.element")
    names = (field.name for field in balance.fields) if isinstance(balance, StructType) else ()
    return tuple(name for name in names if name not in {"partition", *TERMS})


def rows_of(table: Table, entries: Iterable[BookEntry]) -> pa.Table:
    """Return the entries as rows of the existing table, ordered by begin.

    Columns the books have and this version does not know are null.
    """
    rows = sorted(map(_row, entries), key=lambda row: (row[STARTED_AT], row["attempt"]))
    return pa.Table.from_pylist(rows, schema=arrow_schema(table.schema()))


def entry_from_row(row: dict[str, Any]) -> BookEntry:
    """Return the entry of a row, as given by ``to_pylist``."""
    balances = {each["partition"]: _balance_of(each) for each in row["balance"] or ()}
    ranges = (OffsetRange(each["partition"], each["start"], each["end"]) for each in row["ranges"] or ())
    through = _microseconds(row["valid_through"])
    return BookEntry(
        **{name: row[name] for name in _AS_IN_ENTRY},
        table=row["table_name"],
        ranges=OffsetRanges.of(ranges),
        is_landed=row["landed"],
        counts=BatchCounts(
            balances,
            **{name: row[name] for name in _COUNTED},
            dead_letter_phases=dict(row.get(PHASES) or ()),
            filtered_reasons=dict(row.get(REASONS) or ()),
            routed_tables=dict(row.get(ROUTED) or ()),
        ),
        durations_ms=dict(row["durations_ms"] or ()),
        started_at_us=_microseconds(row[STARTED_AT]) or 0,
        finished_at_us=_microseconds(row["finished_at"]),
        valid_through_ms=through // 1000 if through is not None else None,
    )


def _row(entry: BookEntry) -> dict[str, Any]:
    sums = entry.counts.balance
    through = entry.valid_through_ms
    return {
        **{name: getattr(entry, name) for name in _AS_IN_ENTRY},
        **{name: getattr(entry.counts, name) for name in _COUNTED},
        **{name: sums[name] for name in TERMS},
        "table_name": entry.table,
        "ranges": [{"partition": r.partition, "start": r.start, "end": r.end} for r in entry.ranges],
        "balance": [
            {"partition": partition, **balance}
            for partition, balance in sorted(entry.counts.balances.items())
        ],
        "landed": entry.is_landed,
        "skipped": entry.skipped,
        "offsets": entry.offsets,
        **{name: list(getattr(entry.counts, name).items()) for name in BY_NAME},
        "durations_ms": list(entry.durations_ms.items()),
        STARTED_AT: entry.started_at_us,
        "finished_at": entry.finished_at_us,
        "valid_through": through * 1000 if through is not None else None,
    }


def _balance_of(each: dict[str, Any]) -> Balance:
    """Return the counts; a column that did not exist yet is null, and absent from the counts."""
    return Balance(
        (term, offsets) for term, offsets in each.items() if term != "partition" and offsets is not None
    )


def _microseconds(moment: dt.datetime | None) -> int | None:
    if moment is None:
        return None
    # Exact: a float of seconds loses microseconds.
    microseconds: int = pa.scalar(moment, pa.timestamp("us", "UTC")).value
    return microseconds
