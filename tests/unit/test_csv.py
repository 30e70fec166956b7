"""Lines of CSV as rows: declared types, header lines, what does not fit, and an audit's view of all of it."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from spark_jobs.config.columns import from_text
from spark_jobs.config.value_format import KeySettings
from spark_jobs.connections.connect import shape_digest
from spark_jobs.formats.csv.lines import HEADER_LINES, CsvLines
from spark_jobs.protocol.progress_parts import LEAVES_OUT
from spark_jobs.schema.column_source import KnownSchemas
from spark_jobs.schema.evidence import Evidence
from tests.support.shaped import Shaped, chunk_of, column, letters, shaped
from tests.unit.test_config_value import read

if TYPE_CHECKING:
    from pathlib import Path

NAMES = ("id", "name", "price", "at", "paid", "seen")
CSV = {"format": "csv", "columns": NAMES, "delimiter": ";", "header": True, "encoding": "latin-1"}
HEADER = b"id;name;price;at;paid;seen"


def table_of(columns: dict[str, Any], **settings: Any) -> Shaped:
    """Return a pipeline of such lines as a file that declares these columns means it."""
    made = shaped(columns, exact=False, value=CSV, **settings)
    pipeline = made.pipeline.model_copy(update={"columns": from_text(made.pipeline.columns)})
    return Shaped(pipeline, KnownSchemas({None: CsvLines(NAMES, ";", True, "latin-1")}))


def test_fields_are_text_unless_they_are_declared() -> None:
    """Numbers, times and booleans as their text says them; an empty field is null, and quotes are none."""
    declared: dict[str, Any] = {"id": "long", "price": "decimal(10, 2)", "at": "timestamptz"}
    declared |= {"paid": "boolean", "seen": {"type": "timestamptz", "from": "epoch_ms"}, "city": "int"}
    declared |= {"twice": {"type": "long", "sql": "id * 2"}}
    table = table_of(declared)
    made = table.make(
        HEADER + b"\r\n",
        "1;Jürgen;9.50;2026-01-01T12:00:00Z;true;1767268800123".encode("latin-1"),
        HEADER + b'\n2;"a;""b""\nc";;;;',
        b'3;"";1;;false;\r\n',
    )
    assert letters(made) == []
    assert column(made, "_kafka_offset") == [1, 2, 3]
    assert column(made, "id") == [1, 2, 3]
    assert column(made, "name") == ["Jürgen", 'a;"b"\nc', None]
    assert column(made, "price") == [Decimal("9.50"), None, Decimal("1.00")]
    assert column(made, "at") == [datetime(2026, 1, 1, 12, tzinfo=UTC), None, None]
    assert column(made, "paid") == [True, None, False]
    assert column(made, "seen") == [datetime(2026, 1, 1, 12, 0, 0, 123000, tzinfo=UTC), None, None]
    assert column(made, "city") == [None] * 3
    assert column(made, "twice") == [2, 4, 6]
    assert {each.name: str(each.field_type) for each in table.schema.fields}["name"] == "string"
    assert (made.passed, made.balances[0].further) == ({HEADER_LINES: [0]}, {HEADER_LINES: 1})


def test_what_does_not_fit_is_a_dead_letter_that_says_why() -> None:
    """By fields, lines, quotes, bytes and declared types."""
    table = table_of({"id": "int", "seen": {"type": "date", "from": "epoch_s"}})
    values = [b"1;2", b"", b"1;a;b;c;d;\n2;a;b;c;d;", b'1;"a;b;c;d;', b'1;"a"b;c;d;e;', b"x;a;b;c;d;"]
    values += [HEADER + b"\n" + HEADER + b"\n", b"1;2;3;4;5;6;7", b"1;a;b;c;d;1.5"]
    made = table.make(*values)
    assert letters(made) == [
        (0, "decode", None, "fields in the line: 2, names: 6"),
        (1, "decode", None, "lines in the value: 0; a record is one"),
        (2, "decode", None, "lines in the value: 2; a record is one"),
        (3, "decode", None, "the value is not CSV: unexpected end of data"),
        (4, "decode", None, "the value is not CSV: ';' expected after '\"'"),
        (5, "transform", "id", "a string where the column has an integer"),
        (7, "decode", None, "fields in the line: 7, names: 6"),
        (8, "decode", "seen", "the schema's string in a column of long: 1.5"),
    ]
    assert column(made, "id") == []
    read_by_utf_8 = CsvLines(NAMES, ";").read(["1;Jürgen;;;;".encode("latin-1")])
    assert [each.error for each in read_by_utf_8.unread] == ["the value is not utf-8"]


def test_evidence_counts_rows_and_letters_and_no_header_line() -> None:
    """A first batch of header lines alone says nothing against the format."""
    decoder = table_of({}).maker.decoder
    assert decoder.observe(chunk_of([HEADER, b"1;2;3;4;5;6", b"1"])) == Evidence(records=1, undecodable=1)


def test_fields_of_megabytes_and_without_rows() -> None:
    """Where the reader's own limit would be, and a chunk without a row."""
    long = b"a" * 3_000_000
    assert CsvLines(("a",)).read([long]).table.column("a")[0].as_py() == long.decode()
    assert CsvLines(("a",)).read([]).table.schema == pa.schema([("a", pa.string())])


