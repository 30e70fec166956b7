"""Compaction of a mirror: what is deleted is in no file any more, and neither is what says so."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from prove.lab.debezium_events import Source
from prove.lab.kafka_server import Record
from tests.support.upkeep_lab import tidy

if TYPE_CHECKING:
    from tests.support.new_lab import NewLab

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

PLAIN = Source()


def test_deleted_rows_go_with_the_files_that_say_so(new_lab: NewLab) -> None:
    """Rows are in the order of their keys then, and drains go on from there."""
    lab = new_lab(layout="mirror")
    for numbers in ((5, 1, 4), (3, 2, 9), (1, 3), (4,)):
        new_lab.produce(lab, [Record(PLAIN.event("u", {"id": n}), key=PLAIN.key(n)) for n in numbers])
        replace(lab, is_here=True).drain()
    new_lab.produce(lab, [Record(PLAIN.event("d", None), key=PLAIN.key(9))])
    replace(lab, is_here=True).drain()
    done = tidy(lab, "compaction").tables[0]
    assert (done.before.rows, done.before.deleted_rows) == (10, 5)
    assert (done.after.rows, done.after.deleted_rows, done.after.data_files) == (5, 0, 1)
    assert done.after.delete_files == 0
    assert lab.rows().column("id").to_pylist() == [1, 2, 3, 4, 5]
    new_lab.produce(lab, [Record(PLAIN.event("d", None), key=PLAIN.key(2))])
    lab.drain()
    assert sorted(lab.rows().column("id").to_pylist()) == [1, 3, 4, 5]
