"""Hostile records: generated JSON in a real drain, each compared with audit's reader."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa

from prove.hostile.case import History, judge
from prove.hostile.kafka import other_topic
from prove.hostile.odd_json import FAMILIES, FIELDS, MIB, Family
from prove.lab.kafka_server import Record
from prove.scenario import Findings, scenario_on
from prove.workload import PARTITIONS, SQLITE, Testbed, Workload
from spark_jobs.kafka.chunks import Chunk
from spark_jobs.lake.file_rows import rows_of_file
from spark_jobs.records.reading_plan import format_of
from spark_jobs.schema.arrow_schema import arrow_schema, json_columns
from spark_jobs.schema.column_source import KnownSchemas
from spark_jobs.schema.iceberg_types import ORIGIN_COLUMNS

LARGEST_BYTES = 8 * MIB
# The fast decoder takes no zero with an exponent of thousands, though it is a number: kept, with its bytes.
REFUSED = "the decoder refused it"
_ZERO = re.compile(rb"[\[:,]\s*-?0(?:\.0+)?[eE]\+?\d{4,}")
# Python's reader takes these and a drain must not: no double, no moment of a zone or not to the microsecond.
_READ_LAXLY = re.compile(rb'[\[:,]\s*-?1e400|"2024-01-01(T00:00:00(\.1234567Z)?)?"|"20240101T000000Z"')

# By partition and offset.
Place = tuple[int, int]


def _drain_family(family: Family, testbed: Testbed) -> Findings:
    """Drain its records as a table's first batch, compare each, continue, check."""
    settings: dict[str, Any] = {"columns": dict(family.columns), "schema": {"max_columns": 2 * FIELDS}}
    with testbed.workload(SQLITE, **settings) as workload:
        produced = _produce(workload, family.records())
        workload.run()
        compared = _compare(workload, produced)
        findings = judge(workload, History(compared.history))
    return replace(findings, lost=findings.lost + compared.wrong, doubled=findings.doubled + compared.doubled)


def _produce(workload: Workload, values: list[bytes]) -> dict[Place, bytes]:
    """Produce half of them to each partition, keeping neighbours together."""
    topic = other_topic(workload, max_message_bytes=LARGEST_BYTES)
    half = (len(values) + 1) // PARTITIONS
    placed = {(n // half, n % half): value for n, value in enumerate(values)}
    records = [Record(value, partition=partition) for (partition, _), value in placed.items()]
    workload.kafka.produce(topic, records, **{"message.max.bytes": LARGEST_BYTES})
    return placed


@dataclass(frozen=True, slots=True)
class Compared:
    """Counts; ``wrong`` records are neither the right row nor an expected dead letter."""

    wrong: int
    doubled: int
    history: str


def _compare(workload: Workload, produced: Mapping[Place, bytes]) -> Compared:
    table = workload.lab.table()
    tasks = table.scan().plan_files()
    rows = _by_place(batch for task in tasks for batch in rows_of_file(table.io, task, table.schema()))
    dead_letters = _by_place([workload.lab.rows(workload.lab.tables[1])])
    workload.contents.rows, workload.contents.dead_letters = len(rows), len(dead_letters)
    wanted = _read_again(workload, produced)
    wrong = {
        place: value
        for place, value in produced.items()
        if not _is_right(value, wanted.get(place), rows.get(place, ()), dead_letters.get(place, ()))
    }
    refused = sum(letter["error"] == REFUSED for letters in dead_letters.values() for letter in letters)
    first = f"; wrong: {next(iter(wrong.items()))!r:.200}" if wrong else ""
    return Compared(
        wrong=len(wrong) + len((rows.keys() | dead_letters.keys()) - produced.keys()),
        doubled=sum(len(found) - 1 for each in (rows, dead_letters) for found in each.values()),
        history=f"{len(rows)} rows and {len(dead_letters)} dead letters, {refused} of them good records;"
        f" {len(json_columns(table))} columns{first}",
    )


def _by_place(tables: Iterator[pa.Table] | list[pa.Table]) -> dict[Place, list[dict[str, Any]]]:
    found: dict[Place, list[dict[str, Any]]] = {}
    for row in (row for table in tables for row in table.to_pylist()):
        found.setdefault((row["_kafka_partition"], row["_kafka_offset"]), []).append(row)
    return found


def _read_again(workload: Workload, produced: Mapping[Place, bytes]) -> dict[Place, dict[str, Any]]:
    """Return the expected rows by audit's reader, without invalid records."""
    columns = [c for c in arrow_schema(workload.lab.table().schema()) if c.name not in ORIGIN_COLUMNS]
    places = list(produced)
    nothing: list[Any] = [None] * len(places)
    records = Chunk(0, [*range(len(places))], [-1] * len(places), nothing, [*produced.values()], nothing)
    plain = format_of(workload.lab.pipeline, KnownSchemas()).plain.decode(records, pa.schema(columns))
    rows = dict(zip(plain.indices, plain.table.to_pylist(), strict=True))
    # A row would hold less than these say, or another number.
    bad = {*plain.has_more, *(index for rounded in plain.rounded.values() for index in rounded)}
    return {places[index]: row for index, row in rows.items() if index not in bad}


def _is_right(value: bytes, wanted: dict[str, Any] | None, rows: Any, dead_letters: Any) -> bool:
    """True if the record is correct, in exactly one place."""
    if rows:
        row = wanted and {name: rows[0][name] for name in wanted}
        return not dead_letters and wanted is not None and row == wanted
    if not dead_letters:
        return False
    is_refused_zero = dead_letters[0]["error"] == REFUSED and _ZERO.search(value) is not None
    is_bad = wanted is None or is_refused_zero or _is_read_laxly(value)
    return is_bad and bool(dead_letters[0]["value"] == value)


def _is_read_laxly(value: bytes) -> bool:
    """True if audit accepts what a drain must refuse: of a repeated key, it sees the last."""
    if _READ_LAXLY.search(value):
        return True
    is_there_twice: list[bool] = []

    def keys_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        is_there_twice.append(len(dict(pairs)) < len(pairs))
        return dict(pairs)

    with suppress(ValueError, RecursionError):
        json.loads(value, object_pairs_hook=keys_of)
    return any(is_there_twice)


SCENARIOS = [
    scenario_on(
        f"records/{family.name}",
        family.title,
        "each record is the right row, or a dead letter with its bytes; the worker lives",
        partial(_drain_family, family),
        group="hostile records",
    )
    for family in FAMILIES
]
