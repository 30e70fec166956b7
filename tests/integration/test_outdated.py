"""Rows that an earlier configuration made are told from wrong ones, with the line that applies today's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from prove.lab.pipeline_lab import PIPELINE, configure, progress
from spark_jobs.lake.row_filters import equals
from spark_jobs.protocol.offsets import OffsetRange
from tests.support.new_lab import as_json

if TYPE_CHECKING:
    from tests.support.new_lab import NewLab

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


def test_what_an_earlier_configuration_made_is_outdated_until_it_is_replayed(new_lab: NewLab) -> None:
    """A column declared later is null before: no error, whatever becomes of books and snapshots."""
    declared = {"id": "long"}
    lab = new_lab(as_json({"id": 0}), columns=declared, schema={"new_fields": "ignore"})
    lab.drain()
    new_lab.produce(lab, as_json(*({"id": n, "who": f"w{n}"} for n in range(1, 6))))
    lab.drain()
    assert [span.starts for span in progress(lab).shaped_by] == [{0: 0}]
    configure(lab, f"pipelines/{PIPELINE}", {"columns": {**declared, "who": "string"}})
    new_lab.produce(lab, as_json(*({"id": n, "who": f"w{n}"} for n in range(6, 11))))
    lab.drain()
    assert [span.starts for span in progress(lab).shaped_by] == [{0: 0}, {0: 6}]

    found = lab.audit()
    assert (found.is_clean, found.outdated, found.differing, found.missing) == (True, 5, 0, 0)
    assert found.outdated_mend(PIPELINE) == f'./sluice replay {PIPELINE} --range 0:0-6 --reason "..."'
    lab.table().delete(equals("id", 7), snapshot_properties={"sluice.attempt": "a defect"})
    lab.table().delete(equals("id", 2), snapshot_properties={"sluice.attempt": "a defect"})
    lost = lab.audit()
    assert (lost.is_clean, lost.outdated, lost.missing) == (False, 4, 2)

    lab.replay(OffsetRange(0, 0, 6), OffsetRange(0, 7, 8))
    assert len(progress(lab).shaped_by) == 1
    mended = lab.audit()
    assert (mended.is_clean, mended.outdated, mended.rows) == (True, 0, 11)
