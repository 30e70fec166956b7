"""The dead-letter table's own columns: judged before a record is read, and never the loss of a letter."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
import yaml

from spark_jobs.config.build import build_config
from spark_jobs.config.columns import LetterColumn
from spark_jobs.config.expressions import judge_expressions
from spark_jobs.config.file import parse_document
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.kafka.chunks import Chunk
from spark_jobs.protocol.errors import ConfigError
from spark_jobs.records.dead_letter_columns import with_columns
from spark_jobs.records.decoder import BadValue, Phase
from spark_jobs.records.shape import Origin, dead_letter_table
from spark_jobs.schema.arrow_schema import arrow_schema
from spark_jobs.schema.declared import dead_letter_evolution
from spark_jobs.schema.evolution import evolved
from spark_jobs.schema.iceberg_types import dead_letter_schema

NOON_MS = 1_767_268_800_000
DAY = {"type": "date", "sql": "CAST(_kafka_timestamp AS DATE)"}


def _pipeline(**columns: dict[str, str]) -> PipelineConfig:
    return PipelineConfig(name="p", topic="t", table="l.t", dead_letters={"columns": columns})


def _letters(pipeline: PipelineConfig, *values: bytes) -> list[dict[str, Any]]:
    """Return what these values, all of them bad, are in the dead-letter table."""
    schema = evolved(dead_letter_schema(), dead_letter_evolution(pipeline, dead_letter_schema()))
    records = Chunk(0)
    for offset, value in enumerate(values):
        records.offsets.append(offset)
        records.timestamps_ms.append(NOON_MS)
        records.timestamp_types.append(1)
        records.keys.append(b"key")
        records.values.append(value)
        records.headers.append([("trace", b"7")])
    bad = [BadValue(row, Phase.DECODE, None, "not JSON") for row in range(len(values))]
    letters = dead_letter_table(bad, records, Origin("t", 1, 0), "batch", arrow_schema(schema))
    return with_columns(letters, pipeline.dead_letters.columns).to_pylist()


def test_records_that_never_decoded_have_columns() -> None:
    """Of their coordinates, headers, and of their raw text where it is UTF-8."""
    pipeline = _pipeline(
        day=DAY,
        kind={"type": "string", "sql": "regexp_extract(Value, 'kind=([a-z]+)', 1)"},
        trace={"type": "string", "sql": "decode(headers[1].value)"},
        place={"type": "string", "sql": "_kafka_topic || ':' || _kafka_offset || ':' || VALUE"},
        constant={"type": "int", "sql": "7"},
    )
    first, second = _letters(pipeline, b"kind=refund", b"\xff\xfe")
    names = ("day", "kind", "trace", "place", "constant", "error")
    day = dt.date(2026, 1, 1)
    assert [first[name] for name in names] == [day, "refund", "7", "t:0:kind=refund", 7, "not JSON"]
    assert [second[name] for name in names] == [day, None, "7", None, 7, "not JSON"]
    assert (second["value"], second["key"]) == (b"\xff\xfe", b"key")


def test_an_expression_that_fails_leaves_null_and_says_so() -> None:
    """Its letter is there, with why it is one, and the other columns; a result that does not fit as well."""
    pipeline = _pipeline(
        number={"type": "long", "sql": "CAST(value AS BIGINT)"},
        small={"type": "int", "sql": "value"},
        day=DAY,
    )
    fits, fails, wide = _letters(pipeline, b"7", b"x", b"3000000000")
    assert (fits["number"], fits["small"], fits["error"]) == (7, 7, "not JSON")
    assert (fails["number"], fails["small"], fails["day"]) == (None, None, fits["day"])
    assert fails["error"].startswith("not JSON; dead_letters.columns.number: Could not convert string 'x'")
    assert "; dead_letters.columns.small: " in fails["error"]
    assert (wide["number"], wide["small"]) == (3_000_000_000, None)
    assert wide["error"].startswith("not JSON; dead_letters.columns.small: ")


def test_a_column_of_another_type_is_named() -> None:
    """The table has it already: what is written to it cannot be of two types."""
    there = evolved(dead_letter_schema(), dead_letter_evolution(_pipeline(day=DAY), dead_letter_schema()))
    assert not dead_letter_evolution(_pipeline(day=DAY), there)
    with pytest.raises(ConfigError, match="column day has type date in the dead-letter table"):
        dead_letter_evolution(_pipeline(day={"type": "string", "sql": "value"}), there)


@pytest.mark.parametrize(
    ("letters", "key", "told"),
    [
        ({"columns": {"a": {"type": "int"}}}, "columns.a.sql", ""),
        (
            {"columns": {"a": {"type": "int", "sql": "amount"}}},
            "columns.a.sql",
            "which is not a column of dead",
        ),
        (
            {"columns": {"a": {"type": "string", "sql": "_kafka_key"}}},
            "columns.a.sql",
            "not a column of dead letters",
        ),
        (
            {"columns": {"a": {"type": "string", "sql": "batch_id"}}},
            "columns.a.sql",
            "not a column of dead letters",
        ),
        ({"columns": {"a": {"type": "date", "sql": "current_date"}}}, "columns.a.sql", "depends on the time"),
        (
            {"columns": {"a": {"type": "int", "sql": "_kafka_timestamp"}}},
            "columns.a.sql",
            "the column is int",
        ),
        ({"columns": {"Value": {"type": "int", "sql": "1"}}}, "columns.Value", "every dead-letter table has"),
        (
            {"columns": {"batch_id": {"type": "int", "sql": "1"}}},
            "columns.batch_id",
            "every dead-letter table",
        ),
        ({"partition_by": ["day(at)"]}, "partition_by", "dead-letter table has no column at"),
        (
            {"columns": {"x": {"type": "double", "sql": "1.5::DOUBLE"}}, "partition_by": ["x"]},
            "partition_by",
            "used with x, which is double",
        ),
    ],
)
def test_mistakes_are_named_before_a_record_is_read(letters: dict[str, Any], key: str, told: str) -> None:
    """By key, as in a pipeline's columns."""
    content = {"version": 1, "pipelines": {"p": {"topic": "t", "table": "l.t", "dead_letters": letters}}}
    document, wrong = parse_document("sluice.yaml", yaml.safe_dump(content))
    assert document is not None, wrong
    (problem,) = build_config(document, (), home="/h", folder="/f", judge=judge_expressions).problems
    assert problem.key == f"pipelines.p.dead_letters.{key}"
    assert told in str(problem)


def test_columns_and_partition_fields_go_together() -> None:
    """A declared column, and one that every dead-letter table has."""
    entry = PipelineConfig(
        name="p",
        topic="t",
        table="l.t",
        dead_letters={"columns": {"day": DAY}, "partition_by": ["day", "truncate(8, phase)"]},
    )
    assert not [*judge_expressions(entry)]
    assert entry.dead_letters.columns == {"day": LetterColumn(**DAY)}
