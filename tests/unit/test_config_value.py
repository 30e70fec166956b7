"""`value:` as it is written, and what is refused in it, defaults and all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from spark_jobs.config.file import read_config
from spark_jobs.config.value_format import ValueFormat

if TYPE_CHECKING:
    from pathlib import Path

    from spark_jobs.config.build import ConfigReading


_AVRO = "format: avro, registry: main"


def read(tmp_path: Path, value: str, defaults: str = "") -> ConfigReading:
    """Return what a file with one pipeline and one registry means."""
    file = tmp_path / "sluice.yaml"
    file.write_text(
        "version: 1\nregistries: {main: {url: 'http://r'}}\n"
        f"defaults: {{{defaults}}}\npipelines:\n  a: {{topic: t, table: l.a, value: {value}}}\n"
    )
    return read_config(file)


@pytest.mark.parametrize(
    ("value", "wrong", "told"),
    [
        ("{format: avro}", "value", "cannot be read without a schema"),
        ("{format: avro, registry: main, file: a.avsc}", "value", "both registry and file"),
        ("{format: avro, registry: other}", "value.registry", "no registry is named other"),
        ("{format: avro, file: /etc/passwd}", "value.file", "not a path inside the folder"),
        ("{format: avro, file: a/../../b}", "value.file", "not a path inside the folder"),
        ("{format: avro, registry: main, subject: s}", "value.subject", "when each record names its schema"),
        ("{format: avro, registry: main, version: 3}", "value.version", "when each record names its schema"),
        ("{format: avro, file: a, version: latest}", "value.version", "not apply to a schema from a file"),
        ("{format: avro, file: a, framing: confluent}", "value.framing", "not apply to a schema from a file"),
        ("{format: avro, framing: none}", "value", "cannot be read without a schema"),
        ("{format: avro, registry: main, framing: n}", "value.framing", "must be 'confluent', 'apicurio', "),
        ("{format: avro, registry: main, framing: apicurio}", "value.framing", "Write framing: confluent or"),
        ("{format: avro, registry: main, framing: none, version: 0}", "value.version", "Write latest, or"),
        ("{registry: main}", "value.registry", "set format: avro, protobuf or json_schema"),
        ("{file: a.avsc}", "value.file", "does not apply to format json"),
        ("{format: raw, registry: main}", "value.registry", "does not apply to format raw"),
        ("{format: string, file: a}", "value.file", "does not apply to format string"),
        ("{format: string, framing: none}", "value.framing", "does not apply to format string"),
        ("{format: avro, file: a, message: M}", "value.message", "does not apply to format avro"),
        ("{format: avro, file: a, include: [s]}", "value.include", "does not apply to format avro"),
        (
            "{format: avro, file: a, unknown_fields: ignore}",
            "value.unknown_fields",
            "does not apply to format avro",
        ),
        (
            "{format: json_schema, file: a, message: M}",
            "value.message",
            "does not apply to format json_schema",
        ),
        (
            "{format: protobuf, registry: main, message: M}",
            "value.message",
            "when each record names its schema",
        ),
        ("{format: protobuf, registry: main, include: [s]}", "value.include", "to schemas from a registry"),
        (
            "{format: xml}",
            "value.format",
            "'protobuf', 'json_schema', 'csv', 'string' or 'raw'",
        ),
        ("{fmt: avro}", "value.fmt", "Did you mean format"),
    ],
)
def test_what_cannot_be_meant_is_one_clear_line(tmp_path: Path, value: str, wrong: str, told: str) -> None:
    """With the key it stands under."""
    (problem,) = read(tmp_path, value).problems
    assert f"pipelines.a.{wrong}" in str(problem)
    assert told in str(problem)


@pytest.mark.parametrize(
    ("written", "wrong", "told"),
    [
        ("key: {format: avro}", "key", "cannot be read without a schema"),
        ("key: {format: json}", "key.format", "keys cannot be read as json"),
        ("key: {format: string, as: k}", "key.as", "does not apply to keys of format string"),
        ("key: {format: avro, registry: main, as: _kafka_key}", "key.as", "reserved for Sluice"),
        ("key: {format: avro, registry: main, as: ''}", "key.as", "is empty"),
        ("key: {registry: main}", "key.registry", "does not apply to format string"),
    ],
)
def test_what_keys_cannot_be_is_one_clear_line(tmp_path: Path, written: str, wrong: str, told: str) -> None:
    """As that of values is."""
    (problem,) = read(tmp_path, f"{{}}, {written}").problems
    assert f"pipelines.a.{wrong}" in str(problem)
    assert told in str(problem)


@pytest.mark.parametrize(
    ("written", "wrong"),
    [
        ("columns: {a: long}", "columns"),
        ("partition_by: [a]", "partition_by"),
        ("sort_by: [_kafka_key]", "sort_by"),
        ("key: {format: avro, registry: main, as: k}", "key.as"),
        (
            "quality: [{name: q, when: gate, on_failure: dead_letters, expectations:"  # noqa: ISC004
            " [expect_column_values_to_not_be_null: {column: a}]}]",
            "quality",
        ),
    ],
)
def test_an_archive_is_made_of_whole_records(tmp_path: Path, written: str, wrong: str) -> None:
    """What is said of a flat table's columns cannot be said of it."""
    (problem,) = read(tmp_path, f"{{}}, layout: archive, {written}").problems
    assert f"pipelines.a.{wrong}" in str(problem)


