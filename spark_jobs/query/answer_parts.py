"""Writes an answer in parts as its rows arrive: one JSON object, CSV, or an Arrow IPC stream."""

from __future__ import annotations

import csv
import datetime as dt
import io
import json
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from spark_jobs.query.query import Answer


def rows_of(answer: Answer) -> Iterator[list[Any]]:
    """Yield each row as values by position, since two columns may have the same name."""
    for batch in answer.batches:
        columns = [column.to_pylist() for column in batch.columns]
        yield from (list(values) for values in zip(*columns, strict=True))


def json_parts(answer: Answer, watermark: str | None) -> Iterator[str]:
    """Yield one JSON object on one line: ``columns``, ``rows``, and ``watermark`` if there is one."""
    columns = [{"name": field.name, "type": str(field.type)} for field in answer.schema]
    yield f'{{"columns":{json.dumps(columns, separators=(",", ":"))},"rows":['
    for number, row in enumerate(rows_of(answer)):
        text = json.dumps([plain(value) for value in row], separators=(",", ":"))
        yield f",{text}" if number else text
    yield "]}\n" if watermark is None else f'],"watermark":{json.dumps(watermark)}}}\n'


def csv_parts(answer: Answer) -> Iterator[str]:
    """Yield a line of column names, then the rows."""
    line = io.StringIO()
    writer = csv.writer(line, lineterminator="\n")
    writer.writerow(answer.schema.names)
    for row in rows_of(answer):
        yield _take(line)
        writer.writerow([cell(value) for value in row])
    yield _take(line)


def arrow_parts(answer: Answer) -> Iterator[bytes]:
    """Yield an Arrow IPC stream; a stream without its end marker is incomplete."""
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, answer.schema) as writer:
        for batch in answer.batches:
            writer.write_batch(batch)
            yield _take(sink)
    yield _take(sink)


def cell(value: Any) -> Any:
    """Return the value as text for a table or CSV."""
    shown = plain(value)
    return json.dumps(shown) if isinstance(shown, list | dict) else shown


def plain(value: Any) -> Any:
    """Return the value for JSON: times in ISO 8601, exact numbers as text, bytes as text or hex."""
    match value:
        case dict():
            return {str(key): plain(inner) for key, inner in value.items()}
        case list() | tuple():
            return [plain(inner) for inner in value]
        case float():
            return value if math.isfinite(value) else str(value)
        case None | bool() | int() | str():
            return value
    return _text(value)


def _text(value: Any) -> str:
    if isinstance(value, dt.datetime | dt.date | dt.time):
        return value.isoformat()
    if not isinstance(value, bytes):
        return str(value)
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.hex()


def _take(buffer: Any) -> Any:
    part = buffer.getvalue()
    buffer.seek(0)
    buffer.truncate()
    return part
