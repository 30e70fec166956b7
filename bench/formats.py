"""Orders as JSON, Avro and Protobuf: decoding a chunk, draining a backlog, an archive.

Decoding is measured in this process, with all guards, chunk by chunk in an order that turns round: also two
schemas that alternate record by record, of which the other says other words of the same fields, or is a next
version with one more; and chunks of which one value in a hundred cannot be read. An archive drains the topic
that a flat table drains too; what it holds is exported beside a bare producer.

Drains take turns: what one costs depends on what the machine did before, most of all on whose memory is new,
by a third. So each turn drains a batch into every table, in an order that turns round, and a ratio is the
median of turns.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.schema import Schema

from bench.drains import MeasuredDrain, run_drains
from bench.export_loop import ExportResult, measure_export
from bench.lab import Lab
from bench.order_formats import AVRO, avro_value, avro_values, descriptor, protobuf_value, protobuf_values
from bench.records import JSON_SCHEMA, ORDERS, Shape, fill, generate, order_values
from spark_jobs.formats.avro.schema import avro_schema
from spark_jobs.formats.protobuf.schema import protobuf_schema
from spark_jobs.kafka.chunks import Chunk
from spark_jobs.kafka.reader import MAX_CHUNK_RECORDS
from spark_jobs.protocol.offsets import SchemaId, SchemaKey
from spark_jobs.records.by_schema import SchemaDecoder
from spark_jobs.records.decoder import Decoder
from spark_jobs.records.layouts.flat import FlatDecoder
from spark_jobs.records.reading_plan import JSON
from spark_jobs.schema.arrow_schema import arrow_schema
from spark_jobs.schema.column_source import KnownSchemas
from spark_jobs.schema.iceberg_types import ORIGIN_COLUMNS, with_metadata_columns
from spark_jobs.schema.writer_schema import Language, SchemaText

if TYPE_CHECKING:
    from servers.spark_connect import SparkConnectServer

ROUNDS = 3
TURNS = 9
FIRST_RECORDS = 4_000  # the tables are made from these
GOALS = {
    "avro": 0.5,
    "protobuf": 0.55,
    "avro, two schemas / one": 1.3,
    "avro, two versions / one": 1.3,
    "avro, 1 % unreadable / none": 1.5,
    "protobuf, 1 % unreadable / none": 1.5,
}
DRAIN_GOALS = {
    ("avro", "json"): 0.8,
    ("protobuf", "json"): 0.8,
    ("json archive", "json"): 1.3,
    ("avro archive", "avro"): 1.3,
}
DRAINED = ("json", "json archive", "avro", "avro archive", "protobuf")
_ARCHIVE = " archive"
_FRAMES = b"\0\0\0\0\x01", b"\0\0\0\0\x02"
_NEXT_VERSION = {**AVRO, "fields": [*AVRO["fields"], {"name": "channel", "type": ["null", "string"]}]}
_NEXT_FRAME, _CHANNEL = b"\0\0\0\0\x03", b"\x02\x06web"


@dataclass(frozen=True, slots=True)
class FormatsResult:
    """CPU microseconds: decoding per record, by format; drain tasks per row, by turn and table."""

    records: int
    decode_us: Mapping[str, float]
    drains_us: Sequence[Mapping[str, float]]
    export: ExportResult

    @property
    def ratios(self) -> dict[str, float]:
        """Return the goals' ratios: formats to JSON, variants to their format."""
        us = self.decode_us
        return {
            name: us[name.split(" / ")[0]] / us["json" if " / " not in name else name.split(",")[0]]
            for name in GOALS
        }

    @property
    def drain_ratios(self) -> dict[str, tuple[float, float]]:
        """Return drain ratios with their goals."""
        return {
            f"{one} / {other}": (median(us[one] / us[other] for us in self.drains_us), goal)
            for (one, other), goal in DRAIN_GOALS.items()
            if {one, other} <= self.drain_us.keys()
        }

    @property
    def drain_us(self) -> dict[str, float]:
        """Return the median of each table's turns."""
        return {table: median(us[table] for us in self.drains_us) for table in self.drains_us[0]}


def measure_formats(
    lab: Lab, records: int, *, rounds: int = ROUNDS, turns: int = TURNS, drained: Sequence[str] = DRAINED
) -> FormatsResult:
    """Decode chunks of each, drain this many records into each table per turn, then export JSON's archive."""
    decode_us = _decoded(records, rounds)
    paths, drains_us = _drained(lab, records, turns, drained)
    return FormatsResult(records, decode_us, drains_us, measure_export(paths["json archive"], rounds))


def _decoded(records: int, rounds: int) -> dict[str, float]:
    cases = _cases()
    spent: defaultdict[str, float] = defaultdict(float)
    for turn in range(rounds):
        for first in range(0, records, MAX_CHUNK_RECORDS):
            plain = [json.loads(value) for value in order_values(first, MAX_CHUNK_RECORDS)]
            for name in list(cases)[:: -1 if turn % 2 else 1]:
                decoder, columns, written = cases[name]
                chunk = _chunk(written(plain))
                began = time.process_time()
                decoder.decode(chunk, columns)
                # The first of all pays for what is made once in a process.
                spent[name] += time.process_time() - began if first else 0.0
    return {name: seconds / (rounds * (records - MAX_CHUNK_RECORDS)) * 1e6 for name, seconds in spent.items()}