@pytest.mark.parametrize(
    ("value", "written", "wrong"),
    [
        ("{}", "cdc: {envelope: upsert}", "cdc"),
        ("{}", "layout: archive, cdc: {envelope: debezium}", "cdc"),
        ("{}", "layout: changes, cdc: {envelope: other}", "cdc.envelope"),
        ("{format: avro, registry: main}", "layout: changes", "key.format"),
        ("{format: avro, registry: main}", f"layout: mirror, key: {{{_AVRO}, as: id}}", "key.as"),
        (f"{{{_AVRO}}}", f"layout: changes, key: {{{_AVRO}}}, cdc: {{envelope: upsert}}", "value.format"),
        ("{format: protobuf, registry: main}", "layout: changes", "value.format"),
        ("{format: string}", "layout: changes", "value.format"),
        ("{}", "layout: changes, key: {format: avro, registry: main}", "key.format"),
        ("{}", "layout: changes, columns: {_cdc_operation: string}", "columns._cdc_operation"),
        ("{}", "layout: changes, columns: {a: {type: string, jmespath: b}}", "columns.a"),
        ("{}", "layout: changes, columns: {a: {type: string, from: json}}", "columns.a"),
        ("{}", "layout: changes, columns: {a: {type: long, from: number}}", "columns.a"),
    ],
)
def test_what_cannot_be_said_of_change_events_is_refused(
    tmp_path: Path, value: str, written: str, wrong: str
) -> None:
    """Each with its reason; defaults for several layouts do no harm."""
    (problem,) = read(tmp_path, f"{value}, {written}").problems
    assert f"pipelines.a.{wrong}" in str(problem)
    assert not read(tmp_path, "{}", "cdc: {envelope: upsert}").problems


@pytest.mark.parametrize(
    ("value", "defaults", "written"),
    [
        ("{}", "", (ValueFormat.JSON, None, None)),
        ("{format: avro, file: s/a.avsc}", "", (ValueFormat.AVRO, None, "s/a.avsc")),
        ("{registry: main}", "value: {format: avro}", (ValueFormat.AVRO, "main", None)),
        ("{format: json}", "value: {format: avro, registry: main}", (ValueFormat.JSON, "main", None)),
        ("{}", "value: {registry: main}", (ValueFormat.JSON, "main", None)),
    ],
)
def test_a_value_is_laid_over_the_defaults(
    tmp_path: Path, value: str, defaults: str, written: tuple[object, ...]
) -> None:
    """Key by key, as every section is; a registry that JSON has no use for does no harm."""
    reading = read(tmp_path, value, defaults)
    assert not reading.problems
    assert reading.config is not None
    found = reading.config.pipelines[0].value
    assert (found.format, found.registry, found.file) == written


@pytest.mark.parametrize(
    ("value", "meant"),
    [
        ("{format: avro, registry: main}", (True, False, None, None)),
        ("{format: avro, registry: main, framing: none}", (False, True, None, None)),
        ("{format: protobuf, registry: main, framing: none, subject: s, version: 3}", (False, True, "s", 3)),
        ("{format: avro, registry: main, framing: none, version: latest}", (False, True, None, None)),
        ("{format: avro, file: a.avsc, framing: none}", (False, False, None, None)),
    ],
)
def test_a_schema_is_named_by_each_value_or_by_a_version(
    tmp_path: Path, value: str, meant: tuple[object, ...]
) -> None:
    """A file's names itself, whether that is said or not."""
    reading = read(tmp_path, value)
    assert not reading.problems
    assert reading.config is not None
    found = reading.config.pipelines[0].value
    assert (found.is_framed, found.is_by_version, found.subject, found.version) == meant


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("sort_by: [a, b, a]", "names the column a twice"),
        ("sort_by: place.city", "'place.city' is not a top-level column"),
        ("sort_by: [a, b], columns: {b: 'struct<c: long>'}", "names b, a struct<c: long>"),
        ("sort_by: [a], columns: {a: list<long>}", "such values have no order"),
    ],
)
def test_what_rows_cannot_be_sorted_by_is_one_clear_line(tmp_path: Path, written: str, told: str) -> None:
    """Before there is a table."""
    (problem,) = read(tmp_path, f"{{}}, {written}").problems
    assert "pipelines.a.sort_by" in str(problem)
    assert told in str(problem)
