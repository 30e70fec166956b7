"""A record of thousands of keys, drained: a letter beside rows, in a table that stays as it was."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from prove.lab.pipeline_lab import PIPELINE, configure
from tests.support.new_lab import DEAD_LETTERS, NewLab, as_json, column_types

if TYPE_CHECKING:
    from pathlib import Path

    from prove.lab.kafka_server import KafkaBroker

pytestmark = pytest.mark.kafka


def test_a_burst_leaves_the_table_as_it_was_and_comes_in_once_it_is_declared(
    kafka: KafkaBroker, tmp_path: Path
) -> None:
    """In the first batch and later, and ordinary new fields get their columns as ever."""
    huge = {f"k{n}": n for n in range(1_200)}
    wide = {f"w{n}": n for n in range(150)}
    new_lab = NewLab(kafka, "", tmp_path, is_here=True)
    lab = new_lab(as_json({"id": 0}, huge, {"id": 1, "o": {"a": 1}}))
    assert (lab.drain().balance.rows, set(column_types(lab))) == (2, {"id", "o"})
    new_lab.produce(
        lab, as_json({"id": 2, **wide}, {"id": 3, "o": huge}, {"id": 4, "note": "x", "o": {"b": 1}})
    )
    assert (lab.drain().balance.rows, set(column_types(lab))) == (1, {"id", "o", "note"})
    errors = lab.rows(DEAD_LETTERS)["error"].to_pylist()
    assert len(errors) == 3
    assert all("declare in `columns` what to keep" in error for error in errors)
    configure(lab, f"pipelines/{PIPELINE}", {"columns": dict.fromkeys(wide, "long")})
    lab.drain()
    lab.redrive()
    assert sorted(lab.rows()["id"].to_pylist()) == [0, 1, 2, 4]
    assert lab.rows(DEAD_LETTERS).num_rows == 2
    assert lab.audit().is_clean
