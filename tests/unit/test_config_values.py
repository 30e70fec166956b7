"""Durations, sizes, partition terms, type names: what is read, and how a slip is answered."""

from __future__ import annotations

import pytest

from spark_jobs.config.iceberg_terms import PartitionTerm, check_type_name, parse_partition_term
from spark_jobs.config.problems import UnreadableValueError
from spark_jobs.config.quantities import (
    format_duration,
    format_size,
    parse_duration_seconds,
    parse_size_bytes,
)
from spark_jobs.storage.paths import is_inside


@pytest.mark.parametrize(("text", "seconds"), [("60s", 60), ("5 m", 300), ("1h", 3600), ("7d", 604800)])
def test_durations_carry_a_unit(text, seconds):
    """A number and a unit are seconds, and come back as the same duration."""
    assert parse_duration_seconds(text) == seconds
    assert parse_duration_seconds(format_duration(seconds)) == seconds


@pytest.mark.parametrize("text", ["60", "1.5h", "0s", "-1s", "one minute", "60 parsecs", ""])
def test_other_durations_are_refused(text):
    """Without a unit, with a fraction, or of nothing: refused with the way to write it."""
    with pytest.raises(UnreadableValueError) as raised:
        parse_duration_seconds(text)
    assert "30s" in raised.value.hint


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [("256MiB", 256 << 20), ("1GB", 10**9), ("512 kib", 512 << 10), ("100B", 100), ("1TiB", 1 << 40)],
)
def test_sizes_are_binary_or_decimal_as_written(text, size_bytes):
    """MiB is 1024², MB is 1000², and a size comes back exactly."""
    assert parse_size_bytes(text) == size_bytes
    assert parse_size_bytes(format_size(size_bytes)) == size_bytes


@pytest.mark.parametrize(
    ("text", "term"),
    [
        ("origin", PartitionTerm("identity", "origin")),
        ("identity(origin)", PartitionTerm("identity", "origin")),
        ("day(payload.at)", PartitionTerm("day", "payload.at")),
        ("bucket( 16 , id )", PartitionTerm("bucket", "id", 16)),
        ("TRUNCATE(8, name)", PartitionTerm("truncate", "name", 8)),
    ],
)
def test_partition_terms_are_read_and_written_back(text, term):
    """Every transform has one canonical text that is read as the same term."""
    assert parse_partition_term(text) == term
    assert parse_partition_term(str(term)) == term


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("days(at)", "Did you mean day?"),
        ("bucket(id, 16)", "Write bucket(16, column)."),
        ("bucket(0, id)", "Write bucket(16, column)."),
        ("day(a, b)", "Write day(column)."),
        ("day(", "bucket(16, column)"),
    ],
)
def test_wrong_partition_terms_say_how_to_write_them(text, hint):
    """A slip in a transform is answered with its right form."""
    with pytest.raises(UnreadableValueError) as raised:
        parse_partition_term(text)
    assert hint in raised.value.hint


@pytest.mark.parametrize(
    "text",
    [
        "long",
        "decimal(38, 10)",
        "fixed[16]",
        "list<string>",
        "map<string, list<long>>",
        "struct<a: int, b: list<map<string, date>>>",
    ],
)
def test_iceberg_types_are_accepted(text):
    """All types of a v2 table pass, nested ones included."""
    check_type_name(text)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("bigint", "long"),
        ("VARCHAR", "string"),
        ("String", "string"),
        ("timestmp", "timestamp"),
        ("decimal(39, 2)", "38"),
        ("decimal(4, 5)", "scale"),
        ("map<string>", "map<key type, value type>"),
        ("list<bigint>", "long"),
        ("struct<int>", "struct<name"),
        ("timestamp_ns", "timestamp"),
        ("", "Use one of"),
    ],
)
def test_other_type_names_are_refused(text, hint):
    """A name of another engine, or of a later table format, is answered with Iceberg's own."""
    with pytest.raises(UnreadableValueError) as raised:
        check_type_name(text)
    assert hint in raised.value.hint


@pytest.mark.parametrize(
    ("location", "folder", "expected"),
    [
        ("file:/lake/log", "file:///lake", True),
        ("/lake", "file:///lake/", True),
        ("/lake/../log", "/lake", False),
        ("/lake-log", "/lake", False),
        ("s3a://bucket/lake/log", "s3://bucket/lake", True),
        ("s3://other/lake/log", "s3://bucket/lake", False),
        ("s3://bucket/log", "${WAREHOUSE}", False),
        ("/log", "prod", False),
    ],
)
def test_one_place_is_recognised_in_all_spellings(location, folder, expected):
    """Java's, Python's and people's spellings of a folder are one; unknown folders never match."""
    assert is_inside(location, folder) is expected
