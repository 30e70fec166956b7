"""Tables and rows as commands print them."""

from __future__ import annotations

import datetime as dt
import json
from typing import TYPE_CHECKING

import pyarrow as pa

from cli import output
from cli.commands.answers import print_answer
from spark_jobs.query.query import Answer

if TYPE_CHECKING:
    import pytest

ROWS = pa.table({"id": [1015, 2], "name": ["Ada", None], "_kafka_offset": [4711, 12]})


def _answer(rows: pa.Table) -> Answer:
    return Answer(rows.schema, iter(rows.to_batches()))


def test_a_word_of_a_header_and_a_number_are_never_broken(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is printed in however narrow a terminal; long texts are folded, and none is cut."""
    monkeypatch.setattr(output, "PIPE_WIDTH", 30)
    numbers = ("dead letters", "tombstones", "records/s")
    output.table(("where", *numbers), [("/a/long/path/to/a/table", *[1_336_776] * 3)], numbers=numbers)
    header, *lines = capsys.readouterr().out.splitlines()[1:]
    assert header.split() == ["where", "letters", "tombstones", "records/s"]
    assert lines[0].split()[1:] == ["1,336,776"] * 3
    assert "".join(line.split()[0] for line in lines) == "/a/long/path/to/a/table"
    output.table(("pipeline", *numbers), [("customers", *[1_336_776] * 3)], numbers=numbers)
    assert capsys.readouterr().out.splitlines()[-1].split()[0] == "customers"


def test_an_id_is_printed_as_it_is_typed(capsys: pytest.CaptureFixture[str]) -> None:
    """An answer's numbers may be keys or offsets, which no command and no SQL takes with commas."""
    print_answer(_answer(ROWS), None, as_json=False, as_csv=False)
    assert capsys.readouterr().out.splitlines()[1].split() == ["1015", "Ada", "4711"]


def test_of_many_columns_no_value_is_broken_within_a_word(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Times are whole, text goes on between words, and what is one long word is cut and says so."""
    monkeypatch.setattr(output, "PIPE_WIDTH", 60)
    at, document = dt.datetime(2026, 11, 28, 7, 40, 52, 804000, dt.UTC), json.dumps({"a": "b" * 90})
    rows = pa.table({"at": [at], "text": ["some words of a text"], "raw": [document.replace(" ", "")]})
    print_answer(_answer(rows), None, as_json=False, as_csv=False)
    words = set(capsys.readouterr().out.split())
    assert {"2026-11-28T07:40:52.804000+00:00", "some", "words", "text"} <= words
    assert [word for word in words if word.startswith('{"a":"b') and word.endswith("…")]


def test_a_row_that_was_looked_up_is_printed_vertically(capsys: pytest.CaptureFixture[str]) -> None:
    """A line a column, rows apart, nothing folded; and words where no row has the key."""
    print_answer(_answer(ROWS), None, as_json=False, as_csv=False, is_vertical=True)
    assert capsys.readouterr().out == (
        "id             1015\nname           Ada\n_kafka_offset  4711\n\n"
        "id             2\nname           null\n_kafka_offset  12\n"
    )
    print_answer(_answer(ROWS.slice(0, 0)), None, as_json=False, as_csv=False, is_vertical=True)
    assert capsys.readouterr().out == "no row has this key\n"