def _cases() -> dict[str, tuple[Decoder, pa.Schema, Callable[[list[dict[str, Any]]], list[bytes]]]]:
    """Return, by name, a decoder, a table's columns, and the writer of its orders."""
    avro = avro_schema(SchemaText(Language.AVRO, json.dumps(AVRO)))
    another = avro_schema(SchemaText(Language.AVRO, json.dumps({**AVRO, "doc": "the same again"})))
    protobuf = protobuf_schema(SchemaText(Language.PROTOBUF, descriptor()))
    later = avro_schema(SchemaText(Language.AVRO, json.dumps(_NEXT_VERSION)))
    keys = [SchemaKey(SchemaId(number)) for number in (1, 2, 3)]
    known = KnownSchemas(dict(zip(keys, (avro, another, later), strict=True)))
    by_avro = FlatDecoder(SchemaDecoder(known))
    known = KnownSchemas({SchemaKey(SchemaId(1), (0,)): protobuf}, has_indexes=True)
    by_protobuf = FlatDecoder(SchemaDecoder(known))
    of_avro, of_protobuf = _columns(avro.columns.struct.fields), _columns(protobuf.columns.struct.fields)
    of_json = pa.schema([*JSON_SCHEMA, *(each for each in of_avro if each.name.startswith("_"))])
    return {
        "json": (JSON.decoder, of_json, lambda rows: [json.dumps(row).encode() for row in rows]),
        "avro": (by_avro, of_avro, _avro_framed),
        "avro, two schemas": (by_avro, of_avro, _alternating),
        "avro, two versions": (by_avro, _columns(later.columns.struct.fields), _two_versions),
        "avro, 1 % unreadable": (by_avro, of_avro, lambda rows: _some_cut(_avro_framed(rows))),
        "protobuf": (by_protobuf, of_protobuf, _protobuf_framed),
        "protobuf, 1 % unreadable": (
            by_protobuf,
            of_protobuf,
            lambda rows: _some_cut(_protobuf_framed(rows)),
        ),
    }


def _columns(fields: Sequence[Any]) -> pa.Schema:
    whole = arrow_schema(with_metadata_columns(Schema(*fields)))
    return pa.schema([column for column in whole if column.name not in ORIGIN_COLUMNS])


def _chunk(values: list[bytes]) -> Chunk:
    count = len(values)
    nothing: list[Any] = [None] * count
    return Chunk(0, [*range(count)], [0] * count, nothing, [*values], nothing)


def _avro_framed(rows: list[dict[str, Any]]) -> list[bytes]:
    return [_FRAMES[0] + value for value in map(avro_value, rows)]


def _alternating(rows: list[dict[str, Any]]) -> list[bytes]:
    return [_FRAMES[number % 2] + value for number, value in enumerate(map(avro_value, rows))]


def _two_versions(rows: list[dict[str, Any]]) -> list[bytes]:
    return [
        _NEXT_FRAME + value + _CHANNEL if number % 2 else _FRAMES[0] + value
        for number, value in enumerate(map(avro_value, rows))
    ]


def _protobuf_framed(rows: list[dict[str, Any]]) -> list[bytes]:
    return [_FRAMES[0] + b"\0" + value for value in map(protobuf_value, rows)]


def _some_cut(values: list[bytes]) -> list[bytes]:
    return [value[:-3] if number % 100 == 50 else value for number, value in enumerate(values)]


def _drained(
    lab: Lab, records: int, turns: int, tables: Sequence[str]
) -> tuple[Mapping[str, Path], Sequence[Mapping[str, float]]]:
    """Return each table's configuration, and its tasks' CPU per row by turn."""
    shapes = {
        "json": ORDERS,
        "avro": Shape("avro", JSON_SCHEMA, avro_values),
        "protobuf": Shape("protobuf", JSON_SCHEMA, protobuf_values),
    }
    topics = {name: shapes[name] for name in shapes if name in tables}
    drains_us = []
    with lab.spark("spark-formats") as spark:
        for name, shape in topics.items():
            generate(lab.bootstrap_servers, f"formats-{name}", FIRST_RECORDS, shape)
        paths = {name: _configured(lab, spark, name, records) for name in tables}
        run_drains(spark, *paths.values())
        for name, shape in topics.items():
            fill(lab.bootstrap_servers, f"formats-{name}", 0, (turns + 1) * records, shape)
        order = [name for turn in range(turns + 1) for name in list(paths)[:: -1 if turn % 2 else 1]]
        drains = run_drains(spark, *(paths[name] for name in order), budget_seconds=0).drains
        # In the first turn the process itself is new.
        for turn in range(len(paths), len(order), len(paths)):
            own = zip(order[turn:], drains[turn : turn + len(paths)], strict=False)
            drains_us.append({name: _us_per_row(each) for name, each in own})
    return paths, drains_us


def _configured(lab: Lab, spark: SparkConnectServer, table: str, records: int) -> Path:
    name = table.removesuffix(_ARCHIVE)
    schemas = {"avro": json.dumps(AVRO), "protobuf": descriptor()}
    value = {"format": name, **({"file": "schema"} if name in schemas else {})}
    layout: dict[str, Any] = {"layout": "archive"} if table.endswith(_ARCHIVE) else {}
    path = lab.configure(
        table.replace(" ", "-"), f"formats-{name}", spark, value=value, max_batch_records=records, **layout
    )
    if name in schemas:
        (path.parent / "schema").write_text(schemas[name])
    return path


def _us_per_row(drained: MeasuredDrain) -> float:
    return sum(drained.cpu_us.values()) / drained.rows
