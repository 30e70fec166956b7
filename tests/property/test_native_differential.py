"""The WebAssembly module against the way in Python and the reference, over columns of all types."""

from __future__ import annotations

import os
from collections import Counter

import numpy as np
import pytest

from prove.hostile.json_corpus import SCHEMA, corpus
from spark_jobs.config.columns import GROWTH, Growth, NewFields
from spark_jobs.formats.json.block import decode_chunk, decode_in_python
from spark_jobs.formats.json.native import REASONS, take
from tests.support.json_reference import expected_known, expected_row, is_same
from tests.support.typed_json import Writer

# 20,000 records; SLUICE_RECORDS=10000000 and more seeds are for a night.
_RECORDS = int(os.environ.get("SLUICE_RECORDS", "20000"))
_AT_ONCE = 2_000


@pytest.mark.parametrize("first", range(0, _RECORDS, _AT_ONCE))
def test_every_value_that_is_taken_is_the_row_that_python_makes(first: int) -> None:
    """To the last bit, and none that Python refuses; half of what is written well is taken."""
    values = Writer(first).records(_AT_ONCE)
    taken = take(values, SCHEMA)
    assert taken is not None
    taken.table.validate(full=True)
    rows = np.flatnonzero(taken.left == 0).tolist()
    assert len(rows) > _AT_ONCE / 10
    python = decode_in_python([values[row] for row in rows], SCHEMA, GROWTH, frozenset())
    assert (python.new_fields, python.unread) == (None, ())
    assert python.table.equals(taken.table)
    for index, row in zip(rows, taken.table.to_pylist(), strict=True):
        assert is_same(row, expected_row(values[index], SCHEMA)), values[index]


def test_the_corpus_is_taken_and_left_as_it_says() -> None:
    """For each reason and into each column; what is taken is the row that Python and the reference make."""
    reasons, values = zip(*corpus(), strict=True)
    taken = take(values, SCHEMA)
    assert taken is not None
    assert [("row", *REASONS)[number] for number in taken.left.tolist()] == [*reasons]
    assert set(reasons) == {"row", *REASONS}
    assert all(column.null_count < len(column) for column in taken.table.columns)
    rows = [value for reason, value in zip(reasons, values, strict=True) if reason == "row"]
    assert decode_in_python(rows, SCHEMA, GROWTH, frozenset()).table.equals(taken.table)
    assert all(map(is_same, taken.table.to_pylist(), [expected_row(row, SCHEMA) for row in rows]))


@pytest.mark.parametrize(
    "values", [Writer(3).records(_AT_ONCE), [value for _, value in corpus()]], ids=["random", "corpus"]
)
def test_ignored_fields_are_counted_where_they_hold_a_value(values: list[bytes]) -> None:
    """The module, the way in Python and the reference agree on the rows and on how often which field is."""
    passed, growth = frozenset({"extra"}), Growth(NewFields.IGNORE)
    taken = take(values, SCHEMA, ignores=True, passed=passed)
    assert taken is not None
    expected = [expected_known(value, SCHEMA, passed) for value in values]
    rows = np.flatnonzero(taken.left == 0).tolist()
    assert all(map(is_same, taken.table.to_pylist(), [expected[row][0] for row in rows]))
    assert taken.ignored == sum((expected[row][1] for row in rows), Counter())
    assert len(taken.ignored) > 5
    both = decode_chunk(values, SCHEMA, growth, elsewhere=passed)
    python = decode_in_python(values, SCHEMA, growth, passed)
    assert (both.indices, both.ignored) == (python.indices, python.ignored)


def test_little_that_is_a_row_is_left() -> None:
    """Of the values that are left all but a few are no rows: the module is no excuse."""
    values = Writer(7).records(_AT_ONCE)
    taken = take(values, SCHEMA)
    assert taken is not None
    left = [values[row] for row in np.flatnonzero(taken.left)[:400]]
    rows = sum(decode_in_python([value], SCHEMA, GROWTH, frozenset()).table.num_rows for value in left)
    assert rows < 0.05 * len(left)