def test_an_archive_keeps_every_record() -> None:
    """Header lines are in it, with nothing read of them; so is what is no line."""
    made = Shaped(
        table_of({}, layout="archive", table_schema={}).pipeline,
        KnownSchemas({None: CsvLines(NAMES, ";", True, "latin-1")}),
    ).make(HEADER, b"1;2;3;4;5;6", b"x")
    values = column(made, "value")
    assert [value["__raw__"] for value in values] == [HEADER, b"1;2;3;4;5;6", b"x"]
    assert [value["id"] for value in values] == [None, "1", None]
    assert dict(made.ignored) == {"value": 1}


@pytest.mark.parametrize(
    ("written", "wrong", "told"),
    [
        ("{format: csv}", "value.columns", "a different name for each field"),
        ("{format: csv, columns: [a, b, a]}", "value.columns", "a different name for each field"),
        ("{format: csv, columns: [a, '']}", "value.columns", "a different name for each field"),
        ("{format: csv, columns: [_kafka_key]}", "value.columns", "a column that Sluice writes itself"),
        ("{format: csv, columns: [a], delimiter: '||'}", "value.delimiter", "Write one character"),
        ("{format: csv, columns: [a], delimiter: '\"'}", "value.delimiter", "Write one character"),
        ("{format: csv, columns: [a], encoding: base64}", "value.encoding", "not a text encoding"),
        ("{format: csv, columns: [a], encoding: latin-99}", "value.encoding", "Write latin-1, cp1252"),
        ("{format: csv, columns: [a], header: maybe}", "value.header", ""),
        ("{format: csv, columns: [a], registry: main}", "value.registry", "does not apply to format csv"),
        ("{delimiter: ';'}", "value.delimiter", "set format: csv"),
        ("{format: csv, columns: [a]}, columns: {a: 'list<int>'}", "columns.a", "csv fields are text"),
        (
            "{format: csv, columns: [a]}, columns: {a: {type: int, jmespath: b}}",
            "columns.a",
            "requires JSON values",
        ),
        ("{format: csv, columns: [a]}, layout: mirror", "value.format", "cannot be read as csv"),
        ("{}, key: {format: csv}", "key.format", "keys cannot be read as csv"),
    ],
)
def test_what_cannot_be_meant_of_csv_is_one_clear_line(
    tmp_path: Path, written: str, wrong: str, told: str
) -> None:
    """With the key it stands under."""
    (problem,) = read(tmp_path, written).problems
    assert f"pipelines.a.{wrong}" in str(problem)
    assert told in str(problem)


def test_what_holds_without_a_word_is_the_same_in_words(tmp_path: Path) -> None:
    """The same shape of rows; each other word is another one, and JSON beside such defaults is as it was."""
    says = ("", ", delimiter: ',', header: false, encoding: utf-8", ", delimiter: ';'", ", header: true")
    digests = []
    for said in (*says, ", encoding: latin-1"):
        config = read(tmp_path, f"{{format: csv, columns: [a, b]{said}}}, columns: {{a: int}}").config
        assert config is not None
        digests.append(shape_digest(config.pipelines[0], {}))
    assert digests[0] == digests[1]
    assert len({*digests}) == 4
    # Whoever reads it without a header finds records that could be rows.
    assert [digest.startswith(LEAVES_OUT) for digest in digests] == [False, False, False, True, False]
    beside = read(tmp_path, "{format: json}, columns: {a: int}", "value: {format: csv, columns: [a]}")
    assert beside.config is not None
    assert not beside.problems
    assert beside.config.pipelines[0].columns["a"].written_as is None
    assert "columns" not in KeySettings.model_fields
