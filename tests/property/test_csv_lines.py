"""Lines of CSV against what was written, and against the grammar of RFC 4180."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Iterator
from io import StringIO

from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.formats.csv.lines import HEADER_LINES, CsvLines
from spark_jobs.schema.writer_schema import NoRowError, UnreadableValueError

# SLUICE_EXAMPLES=100000 for a night of it.
_EXAMPLES = int(os.environ.get("SLUICE_EXAMPLES", "120"))
_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6) | st.text('a;"\r\n\0 ', max_size=4)
_LINES = CsvLines(("a", "b"), ";", has_header=True)


def plain_lines(text: str) -> Iterator[list[str]]:
    """Yield the fields of each line that is not blank; raise where the grammar has no such text."""
    field = re.compile(r'(?:"([^"]*(?:""[^"]*)*)"|((?!")[^;\r\n]*))(;|\r\n?|\n|\Z)')
    line: list[str] = []
    at = 0
    while at < len(text) or line:
        if (found := field.match(text, at)) is None:
            raise UnreadableValueError(text)
        quoted, bare, end = found.groups()
        line.append(bare if quoted is None else quoted.replace('""', '"'))
        at = found.end()
        if end != ";":
            if line != [""] or quoted is not None:
                yield line
            line = []


@settings(max_examples=_EXAMPLES, deadline=None)
@given(
    rows=st.lists(st.lists(_TEXT, min_size=2, max_size=2), max_size=4),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    delimiter=st.sampled_from([",", ";", "\t", "|", "§", " "]),
    end=st.sampled_from(["", "\n", "\r\n", "\n\n"]),
    encoding=st.sampled_from(["utf-8", "utf-16", "utf-8-sig", "cp037", "latin-1", "ascii"]),
)
def test_what_was_written_is_read(
    rows: list[list[str]], quoting: int, delimiter: str, end: str, encoding: str
) -> None:
    """Each record by itself, an empty field as null; what the encoding lacks is written otherwise."""
    rows = [[field.encode(encoding, "replace").decode(encoding) for field in row] for row in rows]
    delimiter = delimiter if delimiter.encode(encoding, "replace").decode(encoding) == delimiter else ","
    values = []
    for row in rows:
        file = StringIO(newline="")
        csv.writer(file, delimiter=delimiter, quoting=quoting).writerow(row)  # type: ignore[arg-type]
        values.append((file.getvalue().removesuffix("\r\n") + end).encode(encoding))
    lines = CsvLines(("a", "b"), delimiter, encoding=encoding)
    read = lines.read(values)
    expected = [dict(zip("ab", (field or None for field in row), strict=True)) for row in rows]
    assert (read.table.to_pylist(), read.rows, read.unread) == (expected, None, ())
    assert [lines.read_plain(value) for value in values] == expected


@settings(max_examples=_EXAMPLES * 4, deadline=None)
@given(texts=st.lists(st.text('ab;;"\r\n é', max_size=7) | st.text('a;b"\r\n', max_size=7), max_size=4))
def test_a_record_is_one_line_of_the_grammar(texts: list[str]) -> None:
    """Whatever stands beside it: else it is unread, or a header line that is passed over."""
    rows, unread, headers = {}, set(), []
    for index, text in enumerate(texts):
        try:
            lines = [*plain_lines(text)]
        except UnreadableValueError:
            lines = []
        said = [line for line in lines if line != ["a", "b"]]
        if lines and not said:
            headers.append(index)
        elif len(said) == 1 and len(said[0]) == 2:
            rows[index] = [field or None for field in said[0]]
        else:
            unread.add(index)
    read = _LINES.read([text.encode() for text in texts])
    assert [[*row.values()] for row in read.table.to_pylist()] == [*rows.values()]
    assert {each.index for each in read.unread} == unread
    assert [*read.passed.get(HEADER_LINES, ())] == headers
    assert (read.rows is None) == (len(rows) == len(texts))


@settings(max_examples=_EXAMPLES, deadline=None)
@given(
    values=st.lists(st.binary(max_size=12), max_size=4),
    encoding=st.sampled_from(["utf-8", "utf-7", "utf-16", "cp1252", "shift_jis", "utf-8-sig"]),
)
def test_any_bytes_are_a_row_or_unread(values: list[bytes], encoding: str) -> None:
    """Nothing else is raised, and read one by one they are the same."""
    lines = CsvLines(("a",), encoding=encoding)
    read = lines.read(values)
    for index, value in enumerate(values):
        try:
            row = lines.read_plain(value)
        except NoRowError:
            raise AssertionError("no header was spoken of") from None
        except UnreadableValueError as error:
            said = [each.error for each in read.unread if each.index == index]
            if said != [str(error)]:
                raise AssertionError(said) from error
        else:
            at = index if read.rows is None else read.rows.index(index)
            assert read.table.to_pylist()[at] == row
